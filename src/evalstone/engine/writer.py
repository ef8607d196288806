"""Which path writes which prompt, how many slots there are, and what the model's own generation_config asks for.

Prompts that the trie path carries go through slots; the others are written by transformers alone, one by one. Greedy
continuations of one prompt are the same, so one is written for all its repeats.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evalstone.engine.generate import Result, SlotWriter
from evalstone.engine.generate_plain import write_plain
from evalstone.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
    StepObserver,
    StopCheck,
)
from evalstone.engine.head import Head
from evalstone.engine.memory import cache_bytes, total_memory_bytes
from evalstone.engine.sharing import build_prompt_trie
from evalstone.engine.weights import LoadedModel
from evalstone.errors import PlanError, PromptTooLong

MOST_SLOTS_CPU, MOST_SLOTS_CUDA = 64, 256
SHARE_FOR_ROWS = 1 / 4  # of the device's memory, for keys and values of sequences being written
# On a CPU more slots pay little where keys and values are most of what a step reads, so they get no more than this, or
# what a few slots need.
ROWS_BYTES_CPU, FEWEST_SLOTS_CPU = 384 << 20, 16

OF_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
# What generate understands and slots do not: a value that changes something sends the prompt down the plain path.
ONLY_TRANSFORMERS: dict[str, Any] = {
    "bad_words_ids": None,
    "begin_suppress_tokens": None,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "guidance_scale": 1.0,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "remove_invalid_values": False,
    "renormalize_logits": False,
    "sequence_bias": None,
    "suppress_tokens": None,
}
REFUSED: dict[str, Any] = {
    "constraints": None,
    "dola_layers": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "penalty_alpha": None,
    "top_h": None,
    "typical_p": 1.0,
    "watermarking_config": None,
}


def changes(name: str, value: Any, table: dict[str, Any]) -> bool:
    """Return whether a setting of this table differs from doing nothing."""
    return name in table and value is not None and value != table[name] and value != []


def defaults_of(model: Any) -> GenerationDefaults:
    """Return what the generation_config of a loaded model says."""
    return defaults_of_config(getattr(model, "generation_config", None))


def defaults_of_config(config: Any) -> GenerationDefaults:
    """Return what a generation_config says, as far as it can change a greedy or sampled answer."""
    values = dict(config.to_dict()) if config is not None else {}
    eos = values.get("eos_token_id")
    ids = [] if eos is None else eos if isinstance(eos, list) else [eos]
    return GenerationDefaults(
        eos_ids=frozenset(int(each) for each in ids),
        repetition_penalty=float(values.get("repetition_penalty") or 1.0),
        sampling={name: values[name] for name in OF_SAMPLING if values.get(name) is not None},
        other={k: v for k, v in values.items() if changes(k, v, ONLY_TRANSFORMERS) or changes(k, v, REFUSED)},
    )


class Writer:
    """Writes continuations with one loaded model; without a head only plainly."""

    def __init__(
        self,
        loaded: LoadedModel,
        head: Head | None,
        *,
        window_tokens: int,
        n_slots: int | None,
    ) -> None:
        self._loaded = loaded
        self._head = head
        self._window = window_tokens
        self._n_slots = n_slots

    def write(
        self, prompts: Sequence[GenerationPrompt], stop: StopCheck | None, observe: StepObserver | None
    ) -> Iterator[list[Result]]:
        """Yield what is finished, step by step.

        Raises: PlanError for settings that no path has.
        """
        for prompt in prompts:
            _refuse(prompt, self._loaded.vocab_size)
        lengths = [prompt.tokens.size + prompt.max_new_tokens for prompt in prompts]
        limit = self._loaded.limits.max_length
        too_long = [i for i, n in enumerate(lengths) if limit is not None and n > limit]
        for i in too_long:
            reason = f"{prompts[i].tokens.size} tokens and {prompts[i].max_new_tokens} to be written; "
            reason += f"the model has {limit} positions: cut the prompt from the left or ask for less"
            yield [GenerationFailure(i, repeat, PromptTooLong, reason) for repeat in prompts[i].repeats]
        longest = self._loaded.limits.trie or max(lengths, default=0)
        left = [i for i in range(len(prompts)) if i not in set(too_long)]
        slotted = [i for i in left if self._head is not None and not prompts[i].other and lengths[i] <= longest]
        if slotted:
            yield from self._write_in_slots(prompts, slotted, stop, observe)
        plain = sorted(set(left) - set(slotted))
        if plain:
            yield from self._write_plainly(prompts, plain, stop, observe)

    def _most_slots(self, prompts: Sequence[GenerationPrompt]) -> int:
        """Return how many slots can be of use."""
        on_cpu = next(self._loaded.inner.parameters()).device.type == "cpu"
        most = self._n_slots or (MOST_SLOTS_CPU if on_cpu else MOST_SLOTS_CUDA)
        return min(most, self._loaded.limits.packed or most, sum(len(prompt.repeats) for prompt in prompts))

    def _slots_for(self, n_rows: int, most: int) -> int:
        """Return how many of `most` slots with `n_rows` rows of their own there is room for."""
        if self._n_slots is not None:
            return most
        parameter = next(self._loaded.inner.parameters())
        on_cpu = parameter.device.type == "cpu"
        each = cache_bytes(self._loaded.inner.config, n_rows, 4 if on_cpu else parameter.element_size())
        room = total_memory_bytes(parameter.device) * SHARE_FOR_ROWS
        if on_cpu:
            room = min(room, max(ROWS_BYTES_CPU, FEWEST_SLOTS_CPU * each))
        return max(1, min(most, int(room // max(each, 1))))

    def _write_in_slots(
        self,
        prompts: Sequence[GenerationPrompt],
        chosen: list[int],
        stop: StopCheck | None,
        observe: StepObserver | None,
    ) -> Iterator[list[Result]]:
        if self._head is None:
            raise PlanError("slots need the trie path")
        part = [_once(prompts[i]) for i in chosen]
        most = self._most_slots(part)
        tries = build_prompt_trie([p.tokens for p in part], [len(p.repeats) for p in part], most)
        n_rows = tries.most_private([p.max_new_tokens for p in part])
        writer = SlotWriter(
            self._head,
            part,
            tries,
            n_slots=self._slots_for(n_rows, most),
            window_tokens=self._window,
            stop=None if stop is None else lambda index, repeat, tokens: stop(chosen[index], repeat, tokens),
            observe=observe,
        )
        for finished in writer.run():
            named = [(one, chosen[one.index]) for one in finished]
            yield [each for one, index in named for each in _for_all(one, index, prompts[index])]

    def _write_plainly(
        self,
        prompts: Sequence[GenerationPrompt],
        chosen: list[int],
        stop: StopCheck | None,
        observe: StepObserver | None,
    ) -> Iterator[list[Result]]:
        started = time.perf_counter()
        n_read = n_written = n_done = 0
        n_prompt = sum(int(prompts[i].tokens.size) * len(_once(prompts[i]).repeats) for i in chosen)
        n_sequences = sum(len(_once(prompts[i]).repeats) for i in chosen)
        for i in chosen:
            for repeat in _once(prompts[i]).repeats:
                check = None if stop is None else _bound(stop, i, repeat)
                one = write_plain(self._loaded.outer, prompts[i], i, repeat, check)
                yield _for_all(one, i, prompts[i])
                n_read, n_done = n_read + int(prompts[i].tokens.size), n_done + 1
                n_written += len(one.tokens) if isinstance(one, GeneratedSequence) else 0
                if observe is not None:
                    seconds = time.perf_counter() - started
                    n_steps = max(0, n_written - n_done)
                    observe(GenerationReport(n_read, n_prompt, n_written, n_steps, n_done, n_sequences, seconds))


def _bound(stop: StopCheck, index: int, repeat: int) -> Callable[[Sequence[int]], bool]:
    return lambda tokens: stop(index, repeat, tokens)


def _once(prompt: GenerationPrompt) -> GenerationPrompt:
    """Return the prompt with one repeat where all would be the same."""
    is_greedy = prompt.sampling is None and len(prompt.repeats) > 1
    return replace(prompt, repeats=prompt.repeats[:1]) if is_greedy else prompt


def _for_all(one: Result, index: int, prompt: GenerationPrompt) -> list[Result]:
    """Return a result under its own index, for each repeat that it stands for."""
    repeats = prompt.repeats if prompt.sampling is None else (one.repeat,)
    return [replace(one, index=index, repeat=repeat) for repeat in repeats]


def _refuse(prompt: GenerationPrompt, vocab_size: int) -> None:
    """Refuse foreign tokens and settings that cannot be followed.

    Raises: PlanError.
    """
    low, high = int(np.min(prompt.tokens)), int(np.max(prompt.tokens))
    if low < 0 or high >= vocab_size:
        raise PlanError(
            f"a prompt holds token ids {low} to {high}; the model knows 0 to {vocab_size - 1}: is this the model's "
            "own tokenizer?"
        )
    for name, value in prompt.other.items():
        if changes(name, value, REFUSED):
            raise PlanError(f"{name}={value} is not supported: answers are written greedily or by plain sampling")
        if name not in ONLY_TRANSFORMERS and name not in REFUSED:
            raise PlanError(f"generation setting {name}={value} is unknown here; leave it out")
