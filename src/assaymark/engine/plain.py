"""The plain path: padded batches through the unchanged model, for models that the trie path does not support.

These are recurrent and convolutional models, attention biases by position, and sequences beyond the length from which
dynamic rotary embeddings change. Padding is on the right, where a causal model cannot see it; whether a model may be
batched at all is tested at load, otherwise it runs one sequence at a time. Equal inputs are computed once.

What the engines without a trie have in common: one loaded model, what it is, and its end.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.generation import GenerationDefaults
from assaymark.engine.generator import defaults_of
from assaymark.engine.head import LOGITS_AT_ONCE, score_rows
from assaymark.engine.memory import is_out_of_memory
from assaymark.engine.options import EngineInfo, EngineSettings
from assaymark.engine.spans import IntArray, SpanBatch
from assaymark.engine.steps import forward_pass
from assaymark.engine.trie import sorted_order
from assaymark.engine.weights import LoadedModel, library_versions
from assaymark.errors import ModelUnavailable

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class PlainEngine:
    """One loaded model that shares nothing between prompts.

    attention: the path, as runs record it. window_tokens: of one pass; 0: passes are not bounded.
    """

    def __init__(
        self, loaded: LoadedModel, settings: EngineSettings, *, attention: str, why: str, window_tokens: int = 0
    ) -> None:
        self._loaded: LoadedModel | None = loaded
        self._settings = settings
        parameter = next(loaded.inner.parameters())
        self.info = EngineInfo(
            device=str(parameter.device),
            dtype=str(parameter.dtype).removeprefix("torch."),
            numerics=settings.numerics,
            n_parameters=loaded.n_parameters,
            max_length=settings.max_length or loaded.limits.max_length,
            vocab_size=loaded.vocab_size,
            attention=attention,
            why=why,
            window_tokens=window_tokens,
            n_threads=torch.get_num_threads(),
            versions=library_versions(),
            note=loaded.limits.note,
        )

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """The defaults in the model's own generation_config."""
        return defaults_of(self._open().outer)

    def _open(self) -> LoadedModel:
        if self._loaded is None:
            raise ModelUnavailable("the engine is closed; load it again")
        return self._loaded

    def close(self) -> None:
        """Free the weights."""
        self._loaded = None


@dataclass(frozen=True, slots=True)
class PlainScores:
    """The scores of one span's tokens.

    Shapes: logprobs float64 and is_best bool [n_scored]. Units: nats.
    """

    span: int
    logprobs: npt.NDArray[np.float64]
    is_best: npt.NDArray[np.bool_]


def group_equal_inputs(spans: SpanBatch, indices: Sequence[int]) -> list[list[int]]:
    """Return the spans grouped by equal input (all tokens but the last), longest input first."""
    part = spans.subset(indices)
    groups: list[list[int]] = []
    before: bytes | None = None
    for position in sorted_order(part).tolist():
        key = part.sequence(position)[:-1].tobytes()
        if key != before:
            groups.append([])
        groups[-1].append(indices[position])
        before = key
    return sorted(groups, key=lambda group: -spans.sequence(group[0]).size)


def score_plain(
    model: "PreTrainedModel", spans: SpanBatch, indices: Sequence[int], *, batch_tokens: int, numerics: str
) -> Iterator[PlainScores]:
    """Yield the scores of these spans.

    `batch_tokens` limits a batch, padding included; 0 means one sequence at a time. If memory runs out it is halved.
    Raises: RuntimeError from torch if a single sequence does not fit.
    """
    groups = group_equal_inputs(spans, indices)
    takes_rows = "logits_to_keep" in inspect.signature(model.forward).parameters
    first = 0
    while first < len(groups):
        longest = spans.sequence(groups[first][0]).size - 1
        last = first + max(1, batch_tokens // max(longest, 1))
        batch = groups[first:last]
        try:
            with forward_pass(model):
                scores = list(_score_batch(model, spans, batch, takes_rows, numerics))
        except RuntimeError as error:
            if not is_out_of_memory(error) or len(batch) == 1:
                raise
            batch_tokens = longest * (len(batch) // 2)
            continue
        yield from scores
        first += len(batch)


def padded(sequences: Sequence[IntArray], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sequences as rows padded with 0 on the right, and 1 where they are real. Shapes: int64 [n, longest]."""
    width = max(part.size for part in sequences)
    ids = np.zeros((len(sequences), width), dtype=np.int64)
    real = np.zeros((len(sequences), width), dtype=np.int64)
    for row, part in enumerate(sequences):
        ids[row, : part.size] = part
        real[row, : part.size] = 1
    return torch.as_tensor(ids, device=device), torch.as_tensor(real, device=device)


@torch.inference_mode()
def _score_batch(
    model: "PreTrainedModel", spans: SpanBatch, groups: list[list[int]], takes_rows: bool, numerics: str
) -> Iterator[PlainScores]:
    """Run one padded batch; each group is one row of it, scored for all its spans."""
    device = next(model.parameters()).device
    inputs = [spans.sequence(group[0])[:-1] for group in groups]
    ids, real = padded(inputs, device)
    n_scored = [max(int(spans.n_scored[i]) for i in group) for group in groups]
    keep = ids.shape[1] - min(part.size - n for part, n in zip(inputs, n_scored, strict=True))
    options: dict[str, object] = {"use_cache": False}
    if len(inputs) > 1:
        options["attention_mask"] = real
    if takes_rows:
        options["logits_to_keep"] = keep
    logits = model(input_ids=ids, **options).logits[:, -keep:]
    for row, group in enumerate(groups):
        stop = keep - (ids.shape[1] - inputs[row].size)
        for index in group:
            n = int(spans.n_scored[index])
            yield _score_span(logits[row, stop - n : stop], spans, index, numerics)


def _score_span(logits: torch.Tensor, spans: SpanBatch, index: int, numerics: str) -> PlainScores:
    """Return the scores of one span from the logits of its rows.

    Shapes: logits [n_scored, vocab].
    """
    targets = torch.as_tensor(spans.sequence(index)[-logits.shape[0] :].astype(np.int64), device=logits.device)
    step = max(1, LOGITS_AT_ONCE // logits.shape[1])
    logprobs, is_best = [], []
    for first in range(0, logits.shape[0], step):
        piece = logits[first : first + step]
        piece = piece.clone() if numerics == "model-dtype" else piece.to(torch.float32, copy=True)
        rows = torch.arange(piece.shape[0], device=logits.device)
        values, best = score_rows(piece, rows, targets[first : first + step])
        logprobs.append(values.double().cpu().numpy())
        is_best.append(best.cpu().numpy())
    return PlainScores(index, np.concatenate(logprobs), np.concatenate(is_best))
