"""Check an engine on the loaded weights before it is used.

A branching probe is computed by the trie path and by the model's own plain path. The variation of the plain path itself
between attention kernels and batch sizes, in this dtype, measures which differences are meaningless; three times that
is allowed. Otherwise the plain path is used, and the reason is stored with every result.

The plain reference is one sequence, one forward pass, full logits, log-softmax in float32. Every fast path is tested
against it, so it shares nothing with them: no cache, no batch, no trie.

A check that has passed holds for exactly the facts of `facts_of_check`. If one were missing there, an outdated check
would be believed, so more are listed than are likely to matter.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.forward import score_trie
from assaymark.engine.head import Head
from assaymark.engine.limits import LengthLimits
from assaymark.engine.memory import largest_of
from assaymark.engine.plain import score_plain
from assaymark.engine.spans import IntArray, SpanBatch
from assaymark.engine.steps import attention_set_to, forward_pass
from assaymark.engine.trie import build_trie

if TYPE_CHECKING:
    from transformers import PreTrainedModel
import hashlib
import json
import platform
from dataclasses import asdict
from functools import cache
from pathlib import Path

from assaymark.engine.options import EngineSettings
from assaymark.engine.weights import LoadedModel, library_versions


@torch.inference_mode()
def token_logprobs(
    model: "PreTrainedModel", tokens: IntArray, n_scored: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the log-probability of each of the last `n_scored` tokens, and whether it was the argmax.

    Shapes: tokens [length]; the model sees tokens[:-1], since the last predicts nothing; results [n_scored].
    Units:  nats; NaN where the logits are not finite (callers must reject it).
    """
    device = next(model.parameters()).device
    ids = torch.as_tensor(np.asarray(tokens, dtype=np.int64), device=device)
    with forward_pass(model):
        logits = model(input_ids=ids[None, :-1], use_cache=False).logits[0, -n_scored:].float()  # [S, V]
    targets = ids[-n_scored:]
    chosen = torch.log_softmax(logits, dim=-1).gather(1, targets[:, None])[:, 0]  # [S]
    is_best = logits.argmax(dim=-1) == targets
    return chosen.double().cpu().numpy(), is_best.cpu().numpy()


PROBE_WINDOW = 64
SPREADS_ALLOWED = 3.0
BEYOND = 32  # tokens of a long probe beyond a model's window
OPERATIONS_CPU, OPERATIONS_CUDA = 2e10, 4e14  # maximum cost of a long probe: about a second
FloatArray = npt.NDArray[np.float64]
CheckFacts = Mapping[str, str]
"""What the outcome of a check depends on: name -> value."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of the check: the path to use and why, and whether plain batches may be padded."""

    path: str
    why: str
    may_batch: bool


class CheckMemory(Protocol):
    """Remembers the checks that models passed, by everything that their outcomes depend on."""

    def find(self, facts: CheckFacts) -> CheckResult | None:
        """Return the outcome of the passed check with exactly these facts, None if there is none to be believed."""

    def add(self, facts: CheckFacts, passed: CheckResult) -> None:
        """Remember a passed check; where that is not possible, the next load checks again."""


def make_probe(vocab_size: int, max_length: int | None, text_tokens: Sequence[int] = ()) -> SpanBatch:
    """Return a small branching set of sequences, with every position scored separately.

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
    """Return two sequences of `length` tokens that diverge near their ends, and a short one, to score the last tokens.

    An error beyond some length shows in the long ones, and one caused by sharing a batch in the short one.
    """
    pattern = (np.arange(length + 2 * BEYOND, dtype=np.int64) * 7919 + 13) % vocab_size
    branch = np.concatenate([pattern[: length - BEYOND // 2], pattern[length : length + BEYOND // 2]])
    parts = [(pattern[:length], BEYOND), (branch, BEYOND // 2), (pattern[length : length + BEYOND // 2], BEYOND // 4)]
    sequences = [part[:stop].tolist() for part, n in parts for stop in range(part.size - n + 1, part.size + 1)]
    return SpanBatch.from_lists(sequences, [1] * len(sequences))


def long_probe_length(limits: LengthLimits, config: object, n_parameters: int, device: torch.device) -> int | None:
    """Return the length of the longest affordable probe that exceeds one of the model's windows, or None.

    It is computed ten times, each with two operations per parameter and token, plus attention's.
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
    """Return the number of input tokens of the longest sequence."""
    return int(np.diff(probe.offsets).max()) - 1


