"""Errors of Bradley-Terry strengths with clustered votes (of one prompt, one judge), which are dependent.

The inverse curvature is not a valid error here: a tie counted as half a win varies less than a coin, and votes on one
prompt vary together. The sandwich estimator takes the spread from the votes themselves. It does not change if every
vote is entered twice within its cluster.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import BradleyTerry, curvature_of, refit, sigmoid, solved
from assaymark.statistics.distributions import bisect
from assaymark.statistics.intervals import Interval, check_confidence, t_interval

_NO_SPREAD = 1e-9  # logits: a strength that one cluster determines alone has no spread between clusters
_CELLS_AT_ONCE = 4_000_000  # bounds memory: 32 MB of scores
_SMALL_CLUSTER = 32  # votes; the pairs of larger ones would take longer than whole rows of models
_FLAGS_AT_ONCE = 1 << 24  # a byte each
_MOST_PAIRED_MODELS = 1000
_NEWTON_STEPS = 20
_STEP = 1e-10  # logits, the size of the last step
_FARTHEST = 60.0  # logits: beyond it a probability is 0 or 1 to the last bit


def _log_sigmoid(score: Floats) -> Floats:
    return np.asarray(-np.logaddexp(0.0, -score))


@dataclass(frozen=True, slots=True, eq=False)
class RatingErrors:
    """The covariance of strengths and effects, and the number of clusters with votes on each model.

    Shapes: covariance [p, p], p = models + covariates; n_clusters_of [models].
    """

    covariance: Floats  # H⁻¹ (Σ_c u_c u_cᵀ) H⁻¹ without a small-sample factor, for strengths that sum to 0
    n_clusters: int
    n_clusters_of: Ints

    def stderr(self, model: int, against: int | None = None) -> float | None:
        """Return the error of a strength minus the mean of all, or minus another's; None if it cannot be estimated.

        It cannot with fewer than two clusters, or if single clusters determine the strengths (one prompt for each pair
        in a chain of models), so that there is no spread between clusters.

        The variance has the factor C/(C-1) of Liang and Zeger 1986, with C the number of clusters of the model (or of
        the rarer of the two).
        """
        covariance, n = self.covariance, self.n_clusters_between(model, against)
        if n < 2:
            return None
        variance = covariance[model, model]
        if against is not None:
            variance = variance + covariance[against, against] - 2.0 * covariance[model, against]
        error = math.sqrt(max(float(variance), 0.0) * n / (n - 1))
        return error if error > _NO_SPREAD else None

    def n_clusters_between(self, model: int, against: int | None = None) -> int:
        """Return the number of clusters in which the model, or the rarer of the two, has votes."""
        own = int(self.n_clusters_of[model])
        return own if against is None else min(own, int(self.n_clusters_of[against]))

    def interval(
        self, strength: float, model: int, against: int | None = None, confidence: float = 0.95
    ) -> Interval | None:
        """Return strength ± t(C - 1) stderr; None if there is no error."""
        error = self.stderr(model, against)
        if error is None:
            return None
        return t_interval(strength, error, self.n_clusters_between(model, against) - 1, confidence)

    def effect_interval(self, fit: BradleyTerry, effect: int, confidence: float = 0.95) -> Interval | None:
        """Return the interval of one covariate's effect; None with fewer than 2 clusters."""
        if self.n_clusters < 2:
            return None
        index = len(fit.strengths) + effect
        error = math.sqrt(float(self.covariance[index, index]) * self.n_clusters / (self.n_clusters - 1))
        if error <= _NO_SPREAD:
            return None
        return t_interval(float(fit.effects[effect]), error, self.n_clusters - 1, confidence)


def clustered_errors(
    battles: Battles,
    fit: BradleyTerry,
    clusters: NDArray[np.generic],
    covariates: Floats | None = None,
    tie_scores: Floats | None = None,
) -> RatingErrors:
    """Return the clustered sandwich covariance: u_c = Σ_{i in c} (y_i - p_i) x_i, V = H⁻¹ (Σ_c u_c u_cᵀ) H⁻¹.

    Args:
        battles: the votes that were fitted.
        fit: their fit.
        clusters: a label per vote; all different if votes are independent.
        covariates: those of the fit.
        tie_scores: those of a model with a parameter for ties (`TieFit`), which is the last effect of its fit.

    Source: Huber 1967; Liang and Zeger 1986; for ratings, arena-rank's vote-level sandwich.
    """
    index, n_clusters = numbered(clusters, len(battles))
    n = battles.n_models
    if n_clusters == len(battles) and tie_scores is None:  # independent votes: Σ r² x xᵀ
        middle = curvature_of(battles, _columns(battles, covariates), fit.residuals**2)
        middle[:n, :n] -= 1.0 / n
    elif covariates is None and tie_scores is None and np.bincount(index).max() <= _SMALL_CLUSTER:
        middle = _middle_of_pairs(battles, fit.residuals, index)
    else:
        middle = np.zeros(fit.inverse_curvature.shape)
        for sums in _cluster_scores(battles, fit, index, covariates, tie_scores):
            middle += sums.T @ sums
    covariance = fit.inverse_curvature @ middle @ fit.inverse_curvature
    return RatingErrors(covariance, n_clusters, _clusters_of_models(battles, index, n_clusters))


