"""The trie path: windows of the pre-order sequence each pass through the model once, and target tokens are scored.

Between windows only the keys and values of the open path are stored. If memory runs out, the window is halved and the
same nodes are tried again; the cache is written only after a successful window, so nothing is lost.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.attention import PathCache, UnsupportedAttention, WindowAttention
from assaymark.engine.flex import FlexWindowAttention
from assaymark.engine.head import Head
from assaymark.engine.memory import is_out_of_memory
from assaymark.engine.spans import IntArray
from assaymark.engine.trie import Trie
from assaymark.engine.windows import Window, WindowCutter

LAST_LAYER_SHARE = 0.75  # if more rows than this have targets, selecting them costs as much as it saves


@dataclass(frozen=True, slots=True)
class WindowScores:
    """The scores of one window: targets [first_target, last_target) of the trie.

    Shapes: logprobs float64 and is_best bool [last_target - first_target]. Units: nats.
    """

    first_target: int
    last_target: int
    n_nodes: int
    logprobs: npt.NDArray[np.float64]
    is_best: npt.NDArray[np.bool_]
    note: str | None


def score_trie(
    head: Head, trie: Trie, window_tokens: int, on_shrink: Callable[[int], None] | None = None
) -> Iterator[WindowScores]:
    """Yield the scores of all targets of `trie`, window by window.

    `on_shrink` is called with each smaller window size.
    Raises: RuntimeError from torch if a window of one block does not fit.
    """
    device = head.projection.weight.device
    cache = PathCache(int(trie.depths.max(initial=-1)) + 1, head.n_attention_calls)
    cutter = WindowCutter(trie)
    size = window_tokens
    note = None
    while not cutter.is_done:
        window = cutter.window(size)
        try:
            scores = _score_window(head, trie, window, cache, device, note)
        except RuntimeError as error:
            if not is_out_of_memory(error) or size <= 32:
                raise
            size //= 2
            note = f"out of memory: window halved to {size} tokens"
            if on_shrink is not None:
                on_shrink(size)
            if device.type == "cuda":
                torch.cuda.empty_cache()
            continue
        note = None
        head.n_attention_calls = cache.n_calls
        cutter.pass_by(window)
        yield scores


def attention_for(device: torch.device) -> type[WindowAttention]:
    """Return the attention of a device: gathered blocks on a CPU, FlexAttention's block masks on a GPU."""
    return FlexWindowAttention if device.type == "cuda" else WindowAttention


@torch.inference_mode()
def _score_window(
    head: Head, trie: Trie, window: Window, cache: PathCache, device: torch.device, note: str | None
) -> WindowScores:
    """Run one window and score the targets of its nodes."""
    attention = attention_for(device)(window, cache, device)
    first_target, last_target = np.searchsorted(trie.target_nodes, [window.first, window.last]).tolist()
    nodes = trie.target_nodes[first_target:last_target]
    rows, target_rows = np.unique(nodes, return_inverse=True)
    attention.target_rows = _on(rows - window.first, device) if rows.size < LAST_LAYER_SHARE * len(window) else None
    logprobs, is_best = np.zeros(0), np.zeros(0, dtype=bool)
    with head.attending_through(attention):
        output = head.run_body(
            input_ids=_on(window.tokens, device)[None],
            position_ids=_on(window.depths, device)[None],
            attention_mask=torch.ones(1, len(window), dtype=torch.long, device=device),
            use_cache=False,
        )
        if attention.n_calls == 0:
            raise UnsupportedAttention("no layer attends through transformers' attention interface")
        if rows.size:
            hidden = output.last_hidden_state[0].index_select(0, _on(rows - window.first, device))
            targets = _on(trie.target_tokens[first_target:last_target], device)
            scores = head.score(output, hidden, _on(target_rows, device), targets)
            logprobs = scores.logprobs.double().cpu().numpy()
            is_best = scores.is_best.cpu().numpy()
    attention.commit()
    return WindowScores(first_target, last_target, len(window), logprobs, is_best, note)


def _on(array: IntArray, device: torch.device) -> torch.Tensor:
    """Return the array as int64 on the device."""
    return torch.as_tensor(array.astype(np.int64), device=device)