def whole_sequences(probe: SpanBatch) -> list[int]:
    """Return the probe's spans that are not a prefix of the next: one per branch."""
    lengths = np.diff(probe.offsets)
    return [i for i in range(len(probe)) if i + 1 == len(probe) or lengths[i + 1] <= lengths[i]]


@dataclass(frozen=True, slots=True)
class ProbeReference:
    """The reference for a probe: each span's log-probability, and the plain path's own variation.

    Shapes: alone float64 [n]. Units: nats per token.
    """

    probe: SpanBatch
    alone: FloatArray
    spread: float
    may_batch: bool


def measure(model: "PreTrainedModel", probe: SpanBatch, batch_limit: int | None = None) -> ProbeReference:
    """Return the reference for the probe, computed by the unchanged model.

    A probe longer than `batch_limit` is never put into a padded batch, so that is not tested.
    """
    with _quiet():
        alone = _reference(model, probe)
        spread = _spread_of_kernels(model, probe, alone)
        if batch_limit is not None and longest_input(probe) > batch_limit:
            return ProbeReference(probe, alone, spread, may_batch=True)
        may_batch, spread = _spread_of_batches(model, probe, alone, spread)
    return ProbeReference(probe, alone, spread, may_batch)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress transformers' warnings about kernels and masks that are only being tested."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def check(model: "PreTrainedModel", head: Head | None, reference: ProbeReference, window_tokens: int) -> CheckResult:
    """Return whether the trie path, in windows of this size, is correct for this model with these weights."""
    alone, may_batch, spread = reference.alone, reference.may_batch, reference.spread
    if head is None:
        return CheckResult("plain", "the model's body and head cannot be separated", may_batch)
    try:
        with _quiet():
            trie = _trie(head, reference.probe, window_tokens)
    except Exception as error:  # noqa: BLE001 - any error of a foreign model means the plain path
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        return CheckResult("plain", f"the trie path failed: {type(error).__name__}: {reason}"[:300], may_batch)
    finite = np.isfinite(alone)
    if not finite.any():
        return CheckResult("plain", "the probe's logits are not finite", may_batch)
    moved = float(np.abs(trie - alone)[finite].max()) if np.isfinite(trie[finite]).all() else float("inf")
    bound = SPREADS_ALLOWED * spread + _rounding_error(model, alone[finite])
    said = f"differs from the plain path by {moved:.1e} nats per token; allowed {bound:.1e}"
    return CheckResult("trie" if moved <= bound else "plain", f"self-check: trie {said}", may_batch)


def _rounding_error(model: "PreTrainedModel", logprobs: FloatArray) -> float:
    """Return the difference that rounding alone explains, in case the plain path does not vary at all."""
    epsilon = torch.finfo(next(model.parameters()).dtype).eps
    return 4.0 * float(epsilon) * max(1.0, float(np.abs(logprobs).max()))


def _reference(model: "PreTrainedModel", probe: SpanBatch) -> FloatArray:
    """Return each probe span's log-probability, with each branch computed alone.

    Shapes: float64 [n].
    """
    result = np.zeros(len(probe))
    done = 0
    for i in whole_sequences(probe):
        n = i + 1 - done
        result[done : i + 1] = token_logprobs(model, probe.sequence(i), n)[0]
        done = i + 1
    return result


def _plain(model: "PreTrainedModel", probe: SpanBatch) -> FloatArray:
    """Return the log-probabilities with all branches in one padded batch."""
    result = np.zeros(len(probe))
    ends = whole_sequences(probe)
    starts = [0, *(i + 1 for i in ends[:-1])]
    counts = [end + 1 - start for start, end in zip(starts, ends, strict=True)]
    whole = SpanBatch.from_lists([probe.sequence(i) for i in ends], counts)
    for scores in score_plain(model, whole, range(len(whole)), batch_tokens=1 << 20, numerics="float32"):
        result[starts[scores.span] : ends[scores.span] + 1] = scores.logprobs
    return result


