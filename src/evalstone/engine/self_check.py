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
from evalstone.engine.limits import Limits
from evalstone.engine.memory import largest_of
from evalstone.engine.plain import score_plain
from evalstone.engine.reference import token_logprobs
from evalstone.engine.spans import SpanBatch
from evalstone.engine.steps import attention_set_to
from evalstone.engine.trie import build_trie

PROBE_WINDOW = 64
SPREADS_ALLOWED = 3.0
BEYOND = 32  # tokens of a long probe past a model's window
OPERATIONS_CPU, OPERATIONS_CUDA = 2e10, 4e14  # of a long probe: about a second, where it is as large as that
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


def make_long_probe(vocab_size: int, length: int) -> SpanBatch:
    """Return two sequences of `length` tokens that part near their ends, and a short one; the last tokens are scored.

    A fault that begins beyond a length shows in the long ones, and one that comes of sharing a batch in the short one.
    """
    pattern = (np.arange(length + 2 * BEYOND, dtype=np.int64) * 7919 + 13) % vocab_size
    branch = np.concatenate([pattern[: length - BEYOND // 2], pattern[length : length + BEYOND // 2]])
    asked = [(pattern[:length], BEYOND), (branch, BEYOND // 2), (pattern[length : length + BEYOND // 2], BEYOND // 4)]
    sequences = [part[:stop].tolist() for part, n in asked for stop in range(part.size - n + 1, part.size + 1)]
    return SpanBatch.from_lists(sequences, [1] * len(sequences))


def long_probe_length(limits: Limits, config: Any, n_parameters: int, device: torch.device) -> int | None:
    """Return the length of the longest probe that passes one of the model's windows and is affordable; None for none.

    Ten passes of it are made, each of two operations a parameter and token, and attention's on top.
    """
    width, layers = largest_of(config, "hidden_size", "n_embd"), largest_of(config, "num_hidden_layers", "n_layer")
    budget = OPERATIONS_CUDA if device.type == "cuda" else OPERATIONS_CPU
    for window in sorted(limits.windows, reverse=True):
        length = window + BEYOND
        if limits.max_length is not None and length > limits.max_length:
            continue
        if 10 * length * (2 * n_parameters + 4 * length * width * layers) <= budget:
            return length
    return None


def longest_input(probe: SpanBatch) -> int:
    """Return the number of tokens that the longest sequence is put in with."""
    return int(np.diff(probe.offsets).max()) - 1


def whole_sequences(probe: SpanBatch) -> list[int]:
    """Return the probe's spans that are no prefix of the next: one for each branch."""
    lengths = np.diff(probe.offsets)
    return [i for i in range(len(probe)) if i + 1 == len(probe) or lengths[i + 1] <= lengths[i]]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the model says by itself: each probe span's log-probability, and how far that moves by itself.

    Shapes: alone float64 [n]. Units: nats a token.
    """

    probe: SpanBatch
    alone: FloatArray
    spread: float
    may_batch: bool


def measure(model: Any, probe: SpanBatch, batch_limit: int | None = None) -> Truth:
    """Return the truth about the probe, from the model as it came.

    A probe longer than `batch_limit` is never put into a padded batch, so that is not tried.
    """
    with _quiet():
        alone = _reference(model, probe)
        spread = _spread_of_kernels(model, probe, alone)
        if batch_limit is not None and longest_input(probe) > batch_limit:
            return Truth(probe, alone, spread, may_batch=True)
        may_batch, spread = _spread_of_batches(model, probe, alone, spread)
    return Truth(probe, alone, spread, may_batch)


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


def check(model: Any, head: Head | None, truth: Truth, window_tokens: int) -> CheckResult:
    """Return whether the trie path, in windows of this size, is right for this model on these weights."""
    alone, may_batch, spread = truth.alone, truth.may_batch, truth.spread
    if head is None:
        return CheckResult("plain", "the model's body and head cannot be told apart", may_batch)
    try:
        with _quiet():
            trie = _trie(head, truth.probe, window_tokens)
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


def _spread_of_kernels(model: Any, probe: SpanBatch, alone: FloatArray) -> float:
    """Return how far the plain path moves by itself between attention kernels."""
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
    return spread


def _spread_of_batches(model: Any, probe: SpanBatch, alone: FloatArray, spread: float) -> tuple[bool, float]:
    """Return whether padded batches are right, and how far the plain path moves by itself with them as well."""
    finite = np.isfinite(alone)
    floor = _floor(model, alone[finite]) if finite.any() else 0.0
    try:
        moved = np.abs(_plain(model, probe) - alone)[finite]
    except Exception:  # noqa: BLE001 - a model that cannot be batched is run one by one
        return False, spread
    batched = float(moved.max(initial=0.0))
    if not batched <= 10.0 * floor + SPREADS_ALLOWED * spread:
        return False, spread
    return True, max(spread, batched)


def _trie(head: Head, probe: SpanBatch, window_tokens: int) -> FloatArray:
    """Return the same by the trie path.

    Asked about every position at once, and again about every third, where the last layer is computed in part.
    """
    result = np.zeros(len(probe))
    for chosen in (np.arange(len(probe)), np.arange(0, len(probe), 3)):
        trie = build_trie(probe.subset(chosen))
        for window in score_trie(head, trie, window_tokens):
            result[chosen[trie.ask_spans[window.first_ask : window.last_ask]]] = window.logprobs
    return result
