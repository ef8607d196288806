"""Before an engine is used it checks itself on the very weights it loaded.

A branching probe goes through the trie path and through the model's own plain path. How far the plain path itself
moves between attention kernels and batch sizes, in this dtype, is the measure of what difference means nothing; three
times that is allowed. Otherwise the plain path is used, and the reason is kept with every result.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from evalstone.engine.forward import score_trie
from evalstone.engine.head import Head
from evalstone.engine.plain import score_plain
from evalstone.engine.reference import token_logprobs
from evalstone.engine.spans import SpanBatch
from evalstone.engine.steps import attention_set_to
from evalstone.engine.trie import build_trie

PROBE_WINDOW = 64
SPREADS_ALLOWED = 3.0
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What the check found: the path to use and why, and whether plain batches may be padded."""

    path: str
    why: str
    may_batch: bool


def make_probe(vocab_size: int, max_length: int | None, text_tokens: Sequence[int] = ()) -> SpanBatch:
    """Return a small branching set of sequences, every position of it scored by itself.

    `text_tokens`, real text in the model's own tokens, is used as far as it goes; a fixed pattern fills the rest.
    """
    trunk = min(40, (max_length or 100) // 2)
    tail = min(24, max(2, (max_length or 100) // 2 - 1))
    need = trunk + 4 * tail
    ids = np.asarray(text_tokens[:need], dtype=np.int64)
    pattern = (np.arange(need - ids.size, dtype=np.int64) * 7919 + 13) % vocab_size
    ids = np.concatenate([ids, pattern]) % vocab_size
    sequences: list[list[int]] = []
    for branch, fork in enumerate((trunk, trunk, trunk // 2, 1)):
        part = ids[trunk + branch * tail : trunk + (branch + 1) * tail]
        sequence = np.concatenate([ids[:fork], part])
        sequences.extend(sequence[:length].tolist() for length in range(2, sequence.size + 1))
    return SpanBatch.from_lists(sequences, [1] * len(sequences))


def whole_sequences(probe: SpanBatch) -> list[int]:
    """Return the probe's spans that are no prefix of the next: one for each branch."""
    lengths = np.diff(probe.offsets)
    return [i for i in range(len(probe)) if i + 1 == len(probe) or lengths[i + 1] <= lengths[i]]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the model says by itself: each probe span's log-probability, and how far that moves by itself.

    Shapes: alone float64 [n]. Units: nats a token.
    """

    alone: FloatArray
    spread: float
    may_batch: bool


def measure(model: Any, probe: SpanBatch) -> Truth:
    """Return the truth about the probe, from the model as it came."""
    with _quiet():
        alone = _reference(model, probe)
        may_batch, spread = _spread(model, probe, alone)
    return Truth(alone, spread, may_batch)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from warning about kernels and masks that are only being tried."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def check(model: Any, head: Head | None, probe: SpanBatch, truth: Truth) -> CheckResult:
    """Return whether the trie path is right for this model on these weights."""
    alone, may_batch, spread = truth.alone, truth.may_batch, truth.spread
    if head is None:
        return CheckResult("plain", "the model's body and head cannot be told apart", may_batch)
    try:
        with _quiet():
            trie = _trie(head, probe)
    except Exception as error:  # noqa: BLE001 - whatever a foreign model raises, the plain path is the answer
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        return CheckResult("plain", f"the trie path failed: {type(error).__name__}: {reason}"[:300], may_batch)
    finite = np.isfinite(alone)
    if not finite.any():
        return CheckResult("plain", "the probe's logits are not finite", may_batch)
    moved = float(np.abs(trie - alone)[finite].max()) if np.isfinite(trie[finite]).all() else float("inf")
    bound = SPREADS_ALLOWED * spread + _floor(model, alone[finite])
    said = f"differs from the plain path by {moved:.1e} nats a token; allowed {bound:.1e}"
    return CheckResult("trie" if moved <= bound else "plain", f"self-check: trie {said}", may_batch)


def _floor(model: Any, logprobs: FloatArray) -> float:
    """Return the difference that rounding alone explains, should the plain path happen not to move at all."""
    epsilon = torch.finfo(next(model.parameters()).dtype).eps
    return 4.0 * float(epsilon) * max(1.0, float(np.abs(logprobs).max()))


def _reference(model: Any, probe: SpanBatch) -> FloatArray:
    """Return each probe span's log-probability, each branch run alone.

    Shapes: float64 [n].
    """
    result = np.zeros(len(probe))
    done = 0
    for i in whole_sequences(probe):
        n = i + 1 - done
        result[done : i + 1] = token_logprobs(model, probe.sequence(i), n)[0]
        done = i + 1
    return result


def _plain(model: Any, probe: SpanBatch) -> FloatArray:
    """Return the same with all branches in one padded batch."""
    result = np.zeros(len(probe))
    ends = whole_sequences(probe)
    starts = [0, *(i + 1 for i in ends[:-1])]
    counts = [end + 1 - start for start, end in zip(starts, ends, strict=True)]
    whole = SpanBatch.from_lists([probe.sequence(i) for i in ends], counts)
    for scores in score_plain(model, whole, range(len(whole)), batch_tokens=1 << 20, numerics="float32"):
        result[starts[scores.span] : ends[scores.span] + 1] = scores.logprobs
    return result


def _spread(model: Any, probe: SpanBatch, alone: FloatArray) -> tuple[bool, float]:
    """Return whether padded batches are right, and how far the plain path moves by itself."""
    finite = np.isfinite(alone)
    floor = _floor(model, alone[finite]) if finite.any() else 0.0
    allowed = floor * (100.0 if next(model.parameters()).dtype == torch.float32 else 1.0)
    spread = 0.0
    for kernel in ("eager", "sdpa"):
        if kernel == model.config._attn_implementation:  # noqa: SLF001 - there is no public reader
            continue
        try:
            with attention_set_to(model, kernel):
                moved = np.abs(_reference(model, probe) - alone)[finite]
        except (ValueError, ImportError, RuntimeError, AttributeError):
            continue  # the model does not offer this kernel
        largest = float(moved.max(initial=0.0))
        if largest <= allowed:  # more is no rounding: a kernel that leaves something out is no measure
            spread = max(spread, largest)
    try:
        moved = np.abs(_plain(model, probe) - alone)[finite]
    except Exception:  # noqa: BLE001 - a model that cannot be batched is run one by one
        return False, spread
    batched = float(moved.max(initial=0.0))
    if not batched <= 10.0 * floor + SPREADS_ALLOWED * spread:
        return False, spread
    return True, max(spread, batched)


def _trie(head: Head, probe: SpanBatch) -> FloatArray:
    """Return the same by the trie path, in windows smaller than the probe.

    Asked about every position at once, and again about every third, where the last layer is computed in part.
    """
    result = np.zeros(len(probe))
    for chosen in (np.arange(len(probe)), np.arange(0, len(probe), 3)):
        trie = build_trie(probe.subset(chosen))
        for window in score_trie(head, trie, PROBE_WINDOW):
            result[chosen[trie.ask_spans[window.first_ask : window.last_ask]]] = window.logprobs
    return result
