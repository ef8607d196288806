"""Compute log-probabilities from hidden rows, without a [batch, seq, vocab] tensor.

Only rows with targets are projected to the vocabulary, a bounded number at a time. What a model does around its
projection (granite scales its logits, gemma2 caps them, minicpm scales the input) is preserved by calling the causal LM
itself with its body replaced by one that returns the chosen rows. In half precision the projection is computed in
float32, because logits rounded to bfloat16 are not float32 scores.
"""

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from assaymark.engine.attention import NAME, LayerAttention, window_in_progress
from assaymark.engine.projections import project_half
from assaymark.engine.steps import AttentionSwitch, forward_pass

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutputWithPast

LOGITS_AT_ONCE = (1 << 23) - 1024  # elements of logits per piece; glibc would map larger ones anew
ROWS_AT_LEAST = 32  # with fewer rows, reading the projection's weights dominates; pieces are multiples of it


@dataclass(frozen=True, slots=True)
class TargetScores:
    """The log-probabilities of target tokens, each after its row.

    Shapes: logprobs float32 [n_targets], not finite where the row's logits are not; is_best bool [n_targets].
    """

    logprobs: torch.Tensor
    is_best: torch.Tensor


class _GivenBody(torch.nn.Module):
    """Replaces a causal LM's body and returns an output that has already been computed."""

    def __init__(self, body: object, output: object) -> None:
        super().__init__()
        self.__dict__["body"] = body  # bypasses nn.Module's bookkeeping: it is not a submodule of this one
        self.output = output

    def __getattr__(self, name: str) -> torch.Tensor | torch.nn.Module:
        """Replace a part of the body as well, for models that call only that part (opt: `self.model.decoder`)."""
        part = getattr(self.__dict__["body"], name)
        return self if isinstance(part, torch.nn.Module) else part

    def forward(self, *_args: object, **_options: object) -> object:
        """Return the given output for any input."""
        return self.output