def _clusters_of_models(battles: Battles, index: Ints, n_clusters: int) -> Ints:
    """Return the number of clusters with votes on each model. Shapes: [models]."""
    n = battles.n_models
    if n_clusters == len(battles):  # one vote each
        return battles.votes()
    total, at_once = np.zeros(n, dtype=np.int64), max(1, _FLAGS_AT_ONCE // n)
    for start in range(0, n_clusters, at_once):
        own = slice(None) if n_clusters <= at_once else np.flatnonzero((index >= start) & (index < start + at_once))
        row = (index[own] - start) * n
        seen = np.zeros((min(at_once, n_clusters - start), n), dtype=bool)  # without sorting, which takes minutes
        for side in (battles.first, battles.second):
            seen.ravel()[row + side[own]] = True
        total += seen.sum(axis=0)
    return total


def _middle_of_pairs(battles: Battles, residuals: Floats, index: Ints) -> Floats:
    """Return Σ_c u_c u_cᵀ as the sum of r_i r_j x_i x_jᵀ over pairs of votes of one cluster, if clusters are small.

    Shapes: residuals, index [votes]; result [models, models].
    """
    n = battles.n_models
    order = np.argsort(index, kind="stable")
    cluster, own = index[order], residuals[order]
    sides = ((battles.first[order], 1.0), (battles.second[order], -1.0))
    total = np.zeros(n * n)
    for lag in range(int(np.bincount(index).max())):  # pairs of a vote and the one `lag` places after it
        at = np.flatnonzero(cluster[lag:] == cluster[: len(cluster) - lag])
        products = own[at] * own[at + lag]
        for side, sign in sides:
            for other, other_sign in sides:
                part = sign * other_sign * np.bincount(side[at] * n + other[at + lag], products, n * n)
                total += part if lag == 0 else part + part.reshape(n, n).T.ravel()
    return np.asarray(total.reshape(n, n))


def _columns(battles: Battles, covariates: Floats | None) -> Floats:
    return np.zeros((len(battles), 0)) if covariates is None else covariates


def _cluster_scores(
    battles: Battles, fit: BradleyTerry, index: Ints, covariates: Floats | None, tie_scores: Floats | None = None
) -> Iterator[Floats]:
    """Yield u_c = Σ_{i in c} (y_i - p_i) x_i of the clusters in their order. Shapes: each [some clusters, p]."""
    products = fit.residuals[:, None] * _columns(battles, covariates)
    if tie_scores is not None:
        products = np.column_stack([products, tie_scores])
    n_clusters = int(index.max()) + 1
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    rows = max(1, _CELLS_AT_ONCE // len(fit.inverse_curvature))
    for start in range(0, n_clusters, rows):
        low, high = np.searchsorted(ordered, [start, start + rows])
        yield _scores(battles, products, fit.residuals, order[low:high], ordered[low:high] - start)


def _scores(battles: Battles, products: Floats, residuals: Floats, votes: Ints, clusters: Ints) -> Floats:
    """Return Σ r x over the votes of each cluster.

    Shapes: products [all votes, covariates], r x of the covariates; votes, clusters [some votes]; result [clusters, p].
    """
    n, size, n_clusters = battles.n_models, battles.n_models + products.shape[1], int(clusters.max()) + 1
    own, cell = residuals[votes], clusters * size
    sums = np.bincount(cell + battles.first[votes], own, n_clusters * size).astype(np.float64)
    sums -= np.bincount(cell + battles.second[votes], own, n_clusters * size)
    sums = sums.reshape(n_clusters, size)
    for index, column in enumerate(products[votes].T, start=n):
        sums[:, index] = np.bincount(clusters, column, n_clusters)
    return sums


def bootstrap_strengths(
    battles: Battles,
    fit: BradleyTerry,
    clusters: NDArray[np.generic],
    covariates: Floats | None = None,
    *,
    weights: Floats | None = None,
    draws: int = 1000,
    part: int = 0,
) -> Floats:
    """Return strengths and effects refitted with random weights of the clusters, seeded by the size of the data.

    Weights are exponential with mean 1, so no draw loses a model or a link between groups, as can happen if clusters
    are drawn with replacement and votes are few. If every vote is a cluster of its own, the weights of equal votes are
    drawn as their sum, which has a gamma distribution.

    `weights` are those of the fit. Draws of another `part` are independent, so that processes can share the work.

    Shapes: result [draws, models + covariates]. Source: Rubin 1981; Newton and Raftery 1994.
    """
    index, n_clusters = numbered(clusters, len(battles))
    names = (len(battles), battles.n_models, n_clusters, draws, *([part] if part else []))
    generator = generator_for("rating bootstrap", *names)
    start = np.concatenate([fit.strengths, fit.effects])
    distinct, columns, cell = battles, covariates, np.arange(len(battles))
    if columns is None:  # equal votes are merged into one with the sum of their weights
        distinct, cell = battles.distinct()
        columns = np.zeros((len(distinct), 0))
    counts = np.bincount(cell).astype(np.float64)
    are_independent = n_clusters == len(battles) and weights is None
    replicates = np.empty((draws, len(start)))
    for draw in range(draws):
        if are_independent:
            drawn = generator.standard_gamma(counts)
        else:
            drawn = generator.exponential(size=n_clusters)[index]
            drawn = np.bincount(cell, drawn if weights is None else drawn * weights, len(distinct)).astype(np.float64)
        near = None if covariates is not None else _refit_pairs(distinct, drawn, start)
        replicates[draw] = refit(distinct, columns, drawn, start) if near is None else near
    return replicates


def _refit_pairs(battles: Battles, weights: Floats, start: Floats) -> Floats | None:
    """Return the result of `refit` without covariates, by undamped Newton steps on a matrix of pairs.

    None if the steps do not end, which `refit`'s damped ones do, or for too many models.

    Shapes: weights [votes]; start, result [models].
    """
    n = battles.n_models
    if n > _MOST_PAIRED_MODELS:
        return None
    low, high = battles.first * n + battles.second, battles.second * n + battles.first
    won, lost = weights * battles.outcome, weights * (1.0 - battles.outcome)
    wins = (np.bincount(low, won, n * n) + np.bincount(high, lost, n * n)).reshape(n, n)
    met, total, strengths = wins + wins.T, wins.sum(axis=1), start
    for _ in range(_NEWTON_STEPS):
        p = sigmoid(strengths[:, None] - strengths[None, :])
        expected = met * p
        curvature = expected * (p - 1.0)
        np.fill_diagonal(curvature, 0.0)
        np.fill_diagonal(curvature, -curvature.sum(axis=1))
        step = solved(curvature + 1.0 / n, total - expected.sum(axis=1), battles, np.zeros((len(battles), 0)))
        strengths = strengths + step
        size = float(np.abs(step).max())
        if size < _STEP:
            return strengths
        if not size < _FARTHEST:  # diverges
            return None
    return None


def one_sided_bound(
    opponents: Floats,
    clusters: NDArray[np.generic],
    *,
    won_all: bool,
    confidence: float = 0.95,
    log_chance: Callable[[Floats], Floats] | None = None,
) -> float | None:
    """Return the lower (upper) bound on the strength of a model that won (lost) every vote against rated opponents.

    The bound is the strength at which such a record has probability 1 - confidence, given the opponents' strengths; all
    votes of a cluster count as one vote with their mean log-probability. None without votes. `log_chance` is the
    log-probability to win as a function of the difference of strengths; None: that of Bradley-Terry.

    Shapes: opponents, clusters [votes]: the opponent's strength in each vote. Source: inverted likelihood, as for
    0 of n.
    """
    check_confidence(confidence)
    if len(opponents) == 0:
        return None
    index, n_clusters = numbered(clusters, len(opponents))
    sizes = np.bincount(index, minlength=n_clusters)[index]
    sign = 1.0 if won_all else -1.0

    def excess(strength: float) -> float:
        log_chances = (log_chance or _log_sigmoid)(strength - sign * opponents)
        return float((log_chances / sizes).sum()) - math.log(1.0 - confidence)

    centre = sign * float(opponents.mean())
    return sign * bisect(excess, centre - _FARTHEST, centre + _FARTHEST)


def numbered(clusters: NDArray[np.generic], n_votes: int) -> tuple[Ints, int]:
    """Return each vote's cluster as a number from 0, and the number of clusters.

    Raises: DataError unless there is one label per vote.
    """
    if len(clusters) != n_votes:
        raise DataError(f"{len(clusters)} cluster labels for {n_votes} votes; expected one per vote")
    labels, index = np.unique(np.asarray(clusters), return_inverse=True)
    return np.asarray(index, dtype=np.int64), len(labels)
