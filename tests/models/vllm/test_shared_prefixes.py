"""What is sent to vLLM, on a simulated cache of blocks: each span once, after what it reads."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assaymark.engine.spans import SpanBatch
from assaymark.models.vllm.shared_prefixes import MOST_IDS, Sent, Sharing, computed_tokens, rows_of, sequences

BLOCK = 4


class BlockCache:
    """Whole blocks by the tokens up to their ends, as vLLM hashes them; it always computes the last token."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def n_cached(self, sent: Sent) -> int:
        """Return how many tokens a request reads, and keep its blocks."""
        ends = range(BLOCK, sent.tokens.size + 1, BLOCK)
        known = 0 if sent.kind == "whole" else sum(sent.tokens[:end].tobytes() in self._known for end in ends)
        self._known |= {sent.tokens[:end].tobytes() for end in ends}
        return min(known * BLOCK, (sent.tokens.size - 1) // BLOCK * BLOCK)


def random_spans(seed: int) -> SpanBatch:
    """Return sequences of two different tokens, many of which begin alike, with tails of one to six scored tokens."""
    draw = random.Random(seed)
    shots = [draw.choices((1, 2), k=draw.randrange(1, 12)) for _ in range(3)]
    made = [draw.choice(shots) + draw.choices((1, 2), k=draw.randrange(1, 10)) for _ in range(60)]
    return SpanBatch.from_lists(made, [draw.choice([1, 1, min(draw.randrange(1, 7), len(each) - 1)]) for each in made])


@pytest.mark.parametrize("seed", range(20))
def test_every_span_is_scored_once_and_computed_as_expected(seed: int) -> None:
    """The cache gives what `computed_tokens` expects, and rows are believed exactly where they were computed."""
    spans, cache = random_spans(seed), BlockCache()
    sent = sequences(spans, Sharing(BLOCK, by_ids=True))
    assert sorted(index for each in sent for index in each.spans) == list(range(len(spans)))
    expected = computed_tokens(sent, BLOCK)
    for each, n_computed in zip(sent, expected, strict=True):
        n_cached = cache.n_cached(each)
        assert each.tokens.size - n_cached == n_computed
        if each.kind != "next":
            output: Any = SimpleNamespace(num_cached_tokens=n_cached, prompt_logprobs=[{}] * each.tokens.size)
            for index, rows in zip(each.spans, rows_of(each, spans, output), strict=True):
                first_scored = each.tokens.size - int(spans.n_scored[index])
                assert (rows is None) == (n_cached > first_scored - 1)
    assert sum(expected) < 0.8 * spans.tokens.size


def test_choices_of_one_token_are_one_request_up_to_the_limit() -> None:
    """More choices than vLLM takes ids are several requests of the same context."""
    n_choices = MOST_IDS + 2
    spans = SpanBatch.from_lists([[7, 8, 9, token] for token in range(n_choices)], [1] * n_choices)
    sent = sequences(spans, Sharing(None, by_ids=True))
    assert [(each.kind, each.tokens.tolist(), len(each.ids)) for each in sent] == [
        ("next", [7, 8, 9], MOST_IDS),
        ("next", [7, 8, 9], 2),
    ]


def test_a_missing_id_is_asked_again_as_a_whole() -> None:
    """A token that vLLM gives no log-probability of is not scored by it; neither is one without any."""
    spans = SpanBatch.from_lists([[7, 8, 1], [7, 8, 2]], [1, 1])
    (sent,) = sequences(spans, Sharing(None, by_ids=True))
    row = {1: SimpleNamespace(logprob=-1.0)}
    some: Any = SimpleNamespace(outputs=[SimpleNamespace(logprobs=[row])])
    none: Any = SimpleNamespace(outputs=[SimpleNamespace(logprobs=None)])
    assert rows_of(sent, spans, some) == [[row], None]
    assert rows_of(sent, spans, none) == [None, None]


@pytest.mark.parametrize(
    ("fields", "arguments", "caching", "described"),
    [
        (("skip_reading_prefix_cache", "logprob_token_ids"), {}, True, "shared in blocks of 16 tokens, choices of one"),
        (("skip_reading_prefix_cache", "logprob_token_ids"), {"logprobs_mode": "raw_logits"}, True, "of 16 tokens"),
        (("skip_reading_prefix_cache", "logprob_token_ids"), {}, False, "choices of one token in one request"),
        (("skip_reading_prefix_cache",), {}, True, "prefixes shared in blocks of 16 tokens"),
        ((), {}, True, "each sequence as a whole"),
    ],
)
def test_what_is_shared_depends_on_vllm_and_its_settings(
    fields: tuple[str, ...], arguments: dict[str, Any], caching: bool, described: str
) -> None:
    """An older vLLM, one without a cache, and settings under which ids have another meaning take the plain way."""
    library = SimpleNamespace(SamplingParams=SimpleNamespace(__struct_fields__=fields))
    cache = SimpleNamespace(block_size=16, enable_prefix_caching=caching)
    llm = SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=SimpleNamespace(cache_config=cache)))
    sharing = Sharing.of(library, llm, arguments)
    assert described in sharing.described()
    assert sharing.by_ids == ("choices" in described)
    assert (sharing.missing is None) == (len(fields) == 2)
    spans = SpanBatch.from_lists([np.arange(40), np.arange(41)], [1, 2])
    assert {each.kind for each in sequences(spans, Sharing(None, by_ids=False))} == {"whole"}
