"""HELM's win rate equals HELM's own function, and its order depends on the other models where it should."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.board_scores import mean_win_rate
from assaymark.statistics.helm_win_rates import helm_win_rates, order_dependence, resampled_win_rates

CASES = json.loads((Path(__file__).parent / "helm_win_rates.json").read_text(encoding="utf-8"))["cases"]


def _array(values: list[list[float | None]]) -> Any:
    return np.array([[math.nan if value is None else value for value in row] for row in values])


@pytest.mark.parametrize("case", CASES)
def test_rates_equal_helms(case: dict[str, Any]) -> None:
    """Of tables with missing values, ties and both directions (written by write_helm_win_rates.py)."""
    ours = helm_win_rates(_array(case["values"]), case["higher_is_better"])
    theirs = [math.nan if rate is None else rate for rate in case["rates"]]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


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
    np.testing.assert_allclose(helm_win_rates(values, directions), mean_win_rate(values, directions))


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
        rates = resampled_win_rates([table, lacking], [True, True], draws=300)
        assert rates.shape == (300, 3)
        assert np.isfinite(rates).all()
        spreads.append(rates[:, 0].std())
    assert spreads[1] < spreads[0]


def test_directions_are_one_for_each_column() -> None:
    """Others are refused."""
    with pytest.raises(DataError, match="expected one each"):
        helm_win_rates(np.zeros((2, 2)), [True])
