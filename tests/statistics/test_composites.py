"""Win rates and other composites, their errors by simulation."""

import numpy as np
import pytest
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.board_scores import estimate_win_rate, mean_win_rate, resample_composite


def mean_of_tasks(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the macro average, which is linear, so that its error is known."""
    return np.asarray(means.mean(axis=1))


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


def test_lower_is_better_columns_count_the_other_way() -> None:
    """In a column where lower is better the lower value wins, with and without resampling tasks."""
    assert mean_win_rate([[1.0, 1.0], [2.0, 2.0]], [True, False]).tolist() == [0.5, 0.5]
    assert mean_win_rate([[1.0], [2.0]], [False]).tolist() == [1.0, 0.0]
    rng = np.random.default_rng(0)
    bits = rng.gamma(5, 0.2, (50, 1)) + np.array([[0.0, 2.0]])
    for resample_tasks in (False, True):
        estimate = estimate_win_rate([bits, bits], [False, False], resample_tasks=resample_tasks, draws=200)
        assert [m.value for m in estimate.models] == [1.0, 0.0]


def test_a_difference_of_1e_9_is_not_a_full_win_with_a_tolerance() -> None:
    """With a tolerance, noise is a tie."""
    assert mean_win_rate([[0.5], [0.5 + 1e-9]]).tolist() == [0.0, 1.0]
    assert mean_win_rate([[0.5], [0.5 + 1e-9]], tolerance=1e-6).tolist() == [0.5, 0.5]


def test_missing_values_are_refused() -> None:
    """A missing value is an error, not a comparison over different columns."""
    with pytest.raises(DataError, match="1 missing"):
        mean_win_rate([[1.0, np.nan], [2.0, 1.0]])
    with pytest.raises(DataError, match="1 scores are missing"):
        resample_composite([np.array([[1.0, np.nan]])], mean_of_tasks)
    with pytest.raises(DataError, match="same models"):
        resample_composite([np.ones((3, 2)), np.ones((3, 1))], mean_of_tasks)


def test_the_bootstrap_of_a_linear_composite_is_the_closed_form() -> None:
    """For the macro average the resampled error is √Σ SE²/T², and a difference's uses the pairing."""
    rng = np.random.default_rng(0)
    tables = []
    for n in (60, 200):
        skill = rng.random((n, 1))
        tables.append((rng.random((n, 2)) * 0.2 + skill).astype(float))
    result = resample_composite(tables, mean_of_tasks, draws=4000)
    variances = [t.var(axis=0, ddof=0) / len(t) for t in tables]
    expected = np.sqrt(sum(variances)) / 2
    assert [m.stderr for m in result.models] == pytest.approx(expected.tolist(), rel=0.05)
    paired = np.sqrt(sum(np.diff(t, axis=1).var() / len(t) for t in tables)) / 2
    assert result.difference(0, 1).stderr == pytest.approx(paired, rel=0.05)
    assert paired < expected[0] / 2


def test_the_error_of_a_non_linear_composite_is_the_simulated_one() -> None:
    """The geometric mean of three tasks varies over simulated runs as estimated by the bootstrap of one run."""
    rng = np.random.default_rng(0)
    shares = np.array([0.3, 0.6, 0.9])

    def geometric(means: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.exp(np.log(np.maximum(means, 1e-9)).mean(axis=1)))

    runs = np.prod(rng.binomial(200, shares, (4000, 3)) / 200, axis=1) ** (1 / 3)
    errors = []
    for _ in range(20):
        tables = [(rng.random((200, 1)) < p).astype(float) for p in shares]
        errors.append(resample_composite(tables, geometric, draws=400).models[0].stderr)
    assert np.mean([e for e in errors if e is not None]) == pytest.approx(runs.std(), rel=0.08)


def test_resampling_tasks_is_much_wider() -> None:
    """For a claim about tasks in general the spread between tasks dominates: near sd/√T."""
    rng = np.random.default_rng(0)
    tables = [(rng.random((400, 1)) < p).astype(float) for p in (0.2, 0.5, 0.8, 0.4, 0.9, 0.3)]
    fixed = resample_composite(tables, mean_of_tasks).models[0]
    drawn = resample_composite(tables, mean_of_tasks, resample_tasks=True).models[0]
    assert fixed.stderr is not None
    assert drawn.stderr is not None
    assert drawn.stderr > 5 * fixed.stderr
    assert drawn.stderr == pytest.approx(np.std([0.2, 0.5, 0.8, 0.4, 0.9, 0.3]) / np.sqrt(6), rel=0.15)


def test_the_same_scores_give_the_same_replicates() -> None:
    """Joint resamples are seeded by name."""
    tables = [np.random.default_rng(0).random((20, 3))]
    first, two = (estimate_win_rate(tables, draws=100) for _ in range(2))
    assert first.replicates.tobytes() == two.replicates.tobytes()
