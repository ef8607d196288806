"""Agreement of two raters' grades: correlations, differences and quadratic weighted kappa, with their intervals.

All of them are functions of how often each two grades occur together, so a bootstrap over questions needs counts only.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.correlation import ranks_in_draws, weighted_correlation
from assaymark.statistics.intervals import as_floats, check_confidence

FEWEST = 5  # questions for an interval
DRAWS = 1000
MOST_POINTS = (
    3000  # different pairs of grades: with more there is no interval of Kendall's tau, which needs their square
)
_CELLS_AT_ONCE = 4_000_000  # bounds memory


@dataclass(frozen=True, slots=True)
class MeasuredAgreement:
    """A number with its interval; None where it is undefined, or there are too few questions."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class GradeAgreement:
    """How two raters' grades agree. Differences are in points of the scale, the first rater's grade minus the other's.

    kendall: tau-b. kappa: quadratic weighted, None where a grade is not a whole number. mean_difference: None for
    raters without order.
    """

    n: int  # pairs of grades
    n_questions: int
    pearson: MeasuredAgreement
    spearman: MeasuredAgreement
    kendall: MeasuredAgreement
    mean_absolute_difference: MeasuredAgreement
    mean_difference: MeasuredAgreement | None
    kappa: MeasuredAgreement | None


def grade_agreement(
    first: Sequence[float],
    second: Sequence[float],
    questions: Sequence[Hashable],
    *,
    symmetric: bool = False,
    confidence: float = 0.95,
) -> GradeAgreement:
    """Return the agreement of paired grades, with percentiles of a seeded bootstrap over questions as intervals.

    With fewer than five questions there is no interval. A coefficient is undefined where a rater gave one grade only;
    draws in which it is undefined are left out.

    Args:
        first: grades of one rater.
        second: grades of the other one, of the same answers.
        questions: a label for each pair; pairs with the same label are dependent.
        symmetric: whether the raters of a pair have no order (two people), so that each pair counts in both.

    Source: Kendall 1945 (tau-b); Cohen 1968 (kappa; with quadratic weights 1 - E(x - y)² / E over independent x, y);
    Efron and Tibshirani 1993 (percentiles).
    Raises: DataError for no grades or counts that differ.
    """
    check_confidence(confidence)
    x, y = as_floats(first, "grades"), as_floats(second, "grades")
    if not len(x) == len(y) == len(questions):
        raise DataError(f"{len(x)} and {len(y)} grades of {len(questions)} questions; expected equal counts")
    names: dict[Hashable, int] = {}
    place = np.array([names.setdefault(label, len(names)) for label in questions])
    table = _table(x, y, place, symmetric=symmetric)
    tail = (1.0 - confidence) / 2.0
    values = _statistics(table.points, table.counts(np.ones((1, len(names)))))[0]
    ends = np.full((2, len(values)), np.nan)
    if len(names) >= FEWEST:
        drawn = _drawn(table, len(names))
        known = ~np.isnan(drawn).all(axis=0)
        ends[:, known] = np.nanquantile(drawn[:, known], [tail, 1.0 - tail], axis=0)
    measurements = [_measured(*numbers) for numbers in zip(values, *ends, strict=True)]
    is_whole = bool((table.points == np.round(table.points)).all())
    pearson, spearman, kendall, absolute, difference, kappa = measurements
    signed, weighted = None if symmetric else difference, kappa if is_whole else None
    return GradeAgreement(len(x), len(names), pearson, spearman, kendall, absolute, signed, weighted)


def _measured(value: float, low: float, high: float) -> MeasuredAgreement:
    if np.isnan(value):
        return MeasuredAgreement(None, None, None)
    return MeasuredAgreement(float(value), *(None if np.isnan(end) else float(end) for end in (low, high)))


