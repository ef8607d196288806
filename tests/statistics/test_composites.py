"""Mean win rates of a table."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.board_scores import mean_win_rate


def test_a_win_rate_by_hand() -> None:
    """Three models, two columns, one tie: wins over two others, a tie half."""
    assert mean_win_rate([[1, 2], [2, 1], [3, 1]]).tolist() == [0.5, 0.375, 0.625]


def test_win_rates_equal_helms_sorting_formula() -> None:
    """(strictly worse + (ties - 1)/2) / (n - 1) per column, averaged: HELM's definition, on random tables with ties."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        table = rng.integers(0, 4, (5, 3)).astype(float)
        expected = [
            np.mean([((col < col[i]).sum() + ((col == col[i]).sum() - 1) / 2) / 4 for col in table.T]) for i in range(5)
        ]
        np.testing.assert_allclose(mean_win_rate(table), expected)
        assert mean_win_rate(table).mean() == pytest.approx(0.5)


def test_missing_values_are_refused() -> None:
    """A missing value is an error, not a comparison over different columns."""
    with pytest.raises(DataError, match="1 missing"):
        mean_win_rate([[1.0, np.nan], [2.0, 1.0]])
