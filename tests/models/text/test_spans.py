"""Queries as spans: each is answered once, by content, in pieces of bounded size."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assaymark.models.text.spans import Pending, PreparedQuery, TokenSpan, chunks_of, fingerprint_of, span_batch
from assaymark.records import LoglikelihoodQuery, ModelIdentity, QueryKind, Request


def span(name: str) -> TokenSpan:
    """Return a span identified by one letter."""
    return TokenSpan(name.encode(), np.asarray([1, 2], np.int32), np.asarray([3], np.int32))


def prepared(index: int, names: str) -> PreparedQuery:
    """Return a query over spans identified by their letters."""
    return PreparedQuery("r", index, QueryKind.ROLLING, tuple(span(name) for name in names))


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 200), st.integers(1, 400))
def test_pieces_are_the_whole_in_order(sizes: list[int], first: int, size: int) -> None:
    """The joined pieces are the requests in order, and only a piece's last request may exceed its size."""
    requests = [Request("t", i, "s", ("x" * n,), (LoglikelihoodQuery(0, "y"),)) for i, n in enumerate(sizes)]
    pieces = list(chunks_of(requests, first, size))
    assert [r for piece in pieces for r in piece] == requests
    for number, piece in enumerate(pieces):
        assert sum(len(r.segments[0]) for r in piece[:-1]) < (first if number == 0 else size)


def test_a_query_is_done_when_all_its_spans_are() -> None:
    """Windows arrive in any order; a window shared by two queries, or twice in one, counts for each."""
    pending = Pending()
    first, two = prepared(0, "abb"), prepared(1, "bc")
    ready, needed = pending.add([first, two])
    assert (ready, [each.key for each in needed]) == ([], [b"a", b"b", b"c"])
    assert pending.scored(span("b"), -1.0, True) == []
    assert pending.scored(span("c"), -2.0, True) == [two]
    assert pending.scored(span("a"), -4.0, True) == [first]
    assert (pending.answer(first).total_nats, pending.answer(two).total_nats) == (-6.0, -3.0)
    assert pending.add([prepared(2, "ca")])[0][0].ask_index == 2  # known from before: nothing to score


def test_a_span_in_progress_is_not_requested_again() -> None:
    """A later piece that shares a span with one still being scored waits for it, and both get their answer."""
    pending = Pending()
    first, two = prepared(0, "ab"), prepared(1, "bc")
    assert [each.key for each in pending.add([first])[1]] == [b"a", b"b"]
    assert [each.key for each in pending.add([two])[1]] == [b"c"]
    assert pending.scored(span("c"), -1.0, True) == []
    assert pending.scored(span("b"), -2.0, True) == [two]
    assert pending.scored(span("a"), -4.0, True) == [first]


def test_a_query_fails_once_however_many_of_its_spans_fail() -> None:
    """Two failing windows give one failed output, and a window that arrives later changes nothing."""
    pending = Pending()
    first, two = prepared(0, "abc"), prepared(1, "c")
    pending.add([first, two])
    assert pending.failed(span("a")) == [first]
    assert pending.failed(span("b")) == []
    assert pending.scored(span("c"), -1.0, True) == [two]


def test_nothing_to_read_is_not_an_error() -> None:
    """No spans give an empty batch; a query without windows (an empty text) is ready with 0 nats."""
    assert len(span_batch([])) == 0
    pending = Pending()
    ready, needed = pending.add([prepared(0, "")])
    assert (needed, pending.answer(ready[0]).total_nats) == ([], 0.0)


def test_the_fingerprint_contains_what_decides_a_score() -> None:
    """Content, dtype, numerics and passed settings decide; names, positions and BOS rules act through the tokens."""
    plain = ModelIdentity("a", "hf", "sha256:x", None, None, "float32", "float32")
    same = ModelIdentity(
        "b", "hf", "sha256:x", None, None, "float32", "float32", 99, options=(("add_bos_token", True),)
    )
    assert fingerprint_of(plain) == fingerprint_of(same)
    settings = ({"quantization_config": {"b": 4}}, {"rope_theta": 500.0}, {"lora_alpha": 8.0}, {"cache_type": "f16"},
                {"kv_cache_dtype": "fp8"})  # fmt: skip
    passed = [replace(plain, options=tuple(each.items())) for each in settings]
    others = {
        fingerprint_of(ModelIdentity("a", "hf", "sha256:y", None, None, "float32", "float32")),
        fingerprint_of(ModelIdentity("a", "hf", "sha256:x", None, None, "float16", "float32")),
        fingerprint_of(ModelIdentity("a", "hf", "sha256:x", None, None, "float32", "model-dtype")),
        *map(fingerprint_of, passed),
    }
    assert len(others | {fingerprint_of(plain)}) == 4 + len(settings)
    assert fingerprint_of(ModelIdentity("a", "http", None, None, None, "?", "?")) is None
