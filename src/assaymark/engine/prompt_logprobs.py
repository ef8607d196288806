"""Log-probabilities of a prompt's own tokens, with the most probable alternatives at each position.

A server needs them for `echo`: every token's log-probability, not one sum over a span. Several prompts are read as one
trie, so what they share is computed once; `read_alone` is the plain twin, one prompt and one forward pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.attention import PathCache, UnsupportedAttention
from assaymark.engine.forward import attention_for
from assaymark.engine.head import LOGITS_AT_ONCE, Head
from assaymark.engine.memory import is_out_of_memory
from assaymark.engine.spans import IntArray, SpanBatch
from assaymark.engine.steps import forward_pass
from assaymark.engine.trie import Trie, build_trie
from assaymark.engine.windows import Window, WindowCutter

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SMALLEST_WINDOW = 32
Logprobs = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PromptLogprobs:
    """The model's predictions after each token of a prompt.

    Shapes: chosen [n]: the log-probability of the next token of the prompt, NaN after the last one; top_tokens and
        top_logprobs [n, k]: the most probable next tokens, the best first.
    Units: nats, computed in float32. Not finite where the model's logits are not.
    """

    chosen: Logprobs
    top_tokens: IntArray
    top_logprobs: Logprobs


@torch.inference_mode()
def read_alone(model: "PreTrainedModel", tokens: IntArray, n_top: int) -> PromptLogprobs:
    """Return the log-probabilities of one prompt by one plain forward pass."""
    device = next(model.parameters()).device
    ids = torch.as_tensor(np.asarray(tokens, dtype=np.int64), device=device)
    with forward_pass(model):
        logprobs = torch.log_softmax(model(input_ids=ids[None], use_cache=False).logits[0].float(), dim=-1)  # [n, V]
    chosen = logprobs[:-1].gather(1, ids[1:, None])[:, 0]
    top = logprobs.topk(min(n_top, logprobs.shape[1]), dim=-1)
    return PromptLogprobs(
        np.append(chosen.double().cpu().numpy(), np.nan), top.indices.cpu().numpy(), top.values.double().cpu().numpy()
    )


def read_together(head: Head, prompts: Sequence[IntArray], n_top: int, window_tokens: int) -> list[PromptLogprobs]:
    """Return the log-probabilities of several prompts, each distinct token path computed once.

    Raises: RuntimeError from torch if the smallest window does not fit.
    """
    # A span's last token predicts nothing and becomes no node, so each prompt is padded with one.
    padded = [np.append(tokens, np.zeros(1, dtype=np.int32)) for tokens in prompts]
    trie = build_trie(SpanBatch.from_lists(padded, [int(tokens.size) for tokens in prompts]))
    result = [
        PromptLogprobs(
            np.full(tokens.size, np.nan), np.zeros((tokens.size, n_top), dtype=np.int64), np.zeros((tokens.size, n_top))
        )
        for tokens in prompts
    ]
    cache = PathCache(int(trie.depths.max(initial=-1)) + 1, head.n_attention_calls)
    cutter, size = WindowCutter(trie), window_tokens
    while not cutter.is_done:
        window = cutter.window(size)
        try:
            _read_window(head, trie, window, cache, result)
        except RuntimeError as error:
            if not is_out_of_memory(error) or size <= SMALLEST_WINDOW:
                raise
            size //= 2
            continue
        head.n_attention_calls = cache.n_calls
        cutter.pass_by(window)
    for logprobs in result:
        logprobs.chosen[-1] = np.nan  # of the padding
    return result


@torch.inference_mode()
def _read_window(head: Head, trie: Trie, window: Window, cache: PathCache, result: list[PromptLogprobs]) -> None:
    """Run one window and store what is predicted after each of its nodes."""
    device = head.projection.weight.device
    attention = attention_for(device)(window, cache, device)
    first, last = np.searchsorted(trie.target_nodes, [window.first, window.last]).tolist()
    rows = trie.target_nodes[first:last] - window.first
    with head.attending_through(attention):
        output = head.run_body(
            input_ids=torch.as_tensor(window.tokens.astype(np.int64), device=device)[None],
            position_ids=torch.as_tensor(window.depths.astype(np.int64), device=device)[None],
            attention_mask=torch.ones(1, len(window), dtype=torch.long, device=device),
            use_cache=False,
        )
        if attention.n_calls == 0:
            raise UnsupportedAttention("no layer attends through transformers' attention interface")
        hidden = output.last_hidden_state[0]
        at_once = max(1, LOGITS_AT_ONCE // int(head.projection.weight.shape[0]))
        for begin in range(0, len(window), at_once):
            logprobs = torch.log_softmax(head.logits(output, hidden[begin : begin + at_once]).float(), dim=-1)
            here = np.flatnonzero((rows >= begin) & (rows < begin + at_once))
            _store(trie, first + here, rows[here] - begin, logprobs, result)
    attention.commit()


def _store(trie: Trie, targets: IntArray, rows: IntArray, logprobs: torch.Tensor, result: list[PromptLogprobs]) -> None:
    """Store the rows of some targets. Shapes: targets and rows [n]; logprobs [rows of this piece, vocab]."""
    n_top = result[0].top_tokens.shape[1]
    wanted = torch.as_tensor(rows.astype(np.int64), device=logprobs.device)
    tokens = torch.as_tensor(trie.target_tokens[targets].astype(np.int64), device=logprobs.device)
    chosen = logprobs[wanted, tokens].double().cpu().numpy()
    top = logprobs.topk(n_top, dim=-1)
    top_tokens, top_logprobs = top.indices.cpu().numpy()[rows], top.values.double().cpu().numpy()[rows]
    depths, spans = trie.depths[trie.target_nodes[targets]], trie.target_spans[targets]
    for k, (span, depth) in enumerate(zip(spans.tolist(), depths.tolist(), strict=True)):
        prompt = result[span]
        prompt.chosen[depth], prompt.top_tokens[depth], prompt.top_logprobs[depth] = (
            chosen[k],
            top_tokens[k],
            top_logprobs[k],
        )
