"""Battles of each pair of models: counts, outcomes, the ratings' predictions, and residuals."""

from dataclasses import dataclass

import numpy as np

from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import BradleyTerry, expected_outcomes
from assaymark.statistics.distributions import chi_square_sf, normal_cdf
from assaymark.statistics.multiplicity import holm


@dataclass(frozen=True, slots=True, eq=False)
class PairMatrices:
    """Matrices [models, models]; the value is the row's model against the column's, NaN where there is none.

    A pair with a large residual is not on one scale with the others: A beats B, B beats C and C beats A, say.
    """

    n_battles: Ints  # with ties; 0 on the diagonal
    n_decisive: Ints  # without ties
    win_fraction: Floats  # of the decisive battles
    observed: Floats  # share of wins, ties half
    predicted: Floats  # the same of the fit, with its covariates as in the battles; without battles: without covariates
    residuals: Floats  # z: observed minus predicted in standard errors, antisymmetric
    significance: Floats  # p of the residual after Holm's correction over all pairs
    dispersion: float  # variance of outcomes as a multiple of p (1 - p); below 1 where ties are half wins
    chi_square: float  # Σ over pairs (observed - predicted)² / variance
    degrees_of_freedom: int
    p_of_fit: float | None  # that all pairs are on one scale; None without degrees of freedom


def pair_matrices(battles: Battles, fit: BradleyTerry, covariates: Floats | None = None) -> PairMatrices:
    """Return the observed share and the one predicted by the fit of all votes, ties as half wins, for each two models.

    The variance of n outcomes is φ Σ p (1 - p), with the dispersion φ = Σ (y - p)² / Σ p (1 - p) over all votes, since
    a tie varies less than a coin. The residual of a pair is divided by the square root of (1 - its leverage), as the
    fit follows pairs with many votes. Votes count as independent: if they are clustered, z is too large.

    Args:
        battles: the votes that were fitted.
        fit: their fit, with equal weights.
        covariates: those of the fit.

    Source: standardised Pearson residuals and dispersion of McCullagh and Nelder 1989, sections 9.2 and 12.5.
    """
    n = battles.n_models
    expected = battles.outcome - fit.residuals
    won, ties = battles.wins(), battles.ties()
    met = won + won.T
    predicted_wins = _summed(battles, expected, 1.0 - expected)
    variance = _summed(battles, expected * (1.0 - expected))
    dispersion = float((fit.residuals**2).sum() / (expected * (1.0 - expected)).sum())
    inverse = fit.inverse_curvature[:n, :n]
    spread = np.diag(inverse)[:, None] + np.diag(inverse)[None, :] - 2.0 * inverse
    left = dispersion * variance * np.maximum(1.0 - variance * spread, 0.0)
    is_known = (met > 0) & (left > 1e-9 * met)
    z = np.divide(won - predicted_wins, np.sqrt(left), out=np.full((n, n), np.nan), where=is_known)
    alone = expected_outcomes(fit.strengths)
    np.fill_diagonal(alone, np.nan)
    decisive = met - ties
    wins_only = won - 0.5 * ties
    squares = np.divide((won - predicted_wins) ** 2, dispersion * variance, where=met > 0, out=np.zeros((n, n)))
    chi_square = float(squares.sum()) / 2.0
    freedom = int((met > 0).sum()) // 2 - (n - 1) - (0 if covariates is None else covariates.shape[1])
    return PairMatrices(
        met.astype(np.int64), decisive.astype(np.int64), _share(wins_only, decisive), _share(won, met),
        np.where(met > 0, _share(predicted_wins, met), alone), z, _adjusted(z), dispersion, chi_square, freedom,
        chi_square_sf(chi_square, freedom) if freedom > 0 else None
    )  # fmt: skip


def _summed(battles: Battles, own: Floats, others: Floats | None = None) -> Floats:
    """Return Σ over the votes of a pair, from the row's side. Shapes: own, others [votes]; result [models, models]."""
    n = battles.n_models
    sums = np.bincount(battles.first * n + battles.second, own, n * n)
    sums = sums + np.bincount(battles.second * n + battles.first, own if others is None else others, n * n)
    return np.asarray(sums.reshape(n, n))


def _share(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))


def _adjusted(z: Floats) -> Floats:
    """Return Holm's adjusted two-sided p of each pair's z; NaN where there is none."""
    rows, columns = np.nonzero(np.triu(~np.isnan(z), 1))
    adjusted = np.full(z.shape, np.nan)
    if len(rows):
        p = holm([min(1.0, 2.0 * normal_cdf(-abs(value))) for value in z[rows, columns].tolist()])
        adjusted[rows, columns] = adjusted[columns, rows] = p
    return adjusted
