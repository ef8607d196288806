"""Adjusted p-values against a published example and statsmodels; rank sets."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.multiplicity import holm, rank_sets

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


def test_one_model_has_no_rank() -> None:
    """At least two are needed."""
    with pytest.raises(DataError, match="at least 2 models"):
        rank_sets(np.ones((3, 1)))
