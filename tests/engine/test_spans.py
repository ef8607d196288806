"""Valid and invalid batches of spans."""

import pytest

from assaymark.engine.spans import SpanBatch
from assaymark.errors import PlanError


def test_lists_become_flat_arrays() -> None:
    """Sequences of different lengths are stored one after another in one int32 array."""
    spans = SpanBatch.from_lists([[1, 2, 3], [4, 5]], [2, 1])
    assert spans.tokens.tolist() == [1, 2, 3, 4, 5]
    assert spans.tokens.dtype.name == "int32"
    assert [spans.sequence(i).tolist() for i in range(len(spans))] == [[1, 2, 3], [4, 5]]


def test_a_subset_keeps_order_and_tails() -> None:
    """A subset contains the chosen spans in the requested order."""
    part = SpanBatch.from_lists([[1, 2, 3], [4, 5], [6, 7, 8]], [2, 1, 1]).subset([2, 0])
    assert part.tokens.tolist() == [6, 7, 8, 1, 2, 3]
    assert part.n_scored.tolist() == [1, 2]


def test_no_spans_is_a_batch() -> None:
    """An empty batch is valid."""
    assert len(SpanBatch.from_lists([], [])) == 0


@pytest.mark.parametrize("n_scored", [0, 3, 4])
def test_a_span_without_context_or_tail_is_refused(n_scored: int) -> None:
    """A span with nothing to score, or without a token before the scored ones, is reported."""
    with pytest.raises(PlanError, match="span 1 has 3 tokens"):
        SpanBatch.from_lists([[1, 2], [1, 2, 3]], [1, n_scored])
