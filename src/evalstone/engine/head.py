"""From hidden rows to log-probabilities, without a [batch, seq, vocab] tensor.

Only rows that somebody asked about are projected to the vocabulary, a bounded number at a time. What a model does
around its projection (granite scales its logits, gemma2 caps them, minicpm scales what goes in) is kept by calling the
causal LM itself with its body replaced by one that returns the chosen rows. In half precision the projection is done
in float32, because logits rounded to bfloat16 are not float32 scores.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from evalstone.engine.attention import NAME, window_in_progress
from evalstone.engine.projections import project_half
from evalstone.engine.steps import AttentionSwitch, forward_pass

LOGITS_AT_ONCE = (1 << 23) - 1024  # elements of one piece of logits: just below what glibc would map anew each time
ROWS_AT_LEAST = 32  # below this the projection's weights are read for too few rows; pieces are multiples of it


@dataclass(frozen=True, slots=True)
class AskedScores:
    """Answers to asks "log-probability of target after row".

    Shapes: logprobs float32 [n_asks], not finite where the row's logits are not; is_best bool [n_asks].
    """

    logprobs: torch.Tensor
    is_best: torch.Tensor


class _GivenBody(torch.nn.Module):
    """Stands where a causal LM's body was and returns an output that has been computed already."""

    def __init__(self, body: Any, output: Any) -> None:
        super().__init__()
        self.__dict__["body"] = body  # past nn.Module's own bookkeeping: it is no part of this one
        self.output = output

    def __getattr__(self, name: str) -> Any:
        """Stand in for a part of the body as well, where a model calls only that (opt: `self.model.decoder`)."""
        part = getattr(self.__dict__["body"], name)
        return self if isinstance(part, torch.nn.Module) else part

    def forward(self, *_args: Any, **_options: Any) -> Any:
        """Return the given output whatever is asked."""
        return self.output


class Head:
    """A causal LM taken apart at its own seam: `run_body`, then `logits` of any rows of the result."""

    def __init__(self, model: Any, body_name: str, numerics: str) -> None:
        self.model = model
        self.numerics = numerics
        self.body_name = body_name
        self.body = getattr(model, body_name)
        self.projection = model.get_output_embeddings()
        self.n_attention_calls: int | None = None
        """Attention calls of one pass through the body, once a pass has been made; the last of them is special."""
        self._is_upcast = numerics == "float32" and self.projection.weight.dtype != torch.float32

    @cached_property
    def _switch(self) -> AttentionSwitch:
        return AttentionSwitch(self.model, NAME)

    @contextmanager
    def attending_through(self, window: Any) -> Iterator[None]:
        """Let the layers attend through `window` for one pass, while no other thread runs this model."""
        with forward_pass(self.model), self._switch.on(), window_in_progress(window):
            yield

    def run_body(self, **inputs: Any) -> Any:
        """Return the body's output, last hidden states included."""
        return self.body(**inputs)

    @contextmanager
    def _standing_in(self, output: Any) -> Iterator[None]:
        """Replace the body by `output`, and a half-precision projection by one in float32, for the time being."""
        modules = self.model._modules  # noqa: SLF001 - setattr would register parameters anew at every call
        modules[self.body_name] = _GivenBody(self.body, output)
        own = self.projection.__dict__.get("forward")
        if self._is_upcast:
            self.projection.__dict__["forward"] = self._project_in_float
        try:
            yield
        finally:
            modules[self.body_name] = self.body
            if own is None:
                self.projection.__dict__.pop("forward", None)
            else:
                self.projection.__dict__["forward"] = own

    def _project_in_float(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the projection in float32, the bias included.

        Shapes: hidden [..., width]; result float32 [..., vocab].
        """
        bias = self.projection.bias
        result = project_half(hidden, self.projection.weight)
        return result if bias is None else result.add_(bias.float())

    def logits(self, output: Any, hidden: torch.Tensor) -> torch.Tensor:
        """Return the causal LM's logits for hidden rows.

        Shapes: hidden [n_rows, width]; result [n_rows, vocab], float32 unless numerics is "model-dtype".
        """
        given = copy.copy(output)
        given.last_hidden_state = hidden[None]
        with self._standing_in(given):
            dummy = torch.zeros(1, hidden.shape[0], dtype=torch.long, device=hidden.device)
            logits: torch.Tensor = self.model(input_ids=dummy, use_cache=False).logits[0]
        return logits if self.numerics == "model-dtype" else logits.float()

    def score(
        self, output: Any, hidden: torch.Tensor, ask_rows: torch.Tensor, ask_targets: torch.Tensor
    ) -> AskedScores:
        """Return the log-probability of each asked target after its row.

        Shapes: hidden [n_rows, width]; ask_rows int64 [n_asks], ascending; ask_targets int64 [n_asks].
        """
        vocab = int(self.projection.weight.shape[0])
        step = max(1, LOGITS_AT_ONCE // vocab // ROWS_AT_LEAST) * ROWS_AT_LEAST
        edges = [*range(0, hidden.shape[0], step), hidden.shape[0]]
        bounds = torch.searchsorted(ask_rows, torch.tensor(edges, device=ask_rows.device)).tolist()
        pieces = []
        for first, last, a, b in zip(edges[:-1], edges[1:], bounds[:-1], bounds[1:], strict=True):
            logits = self.logits(output, hidden[first:last])
            pieces.append(score_rows(logits, ask_rows[a:b] - first, ask_targets[a:b]))
        logprobs, is_best = (torch.cat(part) for part in zip(*pieces, strict=True))
        return AskedScores(logprobs, is_best)


def score_rows(
    logits: torch.Tensor, ask_rows: torch.Tensor, ask_targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-softmax of `logits` at the asked places, and whether each is the row's (first) argmax.

    The softmax is taken in the dtype of the logits. The logits are overwritten.
    Shapes: logits [n_rows, vocab]; ask_rows, ask_targets int64 [n_asks]; results float32 and bool [n_asks].
    """
    best = logits.amax(dim=-1)  # [n_rows]
    chosen = logits[ask_rows, ask_targets]  # [n_asks]
    is_best = chosen == best[ask_rows]
    if bool(is_best.any()):  # equal values: the first place is the argmax
        rows = ask_rows[is_best]
        is_best[is_best.clone()] = logits[rows].argmax(dim=-1) == ask_targets[is_best]
    if logits.dtype != torch.float32:
        logprobs = torch.log_softmax(logits, dim=-1)[ask_rows, ask_targets]
        return logprobs.float(), is_best
    spread = logits.sub_(best[:, None]).exp_().sum(dim=-1).log_()  # log of the sum, the best taken out
    return (chosen - best[ask_rows]) - spread[ask_rows], is_best


def take_apart(model: Any, numerics: str) -> Head | None:
    """Return the model as body and head, or None where the two cannot be told apart.

    The body is the one child that holds the input embedding, whatever it is called.
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
