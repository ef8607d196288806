"""Ranks of ratings: by the rule of the published leaderboards, and as simultaneous rank sets."""

import numpy as np
from numpy.typing import NDArray

from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.bradley_terry import BradleyTerry
from assaymark.statistics.distributions import t_sf
from assaymark.statistics.multiplicity import RankSet, holm, ranks_from_wins
from assaymark.statistics.rating_errors import RatingErrors

DRAWS = 20_000


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


def chances_of_best(fit: BradleyTerry, errors: RatingErrors, replicates: Floats | None = None) -> Floats | None:
    """Return each model's probability to have the highest strength; None where a model's error cannot be estimated.

    Without replicates, the share of 20,000 draws from a multivariate t distribution around the fit, with the clustered
    covariance (times C/(C-1)) and C - 1 degrees of freedom, C being the number of clusters; seeded by the size of the
    data. It is the posterior probability for a flat prior.

    Args:
        fit: the strengths.
        errors: their covariance.
        replicates: [draws, models or more] of `bootstrap_strengths`, whose shares of first places are used instead.

    Shapes: result [models], sums to 1.
    """
    n = len(fit.strengths)
    if any(errors.stderr(model) is None for model in range(n)):  # else a strength would count as known exactly
        return None
    if replicates is not None:
        return _first_places(replicates[:, :n])
    freedom = errors.n_clusters - 1
    generator = generator_for("probability of the best", n, errors.n_clusters, errors.n_clusters_of.tolist())
    values, vectors = np.linalg.eigh(errors.covariance[:n, :n] * errors.n_clusters / freedom)
    normal = generator.standard_normal((DRAWS, n)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    widths = np.sqrt(freedom / generator.chisquare(freedom, DRAWS))
    return _first_places(fit.strengths + normal * widths[:, None])


def _first_places(draws: Floats) -> Floats:
    return np.bincount(draws.argmax(axis=1), minlength=draws.shape[1]) / len(draws)


def _p_of_difference(fit: BradleyTerry, errors: RatingErrors, model: int, other: int) -> float:
    error = errors.stderr(model, other)
    difference = abs(float(fit.strengths[model] - fit.strengths[other]))
    if error is None:  # without an error there is no evidence of a difference
        return 1.0
    return min(1.0, 2.0 * t_sf(difference / error, errors.n_clusters_between(model, other) - 1))
