"""HELM's aggregates equal HELM's own functions, and the win rate's order depends on other models where it should."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.board_scores import mean_win_rate
from assaymark.statistics.helm_win_rates import helm_mean_scores, helm_win_rates, order_dependence, resampled_values

CASES = json.loads((Path(__file__).parent / "helm_win_rates.json").read_text(encoding="utf-8"))["cases"]


def _array(values: list[list[float | None]]) -> Any:
    return np.array([[math.nan if value is None else value for value in row] for row in values])


@pytest.mark.parametrize("case", CASES)
def test_rates_equal_helms(case: dict[str, Any]) -> None:
    """Of tables with missing values, ties and both directions (written by write_helm_win_rates.py)."""
    ours = helm_win_rates(_array(case["values"]), case["higher_is_better"])
    theirs = [math.nan if rate is None else rate for rate in case["rates"]]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case["means"] is not None])
def test_mean_scores_equal_helms(case: dict[str, Any]) -> None:
    """A model's mean is over the columns that it has; None for a model without any."""
    theirs = [math.nan if mean is None else mean for mean in case["means"]]
    np.testing.assert_allclose(helm_mean_scores(_array(case["values"])), theirs, atol=1e-12)


def test_a_table_computed_by_hand() -> None:
    """A tie is half a win, a missing value none, a column of one model is passed over."""
    values = _array([[0.9, 2.0, 1.0], [0.9, 1.0, None], [0.5, None, None], [None, None, None]])
    rates = helm_win_rates(values, [True, False, True])
    assert rates[:3].tolist() == [(0.75 + 0.0) / 2, (0.75 + 1.0) / 2, 0.0]
    assert math.isnan(rates[3])


def test_a_whole_table_has_the_plain_rate() -> None:
    """Without missing values it is `mean_win_rate`."""
    values = np.random.default_rng(3).integers(0, 5, (6, 4)) / 4
    directions = [True, False, True, True]
    np.testing.assert_allclose(helm_win_rates(values, directions), mean_win_rate(values * np.where(directions, 1, -1)))


def test_order_that_depends_on_a_third_model_is_found() -> None:
    """Alone each of two models wins one column; a third between them in one column only decides their order."""
    values = _array([[0.9, 0.4, 0.5], [0.5, 0.6, 0.6], [0.7, 0.1, 0.1], [0.8, 0.2, 0.2]])
    dependence = order_dependence(values, [True, True, True])
    assert dependence.n_pairs > 0
    assert dependence.example is not None
    a, b, others = dependence.example
    whole = helm_win_rates(values, [True] * 3)
    part = helm_win_rates(values[[a, b, *others]], [True] * 3)
    assert (whole[a] - whole[b]) * (part[0] - part[1]) < 0
    assert order_dependence(_array([[0.1], [0.2], [0.3]]), [True]).n_dependent == 0


def test_intervals_shrink_with_samples_and_keep_missing_models() -> None:
    """Two models of equal skill are less certain with ten samples than with a thousand."""
    draw = np.random.default_rng(1)
    spreads = []
    for n in (10, 1000):
        table = (draw.random((n, 3)) < [0.5, 0.55, 0.9]).astype(float)
        lacking = table.copy()
        lacking[:, 2] = math.nan
        drawn = resampled_values([table, lacking], draws=300)
        rates, means = helm_win_rates(drawn, [True, True]), helm_mean_scores(drawn)
        assert rates.shape == means.shape == (300, 3)
        assert np.isfinite(rates).all()
        np.testing.assert_allclose(means[:, 2], drawn[:, 2, 0])  # the only column that the model has
        spreads.append((rates[:, 0].std(), means[:, 0].std()))
    assert spreads[1] < spreads[0]
    assert spreads[1][1] == pytest.approx(spreads[0][1] / 10, rel=0.5)


def test_the_means_error_is_that_of_independent_columns() -> None:
    """Columns have samples of their own, so the variance of a mean of two is a quarter of the sum of theirs."""
    columns = [
        (np.random.default_rng(at).random((400, 2)) < share).astype(float) for at, share in enumerate((0.5, 0.8))
    ]
    spread = helm_mean_scores(resampled_values(columns, draws=2000)).std(axis=0)
    expected = np.sqrt(sum(table.var(axis=0) / len(table) for table in columns)) / 2
    np.testing.assert_allclose(spread, expected, rtol=0.06)


def test_directions_are_one_for_each_column() -> None:
    """Others are refused."""
    with pytest.raises(DataError, match="expected one each"):
        helm_win_rates(np.zeros((2, 2)), [True])
