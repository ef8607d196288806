"""Adjusted p-values against a published example and statsmodels; rank sets."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.multiplicity import e_bh, holm, rank_sets
from assaymark.statistics.sequential import PairedRace

NEUHAUS = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
           0.7590, 1.0]  # fmt: skip


def test_a_published_example() -> None:
    """Of the 15 p-values in Benjamini and Hochberg's paper of 1995 Holm's procedure rejects three at 5%."""
    assert int((holm(NEUHAUS) <= 0.05).sum()) == 3


@pytest.mark.slow
def test_adjusted_values_equal_statsmodels() -> None:
    """On random p-values, ties and ends included, the adjusted values are statsmodels'."""
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = np.random.default_rng(0)
    for n in (1, 2, 9, 40):
        p = np.concatenate([rng.random(n) ** 3, [0.0, 1.0, 0.02, 0.02]])
        np.testing.assert_allclose(holm(p), multitest.multipletests(p, method="holm")[1], rtol=1e-12)


def test_invalid_probabilities_are_refused() -> None:
    """NaN, numbers above 1 and empty lists are errors."""
    for bad in ([], [0.5, 1.2], [float("nan")]):
        with pytest.raises(DataError, match="between 0 and 1"):
            holm(bad)


def test_models_that_are_not_significantly_different_share_their_ranks() -> None:
    """Two nearly equal strong models may each be first or second; the clearly weak one is third."""
    rng = np.random.default_rng(0)
    scores = (rng.random((400, 3)) < np.array([0.70, 0.71, 0.40])).astype(float)
    ranks = {rank.index: rank for rank in rank_sets(scores)}
    assert [(ranks[i].best, ranks[i].worst) for i in range(3)] == [(1, 2), (1, 2), (3, 3)]
    assert ranks[0].beats == (2,)
    assert [rank.value for rank in rank_sets(scores)] == sorted((r.value for r in ranks.values()), reverse=True)


def test_equal_models_may_have_any_rank() -> None:
    """Identical scores give every model every rank."""
    scores = np.tile(np.random.default_rng(0).random((30, 1)), (1, 4))
    assert {(rank.best, rank.worst) for rank in rank_sets(scores)} == {(1, 4)}


def test_lower_is_better_ranks_the_other_way() -> None:
    """With a metric where lower is better the lowest mean comes first."""
    rng = np.random.default_rng(0)
    scores = rng.gamma(5, 1, (100, 1)) + np.array([[0.0, 3.0]]) + rng.normal(0, 0.1, (100, 2))
    assert [r.index for r in rank_sets(scores, higher_is_better=False)] == [0, 1]
    assert rank_sets(scores, higher_is_better=False)[0].worst == 1
    with pytest.raises(DataError, match="at least 2 models"):
        rank_sets(scores[:, :1])


def e_bh_by_definition(e_values: np.ndarray, alpha: float) -> set[int]:
    """Return what e-BH rejects, trying every number of rejections."""
    order = np.argsort(-e_values, kind="stable")
    k = max((k for k in range(1, len(order) + 1) if e_values[order[k - 1]] >= len(order) / (alpha * k)), default=0)
    return set(order[:k].tolist())


def test_e_bh_equals_its_definition() -> None:
    """On random e-values, infinite ones among them."""
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 40):
        for _ in range(50):
            e_values = np.exp(rng.normal(2, 3, n))
            e_values[rng.random(n) < 0.1] = np.inf
            rejected = e_bh(np.log(e_values), 0.1)
            assert set(np.flatnonzero(rejected).tolist()) == e_bh_by_definition(e_values, 0.1)
    assert e_bh([2.9], 0.05).tolist() == [False]
    assert e_bh([2.9957322736], 0.05).tolist() == [True]  # ln 20


def test_impossible_e_values_are_refused() -> None:
    """None at all, what is no number, and an alpha that is no share."""
    for values, alpha in (([], 0.05), ([float("nan")], 0.05), ([1.0], 0.0), ([1.0], 1.5)):
        with pytest.raises(DataError, match="log e-values"):
            e_bh(values, alpha)


@pytest.mark.slow
def test_the_share_of_wrong_verdicts_of_races_is_at_most_alpha() -> None:
    """Of 12 differences of which 8 are 0, over 100 orders, looked at every 20 questions and frozen when decided."""
    rng = np.random.default_rng(5)
    n, alpha, wrong, n_real = 200, 0.1, [], 4
    values = np.zeros((12, n))
    for row in values:
        row[:60] = np.resize([1.0, -1.0], 60)
    values[:n_real, :40] = 1.0
    for _ in range(100):
        order = rng.permutation(n)
        races = [PairedRace(n, alpha) for _ in values]
        decided: set[int] = set()
        claims = [race.log_e_values()[:2] for race in races]
        for start in range(0, 180, 20):
            for at, race in enumerate(races):
                if at not in decided:
                    race.add(values[at, order[start : start + 20]])
                    claims[at] = race.log_e_values()[:2]
            rejected = np.flatnonzero(e_bh([log for pair in claims for log in pair], alpha))
            decided |= {int(at) // 2 for at in rejected}
        # of pairs without a difference, in either direction, and the worse one taken for the better
        n_false = sum(at >= 2 * n_real or at % 2 == 1 for at in rejected.tolist())
        wrong.append(n_false / max(len(rejected), 1))
        assert len(rejected) >= 2
    error = np.std(wrong) / len(wrong) ** 0.5
    assert np.mean(wrong) <= alpha + 3 * error
