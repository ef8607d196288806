"""Pairs in both orders, and their summary."""

import pytest

from assaymark.judges.pairwise import JudgedPair, pair_of, summarise_pairs
from assaymark.judges.single import Grade, summarise_grades
from assaymark.judges.verdicts import Form, parse_verdict


def pair(form: Form, one: str, other: str, index: int = 0, turn: int = 0) -> JudgedPair:
    """Return the pair of two verdicts as text."""
    return pair_of(("t", index, turn), form, (parse_verdict(f"[[{one}]]", form), parse_verdict(f"[[{other}]]", form)))


@pytest.mark.parametrize(
    ("one", "other", "kind", "value"),
    [
        ("A", "B", "consistent", 1.0),
        ("B", "A", "consistent", 0.0),
        ("C", "C", "consistent", 0.5),
        ("A", "A", "first", 0.5),
        ("B", "B", "second", 0.5),
        ("A", "C", "undecided", 0.5),
        ("C", "B", "undecided", 0.5),
        ("A", "?", "missing", None),
    ],
)
def test_a_side_wins_only_in_both_orders(one: str, other: str, kind: str, value: float | None) -> None:
    """MT-bench's rule; the second verdict names the answers in the other order."""
    result = pair("pair", one, other)
    assert (result.kind, result.value) == (kind, value)


def test_five_labels_are_averaged_by_weight() -> None:
    """Much better in one order (weight 3) and slightly worse in the other (1): three quarters, of weight four."""
    result = pair("five", "A>>B", "A>B")
    assert (result.value, result.weight, result.kind) == (0.75, 4.0, "first")
    assert pair("preference", "1.2", "1.6").value == pytest.approx(0.7)


def test_the_summary_counts_every_pair_once() -> None:
    """Wins, losses, ties and missing add up; kinds add up to n; the win rate counts ties as half."""
    verdicts = [("A", "B"), ("A", "B"), ("B", "A"), ("A", "A"), ("B", "B"), ("C", "A"), ("A", "?")]
    (result,) = summarise_pairs([pair("pair", entry, other, n) for n, (entry, other) in enumerate(verdicts)])
    assert (result.n, result.wins, result.losses, result.ties, result.n_missing) == (6, 2, 1, 3, 1)
    assert (result.consistent, result.first, result.second, result.undecided) == (3, 1, 1, 1)
    assert result.win_rate is not None
    assert result.win_rate.value == pytest.approx((2 + 1.5) / 6)


def test_turns_of_one_conversation_are_dependent() -> None:
    """Twenty conversations of two equal turns have the interval of twenty, not of forty."""
    alone = [pair("pair", "AB"[n % 2], "BA"[n % 2], n) for n in range(20)]
    twice = [pair("pair", "AB"[n % 2], "BA"[n % 2], n, t) for n in range(20) for t in (0, 1)]
    (first,), (other,) = summarise_pairs(alone), summarise_pairs(twice)
    assert first.win_rate is not None
    assert other.win_rate is not None
    widths = [rate.high - rate.low for rate in (first.win_rate, other.win_rate)]  # type: ignore[operator]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)


def test_grades_without_a_verdict_are_not_zeros() -> None:
    """The mean is of the grades there are; missing and failed are counted apart; each turn has its row."""
    assert summarise_grades([Grade("t", 0, turn, 8.0) for turn in (0, 1)])[-1].mean.low is None  # type: ignore[union-attr]
    grades = [Grade("t", 0, 0, 8.0), Grade("t", 0, 1, 6.0), Grade("t", 1, 0, None), Grade("t", 1, 1, None, True)]
    rows = summarise_grades(grades)
    assert rows[-1].mean is not None
    assert rows[-1].mean.value == 7.0
    assert [(row.turn, row.n, row.n_missing, row.n_failed) for row in rows] == [
        (0, 1, 1, 0), (1, 1, 0, 1), (None, 2, 1, 1),
    ]  # fmt: skip
