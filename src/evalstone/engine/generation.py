"""What the engine is asked to write and what it answers: token ids in, token ids out.

A prompt says how many tokens may be written, what ends the writing, and how each token is chosen. Random choices are
numbered, not drawn one after another: the number used at step t is a function of (seed, key, repeat, t) alone, so a
sequence does not depend on what else is written beside it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evalstone.engine.spans import IntArray
from evalstone.errors import ModelError, PlanError

FinishReason = Literal["stop", "eos", "length"]
StopCheck = Callable[[int, int, Sequence[int]], bool]
"""Asked after each token: prompt index, repeat, tokens written so far. True ends the sequence."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn: the temperature first, then top-k, top-p and min-p; None leaves a filter out."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises: PlanError.
        """
        if not self.temperature > 0:
            raise PlanError(
                f"temperature={self.temperature}; sampling needs one above 0 (0 is greedy: do_sample=False)"
            )
        if self.top_k is not None and self.top_k < 1:
            raise PlanError(f"top_k={self.top_k}; expected at least 1, or none")
        for name, value in (("top_p", self.top_p), ("min_p", self.min_p)):
            if value is not None and not 0 <= value <= 1:
                raise PlanError(f"{name}={value}; expected a share from 0 to 1, or none")


@dataclass(frozen=True, slots=True)
class GenerationPrompt:
    """One prompt and how it is to be continued.

    Shapes: tokens int32 [n], n >= 1.
    sampling: None is greedy. key: names the sample in the random numbers; repeats: which of them to write.
    repetition_penalty: logits of tokens that stand in the prompt or were written are divided (multiplied where
        negative) by it. other: arguments of transformers' `generate` that only it understands; they send the prompt
        down the plain path.
    """

    tokens: IntArray
    max_new_tokens: int
    eos_ids: frozenset[int] = frozenset()
    sampling: Sampling | None = None
    seed: int = 0
    key: str = ""
    repeats: tuple[int, ...] = (0,)
    repetition_penalty: float = 1.0
    other: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises: PlanError.
        """
        if self.tokens.size < 1 or self.max_new_tokens < 1 or not self.repeats:
            raise PlanError(
                f"a prompt of {self.tokens.size} tokens, {self.max_new_tokens} to be written, repeats {self.repeats}; "
                "expected at least one of each (put BOS or EOS in front of an empty prompt)"
            )
        if not self.repetition_penalty > 0:
            raise PlanError(f"repetition_penalty={self.repetition_penalty}; expected a number above 0")


@dataclass(frozen=True, slots=True)
class GeneratedSequence:
    """What was written for one prompt and repeat; an ending token is the last of `tokens`."""

    index: int
    repeat: int
    tokens: tuple[int, ...]
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class GenerationFailure:
    """A prompt and repeat for which nothing was written, and why; `kind` and `reason` as in SpanFailure."""

    index: int
    repeat: int
    kind: type[ModelError]
    reason: str


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """What a model's own generation_config says.

    sampling holds what it names of temperature, top_k, top_p and min_p; other holds everything that only
    transformers' `generate` understands.
    """

    eos_ids: frozenset[int] = frozenset()
    repetition_penalty: float = 1.0
    sampling: Mapping[str, float] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenerationReport:
    """How far writing has come, after each step.

    Units: tokens. n_prompt_done counts distinct prompt tokens that have been read; n_written tokens that were kept;
    n_slot_steps places computed in decoding steps. A sequence's first token comes from reading its prompt, so with
    nothing wasted n_slot_steps is n_written less one for each sequence that has begun.
    """

    n_prompt_done: int
    n_prompt: int
    n_written: int
    n_slot_steps: int
    n_sequences_done: int
    n_sequences: int
    seconds: float
    note: str | None = None


StepObserver = Callable[[GenerationReport], None]


def uniform(seed: int, key: str, repeat: int, step: int) -> float:
    """Return the random number of one step, in [0, 1): a function of its four names and of nothing else."""
    text = f"{seed}\x1f{key}\x1f{repeat}\x1f{step}"
    whole = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    return (whole >> 11) / (1 << 53)
