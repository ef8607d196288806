"""Averages of a row: one column's own number, and intervals that never shrink to nothing."""

import math

import pytest

from assaymark.leaderboard.averages import average_of, mean_number
from assaymark.leaderboard.rows import IntervalValue, RowScore, ScoreColumn

ALL_RIGHT = IntervalValue(1.0, 0.342, 1.0, 0.0, "wilson")
HALF = IntervalValue(0.5, 0.3, 0.7, 0.1, "wilson")
COLUMNS = [ScoreColumn("a", "A"), ScoreColumn("b", "B")]


@pytest.mark.parametrize("aggregate", ["mean", "weighted"])
def test_an_average_of_one_column_is_its_number(aggregate: str) -> None:
    """A partial average has the column's interval and method, not a normal one without width."""
    result = average_of(COLUMNS, {"a": RowScore(ALL_RIGHT)}, aggregate)  # type: ignore[arg-type]
    assert result is not None
    assert (result.number, result.n_columns) == (ALL_RIGHT, 1)


def test_a_geometric_mean_of_one_column_is_its_number() -> None:
    """Also where the value is 0."""
    for number in (ALL_RIGHT, HALF, IntervalValue(0.0, 0.0, 0.66, 0.0, "wilson")):
        result = average_of(COLUMNS[:1], {"a": RowScore(number)}, "geometric")
        assert result is not None
        assert result.number == number


def test_columns_that_are_all_right_leave_the_mean_uncertain() -> None:
    """Donner and Zou's interval by hand: each side the root of the summed squares of the columns' sides."""
    both = mean_number([ALL_RIGHT, ALL_RIGHT])
    assert (both.value, both.high) == (1.0, 1.0)
    assert both.low == pytest.approx(1.0 - 0.658 / math.sqrt(2))
    mixed = mean_number([ALL_RIGHT, HALF], [1.0, 3.0])
    assert mixed.low == pytest.approx(0.625 - math.hypot(0.25 * 0.658, 0.75 * 0.2))
    assert mixed.high == pytest.approx(0.625 + 0.75 * 0.2)
    assert mixed.stderr
    assert "MOVER" in mixed.method
    assert mean_number([IntervalValue(1.0, stderr=0.0), HALF]).low is None


def test_columns_with_errors_have_the_normal_interval() -> None:
    """Where no error is 0 nothing changes."""
    result = mean_number([HALF, HALF])
    assert result.stderr == pytest.approx(0.1 / math.sqrt(2))
    assert result.method == "mean of independent columns, normal"


def test_a_geometric_mean_of_columns_that_are_all_right_is_uncertain() -> None:
    """The columns' ends are combined as logarithms; an end at 0 reaches 0."""
    result = average_of(COLUMNS, {"a": RowScore(ALL_RIGHT), "b": RowScore(ALL_RIGHT)}, "geometric")
    assert result is not None
    assert result.number.low == pytest.approx(0.342 ** (1 / math.sqrt(2)))
    assert result.number.high == 1.0
    open_end = average_of(
        COLUMNS, {"a": RowScore(ALL_RIGHT), "b": RowScore(IntervalValue(0.1, 0.0, 0.5, 0.1))}, "geometric"
    )
    assert open_end is not None
    assert open_end.number.low == 0.0