@dataclass(frozen=True, slots=True)
class _Table:
    """Pairs of grades, ordered so that equal ones are neighbours.

    Shapes: points [points, 2], the different pairs; starts [points], where each begins in questions [pairs].
    """

    points: Floats
    starts: np.ndarray
    questions: np.ndarray

    def counts(self, times: Floats) -> Floats:
        """Return how often each point occurs if questions occur so often. Shapes: [draws, questions] -> [., points]."""
        return np.asarray(np.add.reduceat(times[:, self.questions], self.starts, axis=1))


def _table(x: Floats, y: Floats, place: np.ndarray, *, symmetric: bool) -> _Table:
    if symmetric:
        x, y, place = np.append(x, y), np.append(y, x), np.append(place, place)
    points, of_pair = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)
    order = np.argsort(of_pair.reshape(-1), kind="stable")
    return _Table(points, np.flatnonzero(np.diff(of_pair.reshape(-1)[order], prepend=-1)), place[order])


def _drawn(table: _Table, n: int) -> Floats:
    """Return the statistics of resampled questions. Shapes: [draws, 6]."""
    generator = generator_for("grade agreement", n, len(table.points))
    parts, step = [], max(1, _CELLS_AT_ONCE // len(table.questions))
    for start in range(0, DRAWS, step):
        times = generator.multinomial(n, np.full(n, 1.0 / n), min(step, DRAWS - start)).astype(np.float64)
        parts.append(_statistics(table.points, table.counts(times)))
    return np.concatenate(parts)


def _statistics(points: Floats, counts: Floats) -> Floats:
    """Return Pearson, Spearman, Kendall, mean absolute difference, mean difference and kappa of each sample.

    Shapes: points [points, 2]; counts [draws, points]; result [draws, 6], NaN where undefined.
    """
    x, y = points.T
    n = counts.sum(axis=1)
    wide = [np.broadcast_to(values, counts.shape) for values in (x, y)]
    pearson = weighted_correlation(wide[0], wide[1], counts)
    spearman = weighted_correlation(ranks_in_draws(x, counts), ranks_in_draws(y, counts), counts)
    gaps = x - y
    mean_x, mean_y, squared = counts @ x / n, counts @ y / n, counts @ gaps**2 / n
    by_chance = counts @ x**2 / n - mean_x**2 + counts @ y**2 / n - mean_y**2 + (mean_x - mean_y) ** 2
    kappa = np.full(len(n), np.nan)
    np.divide(squared, by_chance, out=kappa, where=by_chance > 1e-12)
    columns = (pearson, spearman, _kendall(points, counts), counts @ np.abs(gaps) / n, mean_x - mean_y, 1.0 - kappa)
    return np.column_stack(columns)


def _kendall(points: Floats, counts: Floats) -> Floats:
    """Return tau-b of each sample: (concordant - discordant) / √(pairs not tied in x · pairs not tied in y)."""
    n_draws, n_points = counts.shape
    if n_points > MOST_POINTS and n_draws > 1:
        return np.full(n_draws, np.nan)
    x, y = points.T
    surplus = np.zeros(n_draws)  # of concordant over discordant pairs, each counted twice
    step = max(1, _CELLS_AT_ONCE // n_points)
    for start in range(0, n_points, step):
        part = slice(start, start + step)
        signs = np.sign(x[part, None] - x) * np.sign(y[part, None] - y)  # [part, points]
        surplus += ((counts @ signs.T) * counts[:, part]).sum(axis=1)
    untied = [counts.sum(axis=1) ** 2 - _squares(values, counts) for values in (x, y)]
    bottom = np.sqrt(untied[0] * untied[1])
    return np.asarray(np.divide(surplus, bottom, out=np.full(n_draws, np.nan), where=bottom > 0))


def _squares(values: Floats, counts: Floats) -> Floats:
    """Return Σ over different values of (how often it occurs)². Shapes: [draws]."""
    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    return np.asarray((np.add.reduceat(counts[:, order], starts, axis=1) ** 2).sum(axis=1))
