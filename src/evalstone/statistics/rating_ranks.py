"""Ranks of ratings: by the rule of the published leaderboards, and as simultaneous rank sets."""

import numpy as np
from numpy.typing import NDArray

from evalstone.statistics.arrays import Floats
from evalstone.statistics.bradley_terry import BradleyTerry
from evalstone.statistics.distributions import t_sf
from evalstone.statistics.multiplicity import RankSet, holm, ranks_from_wins
from evalstone.statistics.rating_errors import RatingErrors

__all__ = ["ranks_by_upper_bound", "rating_rank_sets"]


def ranks_by_upper_bound(lows: Floats, highs: Floats) -> NDArray[np.int64]:
    """Return 1 + #{j: low_j > high_i}: one more than the number of models whose interval is entirely above.

    Source: the rank on Chatbot Arena's leaderboards since 2024.
    """
    return np.asarray(1 + (lows[None, :] > highs[:, None]).sum(axis=1))


def rating_rank_sets(fit: BradleyTerry, errors: RatingErrors, confidence: float = 0.95) -> list[RankSet]:
    """Return each model's rank set, the highest rating first; all sets are correct together with this confidence.

    A outranks B only if the test of their difference is significant after Holm's correction over all pairs:
    t = (θ_a - θ_b) / SE, where SE includes their covariance, so that common opponents and prompts increase the power.

    Source: after Mogstad, Romano, Shaikh and Wilhelm 2024 (rank confidence sets from pairwise tests).
    """
    n = len(fit.strengths)
    rows, columns = np.triu_indices(n, 1)
    p = [_p_of_difference(fit, errors, i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True)]
    significant = holm(p) < 1.0 - confidence
    ahead = fit.strengths[rows] > fit.strengths[columns]
    wins = np.zeros((n, n), dtype=bool)
    wins[rows, columns] = significant & ahead
    wins[columns, rows] = significant & ~ahead
    return ranks_from_wins(fit.strengths, wins)


def _p_of_difference(fit: BradleyTerry, errors: RatingErrors, model: int, other: int) -> float:
    error = errors.stderr(model, other)
    difference = abs(float(fit.strengths[model] - fit.strengths[other]))
    if error is None:  # without an error there is no evidence of a difference
        return 1.0
    return min(1.0, 2.0 * t_sf(difference / error, errors.n_clusters_between(model, other) - 1))