class Head:
    """A causal LM split into body and head: `run_body`, then `logits` of any rows of the result."""

    def __init__(self, model: "PreTrainedModel", body_name: str, numerics: str) -> None:
        self.model = model
        self.numerics = numerics
        self.body_name = body_name
        self.body = getattr(model, body_name)
        self.projection = model.get_output_embeddings()
        self.n_attention_calls: int | None = None
        """Attention calls of one pass through the body, known after the first pass; the last of them is special."""
        self._is_upcast = numerics == "float32" and self.projection.weight.dtype != torch.float32

    @cached_property
    def _switch(self) -> AttentionSwitch:
        return AttentionSwitch(self.model, NAME)

    @contextmanager
    def attending_through(self, window: LayerAttention) -> Iterator[None]:
        """Let the layers attend through `window` for one pass, while no other thread runs this model."""
        with forward_pass(self.model), self._switch.on(), window_in_progress(window):
            yield

    def run_body(self, **inputs: object) -> "BaseModelOutputWithPast":
        """Return the body's output, last hidden states included."""
        return self.body(**inputs)

    @contextmanager
    def _standing_in(self, output: "BaseModelOutputWithPast") -> Iterator[None]:
        """Replace the body by `output`, and a half-precision projection, inside the block."""
        modules = self.model._modules  # noqa: SLF001 - setattr would register parameters again at every call
        modules[self.body_name] = _GivenBody(self.body, output)
        try:
            with self._projecting():
                yield
        finally:
            modules[self.body_name] = self.body

    @contextmanager
    def _projecting(self) -> Iterator[None]:
        """Replace a half-precision projection by one in float32 inside the block."""
        if not self._is_upcast:
            yield
            return
        own = self.projection.__dict__.get("forward")
        self.projection.__dict__["forward"] = self._project_in_float
        try:
            yield
        finally:
            if own is None:
                self.projection.__dict__.pop("forward", None)
            else:
                self.projection.__dict__["forward"] = own

    def _project_in_float(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the projection in float32, bias included.

        Shapes: hidden [..., width]; result float32 [..., vocab].
        """
        bias = self.projection.bias
        result = project_half(hidden, self.projection.weight)
        return result if bias is None else result.add_(bias.float())

    def logits(self, output: "BaseModelOutputWithPast", hidden: torch.Tensor) -> torch.Tensor:
        """Return the causal LM's logits for hidden rows.

        Shapes: hidden [n_rows, width]; result [n_rows, vocab], float32 unless numerics is "model-dtype".
        """
        stand_in = copy.copy(output)
        stand_in.last_hidden_state = hidden[None]
        with self._standing_in(stand_in):
            dummy = torch.zeros(1, hidden.shape[0], dtype=torch.long, device=hidden.device)
            logits: torch.Tensor = self.model(input_ids=dummy, use_cache=False).logits[0]
        return logits if self.numerics == "model-dtype" else logits.float()

    @cached_property
    def _named_inputs(self) -> frozenset[str]:
        """The inputs that the causal LM names, and so passes on to its body."""
        return frozenset(inspect.signature(self.model.forward).parameters)

    def logits_of_all(self, **inputs: object) -> torch.Tensor:
        """Return the logits after every token of a pass, in one call of the causal LM where it takes these inputs.

        Shapes: inputs [1, n]; result [n, vocab], float32 unless numerics is "model-dtype".
        """
        if not self._named_inputs.issuperset(inputs):
            output = self.run_body(**inputs)
            return self.logits(output, output.last_hidden_state[0])
        with self._projecting():
            logits: torch.Tensor = self.model(**inputs).logits[0]
        return logits if self.numerics == "model-dtype" else logits.float()

    def score(
        self,
        output: "BaseModelOutputWithPast",
        hidden: torch.Tensor,
        target_rows: torch.Tensor,
        target_tokens: torch.Tensor,
    ) -> TargetScores:
        """Return the log-probability of each target after its row.

        Shapes: hidden [n_rows, width]; target_rows int64 [n_targets], ascending; target_tokens int64 [n_targets].
        """
        vocab = int(self.projection.weight.shape[0])
        step = max(1, LOGITS_AT_ONCE // vocab // ROWS_AT_LEAST) * ROWS_AT_LEAST
        edges = [*range(0, hidden.shape[0], step), hidden.shape[0]]
        bounds = torch.searchsorted(target_rows, torch.tensor(edges, device=target_rows.device)).tolist()
        pieces = []
        for first, last, a, b in zip(edges[:-1], edges[1:], bounds[:-1], bounds[1:], strict=True):
            logits = self.logits(output, hidden[first:last])
            pieces.append(score_rows(logits, target_rows[a:b] - first, target_tokens[a:b]))
        logprobs, is_best = (torch.cat(part) for part in zip(*pieces, strict=True))
        return TargetScores(logprobs, is_best)


def score_rows(
    logits: torch.Tensor, target_rows: torch.Tensor, target_tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-softmax of `logits` at the targets, and whether each is the row's (first) argmax.

    The softmax is computed in the dtype of the logits. The logits are overwritten.
    Shapes: logits [n_rows, vocab]; target_rows, target_tokens int64 [n_targets]; results float32, bool [n_targets].
    """
    best = logits.amax(dim=-1)  # [n_rows]
    chosen = logits[target_rows, target_tokens]  # [n_targets]
    is_best = chosen == best[target_rows]
    if bool(is_best.any()):  # equal values: the first position is the argmax
        rows = target_rows[is_best]
        is_best[is_best.clone()] = logits[rows].argmax(dim=-1) == target_tokens[is_best]
    if logits.dtype != torch.float32:
        logprobs = torch.log_softmax(logits, dim=-1)[target_rows, target_tokens]
        return logprobs.float(), is_best
    spread = logits.sub_(best[:, None]).exp_().sum(dim=-1).log_()  # log of the sum relative to the best
    return (chosen - best[target_rows]) - spread[target_rows], is_best


def take_apart(model: "PreTrainedModel", numerics: str) -> Head | None:
    """Return the model as body and head, or None if the two cannot be separated.

    The body is the one child that contains the input embedding, whatever its name.
    """
    projection = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if projection is None or getattr(projection, "weight", None) is None:
        return None
    embedding = model.get_input_embeddings()
    bodies = [
        name
        for name, child in model.named_children()
        if child is not projection and any(module is embedding for module in child.modules())
    ]
    return Head(model, bodies[0], numerics) if len(bodies) == 1 else None
