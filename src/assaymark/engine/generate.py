"""Continuous batching: prompts are processed once, then every slot generates, and a free slot is refilled at once.

A step passes one token of each slot through the model, packed along the sequence axis with its own position. No
sequence waits for the slowest: one that ends leaves in the same step, and the next prompt takes its slot.

One decoding pass: the newest token of each slot goes through the model, packed along the sequence axis.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from assaymark.engine.adjustments import Adjustment, adjust
from assaymark.engine.generation import (
    FinishReason,
    GeneratedSequence,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
    RepeatStop,
    StepObserver,
    StopCheck,
    uniform,
)
from assaymark.engine.head import Head
from assaymark.engine.prefill import Prefill, ReadPrompt
from assaymark.engine.sampling import choose, penalise
from assaymark.engine.sharing import PromptTrie
from assaymark.engine.slots import ROWS_ADDED, DecodeStep, SlotTable
from assaymark.errors import NonFiniteLogits


@torch.inference_mode()
def next_logits(head: Head, table: SlotTable, tokens: Sequence[int]) -> torch.Tensor:
    """Return the logits after each slot's newest token, and add that token's rows to its slot.

    Shapes: tokens [n slots in use]; result [n slots in use, vocab].
    """
    device = head.projection.weight.device
    step = DecodeStep(table, device)
    with head.attending_through(step):
        logits = head.logits_of_all(
            input_ids=torch.as_tensor(np.asarray(tokens, dtype=np.int64), device=device)[None],
            position_ids=torch.as_tensor(table.depths, device=device)[None],
            attention_mask=torch.ones(1, table.n, dtype=torch.long, device=device),
            use_cache=False,
        )
    step.commit()
    return logits


Result = GeneratedSequence | GenerationFailure


@dataclass(slots=True, eq=False)
class RunningSequence:
    """One continuation in progress. index: that of its result."""

    index: int
    repeat: int
    prompt: GenerationPrompt
    stop: RepeatStop | None = None
    adjustment: Adjustment | None = None
    tokens: list[int] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)  # tokens of prompt and continuation; only filled for a penalty

    def __post_init__(self) -> None:
        """Fill `seen`."""
        if self.prompt.repetition_penalty != 1.0:
            self.seen.update(self.prompt.tokens.tolist())

    @property
    def number(self) -> float:
        """The random number of its next token; 0 if none is needed."""
        own = self.prompt
        return 0.0 if own.sampling is None else uniform(own.seed, own.key, self.repeat, len(self.tokens))

    def add(self, token: int) -> FinishReason | None:
        """Add a token; return why it ends the sequence, None if that continues."""
        self.tokens.append(token)
        if self.prompt.repetition_penalty != 1.0:
            self.seen.add(token)
        if token in self.prompt.eos_ids:
            return "eos"
        if self.stop is not None and self.stop(self.repeat, self.tokens):
            return "stop"
        return "length" if len(self.tokens) >= self.prompt.max_new_tokens else None


def add_tokens(logits: torch.Tensor, sequences: Sequence[RunningSequence]) -> list[Result | None]:
    """Choose the next token of each sequence and add it; return the results of those that end.

    Shapes: logits [n, vocab]; penalties and adjustments change them in place.
    """
    for row, sequence in enumerate(sequences):
        if sequence.prompt.repetition_penalty != 1.0:
            seen = torch.tensor(sorted(sequence.seen), device=logits.device)
            penalise(logits[row], seen, sequence.prompt.repetition_penalty)
        if sequence.adjustment is not None:
            adjust(logits[row], sequence.adjustment, sequence.repeat, sequence.tokens)
    tokens, finite = choose(logits, [each.prompt.sampling for each in sequences], [each.number for each in sequences])
    ends: list[Result | None] = []
    for sequence, token, is_finite in zip(sequences, tokens, finite, strict=True):
        if not is_finite:
            why = f"logits are not finite after {len(sequence.tokens)} tokens"
            ends.append(GenerationFailure(sequence.index, sequence.repeat, NonFiniteLogits, why))
            continue
        reason = sequence.add(token)
        done = reason and GeneratedSequence(sequence.index, sequence.repeat, tuple(sequence.tokens), reason)
        ends.append(done)
    return ends


class SlotGenerator:
    """Generates the continuations of prompts, step by step."""

    def __init__(
        self,
        head: Head,
        prompts: Sequence[GenerationPrompt],
        tries: PromptTrie,
        *,
        n_slots: int,
        window_tokens: int,
        stop: StopCheck | None = None,
        observe: StepObserver | None = None,
    ) -> None:
        self._head = head
        self._prompts = prompts
        self._stop = stop
        self._observe = observe
        self._members = tries.members
        self._prefill = Prefill(head, tries, window_tokens)
        most_now = tries.most_private([0] * len(prompts))
        most_rows = tries.most_private([p.max_new_tokens for p in prompts])
        self._table = SlotTable(n_slots, most_now + ROWS_ADDED, most_rows)
        self._running: list[RunningSequence] = []
        self._waiting: deque[tuple[ReadPrompt, RunningSequence]] = deque()
        self._n_generated = self._n_slot_steps = 0
        self._started = time.perf_counter()
        n_sequences = sum(len(p.repeats) for p in prompts)
        self._report = GenerationReport(0, tries.trie.n_nodes, 0, 0, 0, n_sequences, 0.0)

    def run(self) -> Iterator[list[Result]]:
        """Yield the results that each step finished, often none."""
        while True:
            finished = self._refill()
            if self._running:
                finished += self._step()
            self._report_progress(finished)
            yield finished
            if not self._running and not self._waiting and self._prefill.is_done:
                return

    @torch.inference_mode()
    def _refill(self) -> list[Result]:
        """Move processed prompts into free slots, processing more if none waits; return those that end at once."""
        finished: list[Result] = []
        while self._table.n < self._table.n_slots:
            while not self._waiting and not self._prefill.is_done:
                self._read()
            if not self._waiting:
                break
            n_free = self._table.n_slots - self._table.n
            chosen = [self._waiting.popleft() for _ in range(min(n_free, len(self._waiting)))]
            logits = torch.stack([read.logits for read, _ in chosen])
            ends = self._add_tokens(logits, [sequence for _, sequence in chosen])
            for (read, sequence), end in zip(chosen, ends, strict=True):
                if end is not None:
                    finished.append(end)
                    continue
                self._table.add(read.rows, read.start, read.chain)
                self._running.append(sequence)
        return finished

    def _read(self) -> None:
        """Process one window; every continuation of the prompts that end in it waits for a slot."""
        for read in self._prefill.read():
            for index in self._members[read.number]:
                prompt = self._prompts[index]
                stop = None if self._stop is None else partial(self._stop, index)
                self._waiting += [(read, RunningSequence(index, repeat, prompt, stop)) for repeat in prompt.repeats]
        if self._prefill.note is not None:
            self._report = replace(self._report, note=self._prefill.note)

    @torch.inference_mode()
    def _step(self) -> list[Result]:
        """Generate one token in each slot; return the sequences that end with it."""
        table = self._table
        logits = next_logits(self._head, table, [sequence.tokens[-1] for sequence in self._running])
        self._n_slot_steps += table.n
        ends = self._add_tokens(logits, self._running)
        finished = [end for end in ends if end is not None]
        for slot in range(table.n - 1, -1, -1):  # from the back, so that a sequence moved into a free slot continues
            if ends[slot] is not None:
                self._running[slot] = self._running[table.remove(slot)]
                self._running.pop()
        return finished

    def _add_tokens(self, logits: torch.Tensor, sequences: Sequence[RunningSequence]) -> list[Result | None]:
        ends = add_tokens(logits, sequences)
        self._n_generated += sum(not isinstance(end, GenerationFailure) for end in ends)
        return ends

    def _report_progress(self, finished: Sequence[Result]) -> None:
        """Count a step and report the progress."""
        self._report = replace(
            self._report,
            n_prompt_done=self._prefill.n_tokens_read,
            n_generated=self._n_generated,
            n_slot_steps=self._n_slot_steps,
            n_sequences_done=self._report.n_sequences_done + len(finished),
            seconds=time.perf_counter() - self._started,
        )
        if self._observe is not None:
            self._observe(self._report)
        self._report = replace(self._report, note=None)
