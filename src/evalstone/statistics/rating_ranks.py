"""Ranks of ratings: as the published boards count them, and as sets that hold all at once."""

import numpy as np
from numpy.typing import NDArray

from evalstone.statistics.arrays import Floats
from evalstone.statistics.bradley_terry import BradleyTerry
from evalstone.statistics.distributions import t_sf
from evalstone.statistics.multiplicity import RankSet, holm, ranks_from_wins
from evalstone.statistics.rating_errors import RatingErrors

__all__ = ["ranks_by_upper_bound", "rating_rank_sets"]


def ranks_by_upper_bound(lows: Floats, highs: Floats) -> NDArray[np.int64]:
    """Return 1 + #{j: low_j > high_i}: how many models lie surely above, each interval taken alone.

    Source: the rank of Chatbot Arena's boards since 2024.
    """
    return np.asarray(1 + (lows[None, :] > highs[:, None]).sum(axis=1))


def rating_rank_sets(fit: BradleyTerry, errors: RatingErrors, confidence: float = 0.95) -> list[RankSet]:
    """Return each model's set of ranks, the highest rating first; all sets hold together with this confidence.

    A outranks B only if the test of their difference says so after Holm over all pairs: t = (θ_a - θ_b) / SE, with
    their covariance, so that two models that met the same opponents on the same prompts are told apart sooner.

    Source: after Mogstad, Romano, Shaikh and Wilhelm 2024 (rank confidence sets from pairwise tests).
    """
    n = len(fit.strengths)
    rows, columns = np.triu_indices(n, 1)
    p = [_p_of_difference(fit, errors, i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True)]
    sure = holm(p) < 1.0 - confidence
    ahead = fit.strengths[rows] > fit.strengths[columns]
    wins = np.zeros((n, n), dtype=bool)
    wins[rows, columns] = sure & ahead
    wins[columns, rows] = sure & ~ahead
    return ranks_from_wins(fit.strengths, wins)


def _p_of_difference(fit: BradleyTerry, errors: RatingErrors, model: int, other: int) -> float:
    error = errors.stderr(model, other)
    difference = abs(float(fit.strengths[model] - fit.strengths[other]))
    if error is None:  # nothing is claimed
        return 1.0
    return min(1.0, 2.0 * t_sf(difference / error, errors.n_clusters_between(model, other) - 1))
