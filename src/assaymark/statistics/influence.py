"""Influence of single votes: how few of them, if they were removed, would change the model at the top.

All ratings depend on all votes, so a few votes on any pair may change the first rank. Votes are ordered by the first
order effect of removing them; an exact refit without them decides.
"""

from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import BradleyTerry, fit_bradley_terry

_RIVALS = 5  # models below the top that are tried


@dataclass(frozen=True, slots=True, eq=False)
class TopChange:
    """Votes whose removal puts another model first, verified by a refit without them."""

    first: int  # the model at the top with all votes
    second: int  # at the top without these votes
    votes: Ints  # indices of the votes, the most influential one first
    n_predicted: int  # what the first order approximation says
    gap_before: float  # strength of `first` minus that of the rival whose rise was sought, in logits
    gap_after: float  # strength of `first` minus that of `second` without these votes; below 0


def vote_influence(battles: Battles, fit: BradleyTerry, contrast: Floats, covariates: Floats | None = None) -> Floats:
    """Return for each vote how much the contrast Σ c θ changes approximately if the vote is removed.

    -cᵀ H⁻¹ x r / (1 - h) with the residual r = w (y - p); h = w p (1 - p) xᵀ H⁻¹ x is the vote's leverage.

    Shapes: contrast [models]; result [votes]. Source: Cook and Weisberg 1982 (one-step deletion in logistic regression:
    Pregibon 1981).
    """
    n = battles.n_models
    inverse = fit.inverse_curvature
    at = inverse[:, :n] @ contrast
    moved = at[battles.first] - at[battles.second]
    spread = np.diag(inverse)[battles.first] + np.diag(inverse)[battles.second]
    spread = spread - 2.0 * inverse[battles.first, battles.second]
    if covariates is not None:
        moved = moved + covariates @ at[n:]
        mixed = inverse[battles.first, n:] - inverse[battles.second, n:]
        spread = spread + 2.0 * (mixed * covariates).sum(axis=1)
        spread = spread + ((covariates @ inverse[n:, n:]) * covariates).sum(axis=1)
    p = np.clip(battles.outcome - fit.residuals, 0.0, 1.0)
    leverage = np.minimum(p * (1.0 - p) * spread, 0.99)
    return np.asarray(-moved * fit.residuals / (1.0 - leverage))


def smallest_change_of_top(
    battles: Battles, fit: BradleyTerry, covariates: Floats | None = None, *, most: float = 0.5
) -> TopChange | None:
    """Return the smallest set found of votes without which another model has the highest strength; None if none is.

    For each of the five next models the votes are ordered by `vote_influence` on its gap to the first, the number is
    predicted from their sum, and the smallest number for which a refit changes the order is found by bisection from
    there. The set is verified, but that no smaller one exists is not: that would need all subsets.

    Args:
        battles: the votes that were fitted.
        fit: their fit, with equal weights.
        covariates: those of the fit.
        most: share of the votes that may be removed.

    Source: Broderick, Giordano and Meager 2020 (approximate maximum influence perturbation); for arenas Huang et al.
    2025.
    """
    order = np.argsort(-fit.strengths, kind="stable")
    changes: list[TopChange] = []
    candidates = [
        _Candidate.of(battles, fit, covariates, int(order[0]), int(rival)) for rival in order[1 : 1 + _RIVALS]
    ]
    for candidate in sorted(candidates, key=lambda rival: rival.n_predicted):
        limit = min([int(most * len(battles)), *(len(change.votes) - 1 for change in changes)])
        if (
            candidate.n_predicted <= 1.5 * limit
            and (change := candidate.smallest(battles, covariates, limit)) is not None
        ):
            changes.append(change)
    return min(changes, key=lambda change: len(change.votes), default=None)


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """The votes in the order in which they are removed to put a rival first."""

    first: int
    rival: int
    order: Ints
    n_predicted: int
    gap: float

    @classmethod
    def of(cls, battles: Battles, fit: BradleyTerry, covariates: Floats | None, first: int, rival: int) -> "_Candidate":
        contrast = np.zeros(battles.n_models)
        contrast[first], contrast[rival] = 1.0, -1.0
        moved = vote_influence(battles, fit, contrast, covariates)
        order = np.argsort(moved, kind="stable")
        gap = float(fit.strengths[first] - fit.strengths[rival])
        sums = np.cumsum(np.minimum(moved[order], 0.0))
        below = np.flatnonzero(sums < -gap)
        return cls(first, rival, order, int(below[0]) + 1 if len(below) else len(battles), gap)

    def smallest(self, battles: Battles, covariates: Floats | None, limit: int) -> TopChange | None:
        """Return the change with fewest votes of this order, at most `limit`; None if there is none."""
        high = min(self.n_predicted, limit)
        without = self._without(battles, covariates, high) if high >= 1 else None
        while without is not None and self._gap(without) >= 0.0:
            if high == limit:
                return None
            high = min(limit, high + max(1, high // 4))
            without = self._without(battles, covariates, high)
        if without is None:
            return None
        low, step = 0, max(1, high // 8)  # with none removed the first is still first
        while high - low > 1:  # gallops down from the prediction, which is near, then halves
            middle = max(low + 1, high - step) if low == 0 else (low + high) // 2
            now = self._without(battles, covariates, middle)
            if now is not None and self._gap(now) < 0.0:
                high, without, step = middle, now, 2 * step
            else:
                low = middle
        at_top = int(without.argmax())
        after = float(without[self.first] - without[at_top])
        return TopChange(self.first, at_top, self.order[:high], self.n_predicted, self.gap, after)

    def _gap(self, strengths: Floats) -> float:
        return float(strengths[self.first] - strengths[self.rival])

    def _without(self, battles: Battles, covariates: Floats | None, count: int) -> Floats | None:
        """Return the strengths without the first `count` votes; None if not all models can be rated then."""
        kept = np.ones(len(battles), dtype=bool)
        kept[self.order[:count]] = False
        rest = Battles(battles.first[kept], battles.second[kept], battles.outcome[kept], battles.n_models)
        try:
            return fit_bradley_terry(rest, None if covariates is None else covariates[kept]).strengths
        except DataError:
            return None
