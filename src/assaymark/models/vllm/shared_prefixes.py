"""Sequences for vLLM that let spans share computed prefixes, and the log-probabilities that are valid then.

vLLM keeps the keys and values of whole blocks of tokens as soon as a request is scheduled, and later requests read
them, also within one step. So sequences are sent in the order of the trie (`engine.trie`), three kinds of them:

- spans of one token after the same context are one request: it generates one token, and the log-probabilities of all
  their tokens come with it (`logprob_token_ids`);
- other spans read the cache up to the last whole block before what they score, and that prefix is sent before them, as
  a request of its own without log-probabilities: rows of the vocabulary are computed only after it;
- spans without a whole block before what they score, and all spans of a vLLM that cannot do this, are sent as a whole.

`prompt_logprobs` has valid rows only for computed tokens: rows of tokens from the cache are uninitialised memory.
`num_cached_tokens` states how many came from the cache, so the scored tokens must begin after them. If the cache
reached further (another span began with the same scored tokens), the span is sent again as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from assaymark.engine.spans import IntArray, SpanBatch
from assaymark.engine.trie import sorted_order

if TYPE_CHECKING:
    from vllm import RequestOutput
    from vllm.logprobs import Logprob

    Rows = Sequence[Mapping[int, Logprob] | None]

READS_CACHE, NAMES_IDS = "skip_reading_prefix_cache", "logprob_token_ids"  # settings that older versions do not have
MOST_IDS = 128  # token ids in one request; vLLM's own limit
# Settings under which the log-probabilities of a generated token are not those that a prompt's tokens have.
OWN_DISTRIBUTION = ("logprobs_mode", "logits_processors", "speculative_config")


@dataclass(frozen=True, slots=True)
class Sharing:
    """The sharing that an installed vLLM supports.

    block: tokens of a block of its cache; None: nothing is read from it. missing: features that an older vLLM lacks.
    """

    block: int | None
    by_ids: bool
    missing: str | None = None

    @classmethod
    def of(cls, library: Any, llm: Any, engine_arguments: Mapping[str, object]) -> "Sharing":
        """Return the sharing that a loaded model's vLLM supports."""
        known = getattr(library.SamplingParams, "__struct_fields__", ())
        missing = [name for name in (READS_CACHE, NAMES_IDS) if name not in known]
        cache = None if READS_CACHE in missing else llm.llm_engine.vllm_config.cache_config
        return cls(
            int(cache.block_size) if cache is not None and cache.enable_prefix_caching else None,
            NAMES_IDS not in missing and not any(name in engine_arguments for name in OWN_DISTRIBUTION),
            " and ".join(missing) or None,
        )

    def described(self) -> str:
        """Describe briefly how prompts are sent."""
        parts = [f"prefixes shared in blocks of {self.block} tokens"] if self.block else []
        parts += ["choices of one token in one request"] if self.by_ids else []
        return ", ".join(parts) or "each sequence as a whole"


@dataclass(frozen=True, slots=True)
class Sent:
    """One sequence as it is sent, and the spans that its answer scores; a prefix scores none."""

    kind: Literal["prefix", "next", "branch", "whole"]
    tokens: IntArray
    spans: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()  # of `next`: each span's token


def whole(spans: SpanBatch, index: int) -> Sent:
    """Return a span sent by itself, without the cache."""
    return Sent("whole", spans.sequence(index), (index,))


def sequences(spans: SpanBatch, sharing: Sharing) -> list[Sent]:
    """Return the sequences to send, each prefix before the sequences that begin with it."""
    sent: list[Sent] = []
    for group in _same_inputs(spans):
        single = [index for index in group if spans.n_scored[index] == 1] if sharing.by_ids else []
        for first in range(0, len(single), MOST_IDS):
            some = tuple(single[first : first + MOST_IDS])
            ids = tuple(int(spans.sequence(index)[-1]) for index in some)
            sent.append(Sent("next", spans.sequence(some[0])[:-1], some, ids))
        for index in group:
            if index in single:
                continue
            tokens = spans.sequence(index)
            n_shared = _n_readable(tokens.size - int(spans.n_scored[index]), sharing.block)
            if not n_shared:
                sent.append(whole(spans, index))
                continue
            prefix = tokens[:n_shared]
            if not sent or not np.array_equal(sent[-1].tokens[:n_shared], prefix):
                sent.append(Sent("prefix", prefix))
            sent.append(Sent("branch", tokens, (index,)))
    return sent


def _same_inputs(spans: SpanBatch) -> Iterator[list[int]]:
    """Yield the spans along the trie, those with the same tokens before the last one together."""
    group: list[int] = []
    for index in sorted_order(spans).tolist():
        if group and not np.array_equal(spans.sequence(group[-1])[:-1], spans.sequence(index)[:-1]):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _n_readable(n_context: int, block: int | None) -> int:
    """Return how many tokens of a context the cache may provide: not the last, which predicts the first scored one."""
    return 0 if block is None else (n_context - 1) // block * block


def computed_tokens(sent: Sequence[Sent], block: int | None) -> list[int]:
    """Return how many tokens vLLM will compute for each sequence, if its cache holds all earlier sequences.

    As in vLLM a block is known by its tokens and the block before it, and the last token is always computed.
    """
    if block is None:
        return [int(each.tokens.size) for each in sent]
    counts: list[int] = []
    known: set[tuple[int, bytes]] = set()
    for each in sent:
        n_tokens, n_read, before, is_known = int(each.tokens.size), 0, 0, each.kind != "whole"
        for end in range(block, n_tokens + 1, block):
            entry = (before, each.tokens[end - block : end].tobytes())
            is_known = is_known and entry in known and end < n_tokens
            n_read = end if is_known else n_read
            known.add(entry)
            before = hash(entry)
        counts.append(n_tokens - n_read)
    return counts


def rows_of(sent: Sent, spans: SpanBatch, output: "RequestOutput") -> "list[Rows | None]":
    """Return the log-probabilities at each scored token of each span; None for a span to be sent again as a whole."""
    if sent.kind == "next":
        listed = output.outputs[0].logprobs
        row = listed[0] if listed else {}
        return [[row] if token in row else None for token in sent.ids]
    return [_tail(sent, int(spans.n_scored[index]), output) for index in sent.spans]


def _tail(sent: Sent, n_scored: int, output: "RequestOutput") -> "Rows | None":
    begin = sent.tokens.size - n_scored
    n_cached = output.num_cached_tokens
    if sent.kind == "branch" and (n_cached is None or n_cached >= begin):
        return None
    rows = output.prompt_logprobs or []
    return [rows[position] if position < len(rows) else None for position in range(begin, sent.tokens.size)]
