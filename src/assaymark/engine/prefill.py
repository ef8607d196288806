"""Process prompts in pre-order windows, each distinct token once, a window whenever a slot needs a prompt.

The scoring path's windows and path cache are used; in addition, each prompt's keys and values are collected when its
last token has been processed: shared ones into trunks, the rest for its own slot. Nothing is processed beyond the
window with the next prompt's end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from assaymark.engine.attention import AttentionOptions, MaskRule, PathCache, UnsupportedAttention, WindowAttention
from assaymark.engine.head import Head
from assaymark.engine.memory import is_out_of_memory
from assaymark.engine.sharing import PromptTrie
from assaymark.engine.slots import Rows, TrunkRows, trunk_rows
from assaymark.engine.spans import IntArray
from assaymark.engine.windows import Window, WindowCutter

SMALLEST_WINDOW = 32


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A distinct prompt that has been processed: the logits after its last token, and its own rows.

    Shapes: logits [vocab]; rows [own positions, G, D] for each attention call, the first at position `start`.
    """

    number: int
    logits: torch.Tensor
    start: int
    rows: Rows
    chain: tuple[TrunkRows, ...]


class _KeepingWindow(WindowAttention):
    """A window that keeps all its keys and values until its prompts have collected theirs."""

    def __init__(self, window: Window, cache: PathCache, device: torch.device) -> None:
        super().__init__(window, cache, device)
        self.seen: Rows = []

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: MaskRule, options: AttentionOptions
    ) -> torch.Tensor:
        """Return attention's output for one layer; see `WindowAttention.attend`."""
        self.seen.append((key[0].transpose(0, 1), value[0].transpose(0, 1)))  # [N, G, D]
        return super().attend(query, key, value, rule, options)


class Prefill:
    """Processes the prompts of a trie on demand."""

    def __init__(self, head: Head, prompts: PromptTrie, window_tokens: int) -> None:
        self.prompts = prompts
        self.note: str | None = None
        self._head = head
        self._size = window_tokens
        self._device = head.projection.weight.device
        self._cache = PathCache(int(prompts.trie.depths.max(initial=-1)) + 1, head.n_attention_calls)
        self._cutter = WindowCutter(prompts.trie)
        self._path = np.zeros(self._cache.capacity, dtype=np.int64)  # the open node at each depth
        self._n_read = 0  # distinct prompts whose end has been processed
        self._trunks: dict[int, TrunkRows] = {}

    @property
    def is_done(self) -> bool:
        """Whether every prompt has been processed."""
        return self._cutter.is_done

    @property
    def n_tokens_read(self) -> int:
        """Number of distinct prompt tokens processed so far."""
        return self._cutter.first

    def read(self, at_most: int | None = None) -> list[ReadPrompt]:
        """Process one window, of `at_most` tokens, and return the prompts that end in it, perhaps none.

        Raises: RuntimeError from torch if the smallest window does not fit.
        """
        self.note = None
        while True:
            try:
                return self._read_window(self._cutter.window(min(self._size, at_most or self._size)))
            except RuntimeError as error:
                if not is_out_of_memory(error) or self._size <= SMALLEST_WINDOW:
                    raise
                self._size //= 2
                self.note = f"out of memory: window halved to {self._size} tokens"
                if self._device.type == "cuda":
                    torch.cuda.empty_cache()

    @torch.inference_mode()
    def _read_window(self, window: Window) -> list[ReadPrompt]:
        attention = _KeepingWindow(window, self._cache, self._device)
        ends = self.prompts.ends
        first, last = np.searchsorted(ends, [window.first, window.last]).tolist()
        rows = self._on(ends[first:last] - window.first)
        attention.target_rows = rows  # after the last layer's keys and values only these rows are needed
        read = []
        with self._head.attending_through(attention):
            output = self._head.run_body(
                input_ids=self._on(window.tokens)[None],
                position_ids=self._on(window.depths)[None],
                attention_mask=torch.ones(1, len(window), dtype=torch.long, device=self._device),
                use_cache=False,
            )
            if attention.n_calls == 0:
                raise UnsupportedAttention("no layer attends through transformers' attention interface")
            if last > first:
                hidden = output.last_hidden_state[0].index_select(0, rows)
                logits = self._head.logits(output, hidden)
        if last > first:
            read = [self._take(number, window, attention.seen, logits[number - first]) for number in range(first, last)]
        self._follow(int(ends[last - 1]) + 1 if last else 0, window.last)
        attention.commit()
        self._head.n_attention_calls = self._cache.n_calls
        self._cutter.pass_by(window)
        return read

    def _take(self, number: int, window: Window, seen: Rows, logits: torch.Tensor) -> ReadPrompt:
        """Return a prompt that ends in this window with its own rows; trunks needed for the first time are stored."""
        prompts = self.prompts
        end = int(prompts.ends[number])
        self._follow(int(prompts.ends[number - 1]) + 1 if number else 0, end + 1)
        for each in prompts.chains[number]:
            if each not in self._trunks:
                trunk = prompts.trunks[each]
                rows = self._rows(trunk.first, trunk.last, window, seen)
                self._trunks[each] = trunk_rows(trunk.first, trunk.last, rows)
        start = prompts.first_private(number)
        stop = int(prompts.trie.depths[end]) + 1
        chain = tuple(self._trunks[each] for each in prompts.chains[number])
        is_over = [each for each in self._trunks if each not in prompts.chains[number]]
        for each in is_over:  # prompts come in pre-order: a trunk that is no longer used does not occur again
            del self._trunks[each]
        return ReadPrompt(number, logits.clone(), start, self._rows(start, stop, window, seen), chain)

    def _follow(self, first: int, last: int) -> None:
        """Record nodes [first, last), one descending run, as the open path at their depths."""
        self._path[self.prompts.trie.depths[first:last]] = np.arange(first, last)

    def _rows(self, first: int, last: int, window: Window, seen: Rows) -> Rows:
        """Return keys and values of positions [first, last) of the open path, for each attention call."""
        nodes = self._path[first:last]
        n_before = int(np.count_nonzero(nodes < window.first))
        here = self._on(nodes[n_before:] - window.first)
        rows = []
        for call, (key, value) in enumerate(seen):
            keys, values = self._cache.keys[call], self._cache.values[call]
            before = slice(first, first + n_before)
            rows.append((self._joined(keys[before], key[here]), self._joined(values[before], value[here])))
        return rows

    def _joined(self, before: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
        """Return both in one tensor, in the dtype in which rows are stored."""
        joined = torch.cat([before.to(here.dtype), here])
        # On a CPU attention runs in float32, and converting all rows at every step would cost more than reading them.
        return joined.float() if joined.device.type == "cpu" else joined

    def _on(self, array: IntArray | Sequence[int]) -> torch.Tensor:
        return torch.as_tensor(np.asarray(array, dtype=np.int64), device=self._device)