def _spread_of_kernels(model: "PreTrainedModel", probe: SpanBatch, alone: FloatArray) -> float:
    """Return the variation of the plain path between attention kernels."""
    finite = np.isfinite(alone)
    rounding = _rounding_error(model, alone[finite]) if finite.any() else 0.0
    allowed = rounding * (100.0 if next(model.parameters()).dtype == torch.float32 else 1.0)
    spread = 0.0
    for kernel in ("eager", "sdpa"):
        if kernel == model.config._attn_implementation:  # noqa: SLF001 - there is no public reader
            continue
        try:
            with attention_set_to(model, kernel):
                moved = np.abs(_reference(model, probe) - alone)[finite]
        except (ValueError, ImportError, RuntimeError, AttributeError):
            continue  # the model does not support this kernel
        largest = float(moved.max(initial=0.0))
        if largest <= allowed:  # a larger one is not rounding: the kernel omits something
            spread = max(spread, largest)
    return spread


def _spread_of_batches(
    model: "PreTrainedModel", probe: SpanBatch, alone: FloatArray, spread: float
) -> tuple[bool, float]:
    """Return whether padded batches are correct, and the variation of the plain path including them."""
    finite = np.isfinite(alone)
    rounding = _rounding_error(model, alone[finite]) if finite.any() else 0.0
    try:
        moved = np.abs(_plain(model, probe) - alone)[finite]
    except Exception:  # noqa: BLE001 - a model that cannot be batched is run one by one
        return False, spread
    batched = float(moved.max(initial=0.0))
    if not batched <= 10.0 * rounding + SPREADS_ALLOWED * spread:
        return False, spread
    return True, max(spread, batched)


def _trie(head: Head, probe: SpanBatch, window_tokens: int) -> FloatArray:
    """Return the log-probabilities computed by the trie path.

    Computed with targets at every position, and again at every third, for which the last layer is computed in part.
    """
    result = np.zeros(len(probe))
    for chosen in (np.arange(len(probe)), np.arange(0, len(probe), 3)):
        trie = build_trie(probe.subset(chosen))
        for window in score_trie(head, trie, window_tokens):
            result[chosen[trie.target_spans[window.first_target : window.last_target]]] = window.logprobs
    return result


def facts_of_check(loaded: LoadedModel, settings: EngineSettings, window_tokens: int) -> CheckFacts | None:
    """Return the facts of a check; None where the content of what runs is not known.

    That is so for a model of the caller, which may have been trained since, and for a repository's own code.
    """
    if settings.content is None or loaded.is_borrowed or settings.trust_remote_code:
        return None
    parameter, model = next(loaded.inner.parameters()), type(loaded.inner)
    return {
        "content": settings.content,
        "class": f"{model.__module__}.{model.__qualname__}",
        "adapter": f"{type(loaded.outer).__module__}.{type(loaded.outer).__qualname__}",
        "config": _digest(loaded.inner.config.to_dict()),
        "arguments": _digest(settings.model_kwargs),
        "limits": _digest(asdict(loaded.limits)),
        "attention": str(loaded.inner.config._attn_implementation),  # noqa: SLF001 - there is no public reader
        "dtype": str(parameter.dtype),
        "device": _describe_device(parameter.device),
        "numerics": settings.numerics,
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "window_tokens": str(window_tokens),
        "threads": str(torch.get_num_threads()),
        "versions": _digest(library_versions()),
        "python": platform.python_version(),
        "engine": source_digest(),
    }


def _describe_device(device: torch.device) -> str:
    """Return the kind of hardware: the same kernels run on another one of it."""
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        return f"cuda {facts.name} {facts.major}.{facts.minor}, CUDA {torch.version.cuda}"
    return f"{device.type} {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def source_digest() -> str:
    """Return the digest of the engine's own source, so that every change of it repeats the check."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
