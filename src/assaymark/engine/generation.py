"""Input and output of generation: prompts of token ids with their settings, and generated token ids.

A prompt states how many tokens may be generated, what ends the text, and how each token is chosen. Random choices are
numbered, not drawn one after another: the number used at step t is a function of (seed, key, repeat, t) alone, so a
sequence does not depend on the other sequences in its batch.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assaymark.engine.spans import IntArray
from assaymark.errors import ModelError, PlanError

FinishReason = Literal["stop", "eos", "length"]
StopCheck = Callable[[int, int, Sequence[int]], bool]
"""Called after each token with prompt index, repeat and the tokens generated so far. True ends the sequence."""
RepeatStop = Callable[[int, Sequence[int]], bool]
"""The same of one prompt: called with the repeat and the tokens generated so far."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is sampled: first the temperature, then top-k, top-p and min-p; None disables a filter."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises: PlanError.
        """
        if not self.temperature > 0:
            raise PlanError(
                f"temperature={self.temperature}; sampling needs a value above 0 (0 is greedy: do_sample=False)"
            )
        if self.top_k is not None and self.top_k < 1:
            raise PlanError(f"top_k={self.top_k}; expected at least 1, or none")
        for name, value in (("top_p", self.top_p), ("min_p", self.min_p)):
            if value is not None and not 0 <= value <= 1:
                raise PlanError(f"{name}={value}; expected a share from 0 to 1, or none")


@dataclass(frozen=True, slots=True)
class GenerationPrompt:
    """One prompt with its generation settings.

    Shapes: tokens int32 [n], n >= 1.
    sampling: None is greedy. key: identifies the sample in the random numbers; repeats: which of them to generate.
    repetition_penalty: logits of tokens in the prompt or the generated text are divided by it (multiplied if negative).
    other: arguments of transformers' `generate` that only it supports; they send the prompt to the plain path.
    """

    tokens: IntArray
    max_new_tokens: int
    eos_ids: frozenset[int] = frozenset()
    sampling: Sampling | None = None
    seed: int = 0
    key: str = ""
    repeats: tuple[int, ...] = (0,)
    repetition_penalty: float = 1.0
    other: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the values.

        Raises: PlanError.
        """
        if self.tokens.size < 1 or self.max_new_tokens < 1 or not self.repeats:
            raise PlanError(
                f"a prompt of {self.tokens.size} tokens, {self.max_new_tokens} to generate, repeats {self.repeats}; "
                "expected at least one of each (replace an empty prompt by BOS or EOS)"
            )
        if not self.repetition_penalty > 0:
            raise PlanError(f"repetition_penalty={self.repetition_penalty}; expected a number above 0")


@dataclass(frozen=True, slots=True)
class GeneratedSequence:
    """The tokens generated for one prompt and repeat; an end token is the last of `tokens`."""

    index: int
    repeat: int
    tokens: tuple[int, ...]
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class GenerationFailure:
    """A prompt and repeat for which generation failed, and why; `kind` and `reason` as in SpanFailure."""

    index: int
    repeat: int
    kind: type[ModelError]
    reason: str


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """The defaults in a model's own generation_config.

    sampling contains those of temperature, top_k, top_p and min_p that are set; other contains everything that only
    transformers' `generate` supports.
    """

    eos_ids: frozenset[int] = frozenset()
    repetition_penalty: float = 1.0
    sampling: Mapping[str, float] = field(default_factory=dict)
    other: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenerationReport:
    """The progress of generation, after each step.

    Units: tokens. n_prompt_done counts distinct prompt tokens that have been processed; n_generated generated tokens;
    n_slot_steps slots computed in decoding steps. A sequence's first token comes from processing its prompt, so without
    waste n_slot_steps is n_generated less one for each sequence that has begun.
    """

    n_prompt_done: int
    n_prompt: int
    n_generated: int
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
