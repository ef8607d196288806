"""A leaderboard's arithmetic: members' scores normalised, clipped, averaged into columns and one number, with errors.

A score has the deviation that each question contributes to it (`Part.deviations`), so that errors are combined
correctly if two members have the same questions: two metrics of one answer, a task that is a copy of another, a data
set with and without its passages. For independent members the sum is √Σ(w SE)².

Win rates have no such sum: their errors come from simulated tables of scores.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import normal_cdf, t_quantile
from assaymark.statistics.estimate import IntervalEstimate, effective_wilson
from assaymark.statistics.intervals import score_interval, t_interval, wilson_size


def mean_win_rate(values: Floats | Sequence[Sequence[float]]) -> Floats:
    """Return the share of other models that each model beats, averaged over columns; a tie is half a win.

    Larger is better; missing values are refused, since models with different columns are not comparable. Shapes:
    [models, columns] or [draws, models, columns] -> without columns.

    Source: HELM (Liang et al. 2022), section 10.1.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.shape[-2] < 2 or not np.isfinite(table).all():
        raise DataError(
            f"values have shape {table.shape} and {int((~np.isfinite(table)).sum())} missing; "
            "expected [models, columns] with at least 2 models and a number in every cell"
        )
    lead = table[..., :, None, :] - table[..., None, :, :]  # [..., models, others, columns]
    wins = (lead > 0) + 0.5 * (lead == 0)
    others = table.shape[-2] - 1
    return np.asarray((wins.sum(axis=-2) - 0.5).mean(axis=-1) / others)  # a model ties with itself: not counted


Bounds = tuple[float, float]
SHARES: Bounds = (0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Stratum:
    """A task within a bounded score, as the share of its range that was reached."""

    share: float
    size: float  # the right or wrong answers that would give the task's own interval
    deviations: Mapping[Hashable, float]  # of the task's score, by question
    width: float  # of the task's range
    slope: float = 1.0  # of the whole score in the task's


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A score with its error."""

    value: float
    n: int = 0  # samples
    deviations: Mapping[Hashable, float] | None = None  # by question; their squares sum to the variance. None: unknown
    variances: tuple[tuple[float, float], ...] = ()  # of each independent sum in it: (variance, degrees of freedom)
    bounds: Bounds | None = None  # smallest and largest possible score
    strata: tuple[Stratum, ...] = ()  # where it has bounds and an error
    factors: tuple[tuple["Part", float], ...] = ()  # of a geometric mean: its parts and their powers

    @property
    def stderr(self) -> float | None:
        """The standard error; None if it is not known."""
        return None if self.deviations is None else math.sqrt(sum(d * d for d in self.deviations.values()))


def ratio_part(
    amounts: Sequence[float], weights: Sequence[float], questions: Sequence[Hashable], bounds: Bounds | None = SHARES
) -> Part:
    """Return Σ amounts / Σ weights: a mean over instructions, or over samples with individual chance levels.

    Source: the delta method for a ratio, deviations (a_i - r w_i) / Σ w times √(n/(n-1)) (Cochran 1977, 2.39).
    Raises: DataError for no samples, or counts that differ.
    """
    tops, bottoms, n = np.asarray(amounts, float), np.asarray(weights, float), len(questions)
    if not n or len(tops) != n or len(bottoms) != n or bottoms.sum() <= 0:
        raise DataError(
            f"{len(tops)} amounts, {len(bottoms)} weights, {n} questions; expected equal numbers, at least 1"
        )
    total = float(bottoms.sum())
    value = float(tops.sum()) / total
    limits = bounds if bounds is not None and bounds[0] - 1e-9 <= value <= bounds[1] + 1e-9 else None
    low, high = limits or (0.0, 0.0)
    if n == 1:  # nothing is known of the spread: take that of a fair coin between the bounds
        deviations = None if limits is None else {questions[0]: (high - low) / 2}
        return _bounded(Part(value, 1, deviations, (((high - low) ** 2 / 4, 1.0),), limits), 1.0)
    spread = (tops - value * bottoms) / total * math.sqrt(n / (n - 1))
    by_question: dict[Hashable, float] = {}
    for question, deviation in zip(questions, spread.tolist(), strict=True):
        by_question[question] = by_question.get(question, 0.0) + deviation
    variance = float((spread**2).sum())
    part = Part(value, n, by_question, ((variance, float(n - 1)),), limits)
    is_count = len(by_question) == n and bool(np.isin(tops, (low, high)).all() and (bottoms == 1).all())
    return _bounded(part, float(n) if is_count else None)


def reported_part(estimate: IntervalEstimate, question: Hashable, bounds: Bounds | None = SHARES) -> Part:
    """Return a score of which only the estimate is known; parts of one question are treated as fully correlated.

    It is without an error where the estimate is, or is of one sample; without bounds where the samples are not known.
    """
    value, n, error = estimate.value, estimate.n, estimate.stderr
    if error is None or n == 1:
        return Part(value, n)
    variances = ((error * error, float(n - 1) if n else 1e6),)
    if not n or bounds is None or not bounds[0] <= value <= bounds[1]:
        return Part(value, n, {question: error}, variances)
    size = None
    if estimate.low is not None and estimate.high is not None:
        width = bounds[1] - bounds[0]
        size = wilson_size((value - bounds[0]) / width, (estimate.high - estimate.low) / width, estimate.confidence)
    return _bounded(Part(value, n, {question: error}, variances, bounds), size)


def _bounded(part: Part, size: float | None) -> Part:
    """Return a task's part with its stratum, where it has bounds; without a size, that of its error is taken."""
    if part.bounds is None or part.deviations is None:
        return part
    low, width = part.bounds[0], part.bounds[1] - part.bounds[0]
    share = min(max((part.value - low) / width, 0.0), 1.0)
    if size is None:
        n = len(part.deviations) if len(part.deviations) > 1 else part.n
        own = effective_wilson(share, (part.stderr or 0.0) / width, n, max(n - 1, 1), 0.95)
        size = wilson_size(share, own.high - own.low)
    return replace(part, strata=(Stratum(share, min(size, 1e12), part.deviations, width),))


def weighted_sum(parts: Sequence[Part], weights: Sequence[float], constant: float = 0.0) -> Part:
    """Return Σ weight part + constant; errors of the same question add before they are squared."""
    if not parts or len(parts) != len(weights):
        raise DataError(f"{len(parts)} scores and {len(weights)} weights; expected equal numbers, at least 1")
    value = sum(w * part.value for part, w in zip(parts, weights, strict=True)) + constant
    known = [(part, w, part.deviations) for part, w in zip(parts, weights, strict=True) if part.deviations is not None]
    total: dict[Hashable, float] | None = None
    if len(known) == len(parts):
        total = {}
        for _, weight, deviations in known:
            for question, deviation in deviations.items():
                total[question] = total.get(question, 0.0) + weight * deviation
    ranges = [part.bounds for part in parts if part.bounds is not None]
    limits: Bounds | None = None
    if len(ranges) == len(parts) and min(weights) >= 0:
        low, high = (sum(w * each[end] for each, w in zip(ranges, weights, strict=True)) + constant for end in (0, 1))
        limits = (low, high)
    return Part(
        value,
        sum(part.n for part in parts),
        total,
        tuple((w * w * v, df) for part, w in zip(parts, weights, strict=True) for v, df in part.variances),
        limits,
        ()
        if limits is None
        else tuple(
            replace(each, slope=w * each.slope)
            for part, w in zip(parts, weights, strict=True)
            for each in part.strata
            if w
        ),
    )


def average(parts: Sequence[Part], weights: Sequence[float] | None = None) -> Part:
    """Return the mean, weighted if weights are given."""
    shares = [1.0] * len(parts) if weights is None else list(weights)
    return weighted_sum(parts, [share / sum(shares) for share in shares])


def rescaled(part: Part, zero: float, one: float = 1.0) -> Part:
    """Return (score - zero) / (one - zero): chance becomes 0, scores below chance are negative."""
    if not zero < one:
        raise DataError(f"rescaling maps {zero} to 0 and {one} to 1; expected the first below the second")
    whole = weighted_sum([part], [1.0 / (one - zero)], -zero / (one - zero))
    return replace(whole, value=(part.value - zero) / (one - zero))  # 0 where the score is chance, not -6e-17


def clipped(part: Part) -> Part:
    """Return max(score, 0) with the error of a clipped normal variable.

    The error is sd(max(0, Z)) for Z normal with the score's mean and error.
    """
    error = part.stderr
    factor = 1.0 if part.value > 0 else 0.0
    if error:
        m = part.value / error
        density, below = math.exp(-m * m / 2) / math.sqrt(2 * math.pi), normal_cdf(m)
        first, second = m * below + density, (m * m + 1) * below + m * density
        factor = math.sqrt(max(second - first * first, 0.0))
    scaled = None if part.deviations is None else {q: factor * d for q, d in part.deviations.items()}
    return replace(
        part,
        value=max(part.value, 0.0),
        deviations=scaled,
        variances=tuple((factor * factor * v, df) for v, df in part.variances),
        bounds=None,
        strata=(),
    )


def geometric(parts: Sequence[Part], weights: Sequence[float] | None = None) -> Part | None:
    """Return the geometric mean with its error by the delta method; None if a score is negative.

    If a score is 0, the mean is 0 and its error is not known.
    """
    shares = [1.0] * len(parts) if weights is None else list(weights)
    if min(part.value for part in parts) < 0:
        return None
    n = sum(part.n for part in parts)
    if min(part.value for part in parts) == 0:
        return Part(0.0, n)
    powers = [share / sum(shares) for share in shares]
    value = math.exp(sum(power * math.log(part.value) for part, power in zip(parts, powers, strict=True)))
    slopes = [value * power / part.value for part, power in zip(parts, powers, strict=True)]
    whole = weighted_sum(parts, slopes)
    return replace(whole, value=value, bounds=None, strata=(), factors=tuple(zip(parts, powers, strict=True)))


def interval_of(part: Part, name: str, confidence: float = 0.95, *, logarithmic: bool = False) -> IntervalEstimate:
    """Return a score with its interval.

    A bounded score gets the score interval of its tasks' shares, in which a small task that is all right or all wrong
    has the error that it may have (`score_interval`). Where tasks share questions, each counts as fewer answers
    (`_independent_sizes`). A geometric mean (`logarithmic`) of bounded parts has the interval that is recovered from
    theirs on the logarithm. Others get Student's, on the logarithm for geometric means, with degrees of freedom after
    Satterthwaite 1946.

    Source: those of `score_interval`; Zou, Huang and Zhang 2009 for what is recovered from parts' intervals.
    """
    error = part.stderr
    if error is None or (error == 0 and part.bounds is None and not part.factors):
        return IntervalEstimate(part.value, None, None, error, "none: a part has no error", part.n, confidence)
    df = _freedom(part)
    if part.bounds is not None and part.strata:
        weights = np.array([stratum.slope * stratum.width for stratum in part.strata])
        shares = np.array([stratum.share for stratum in part.strata])
        interval = score_interval(shares, _independent_sizes(part), weights / weights.sum(), confidence)
        scale = float(weights.sum())
        shift = part.value - float(shares @ weights)
        ends, method = (shift + scale * interval.low, shift + scale * interval.high), f"{name} score"
    elif logarithmic and part.factors and all(factor.bounds is not None for factor, _ in part.factors):
        ends, method = _recovered_ends(part, confidence), f"{name} log"
    elif logarithmic:
        reach = t_quantile(0.5 + confidence / 2.0, df) * error / part.value
        ends, method = (part.value * math.exp(-reach), part.value * math.exp(reach)), f"{name} log t"
    else:
        plain = t_interval(part.value, error, df, confidence)
        ends, method = (plain.low, plain.high), f"{name} t"
    return IntervalEstimate(part.value, *ends, error, method, part.n, confidence, df=df)


def _independent_sizes(part: Part) -> Floats:
    """Return the tasks' sizes, each divided by how much its covariance with the whole exceeds its own variance.

    So the errors add up to the whole's, where tasks share questions. Of a task without spread, answers of one question
    count as equal. Scores that differ on the same questions do not make a task count as more answers than it has.
    """
    spread = [_spread(stratum, observed=True) for stratum in part.strata]
    even = [_spread(stratum, observed=False) for stratum in part.strata]
    sizes = []
    for stratum, own, flat in zip(part.strata, spread, even, strict=True):
        used, all_of_kind = (own, spread) if any(own.values()) else (flat, even)
        variance = sum(d * d for d in used.values())
        covariance = sum(d * other.get(q, 0.0) for other in all_of_kind for q, d in used.items())
        sizes.append(stratum.size / max(covariance / variance, 1.0))
    return np.array(sizes)


def _spread(stratum: Stratum, *, observed: bool) -> dict[Hashable, float]:
    """Return how far each question moves the whole score: as observed, or all of them equally."""
    even = stratum.width / len(stratum.deviations)
    return {q: stratum.slope * (d if observed else even) for q, d in stratum.deviations.items()}


def _recovered_ends(part: Part, confidence: float) -> Bounds:
    """Return the ends of a geometric mean: on the logarithm, the root of the sum of its parts' squared reaches.

    Where parts share questions, the reaches are longer by the ratio of the errors with and without that.
    """
    alone = sum((power * (factor.stderr or 0.0) / factor.value) ** 2 for factor, power in part.factors)
    dependence = max((part.stderr or 0.0) / part.value / math.sqrt(alone), 1.0) if alone else 1.0
    below = above = 0.0
    for factor, power in part.factors:
        own = interval_of(factor, "part", confidence)
        if own.low is None or own.high is None or own.low <= 0:
            below = math.inf
        else:
            below += (power * math.log(factor.value / own.low)) ** 2
        above += (power * math.log((own.high or factor.value) / factor.value)) ** 2
    return (part.value * math.exp(-dependence * math.sqrt(below)), part.value * math.exp(dependence * math.sqrt(above)))


def clipped_interval(part: Part, unclipped: Part, name: str, confidence: float = 0.95) -> IntervalEstimate:
    """Return a clipped score; its interval begins at the unclipped score's low end, or at 0 if that is negative.

    Clipping raises scores near chance by noise alone; the unclipped low end is free of this bias.
    """
    own, plain = interval_of(part, name, confidence), interval_of(unclipped, name, confidence)
    if plain.low is None or plain.high is None:
        return replace(own, low=None, high=None)
    high = max(end for end in (own.high, plain.high, part.value) if end is not None)
    return replace(own, low=min(max(plain.low, 0.0), part.value), high=high, method=f"{name}, clipped")


def estimate_win_rates(
    columns: Sequence[Sequence[Part]], confidence: float = 0.95, draws: int = 4000
) -> list[IntervalEstimate]:
    """Return each model's mean win rate over columns, with errors from joint normal draws of all column scores.

    Args:
        columns: per column one score per model, the same models in the same order; questions that models share stay
            paired.
        confidence: of the percentile interval.
        draws: simulated tables.

    Raises: DataError for fewer than two models.
    """
    table = np.array([[part.value for part in column] for column in columns])  # [columns, models]
    rates = mean_win_rate(table.T)
    flat = [part for column in columns for part in column]
    n = sum(part.n for part in flat) // table.shape[1]
    if any(part.deviations is None for part in flat):
        return [IntervalEstimate(float(r), None, None, None, "none: a part has no error", n, confidence) for r in rates]
    rows: dict[Hashable, int] = {}
    for part in flat:
        for question in part.deviations or ():
            rows.setdefault(question, len(rows))
    spread = np.zeros((len(rows), len(flat)))
    for column, part in enumerate(flat):
        for question, deviation in (part.deviations or {}).items():
            spread[rows[question], column] = deviation
    generator = generator_for("win rates", *table.shape, draws)
    noise = generator.multivariate_normal(np.zeros(len(flat)), spread.T @ spread, size=draws, method="eigh")
    tables = table[None] + noise.reshape(draws, *table.shape)  # [draws, columns, models]
    simulated = mean_win_rate(np.swapaxes(tables, 1, 2))
    tail = (1.0 - confidence) / 2.0
    lows, highs = np.quantile(simulated, [tail, 1.0 - tail], axis=0)
    errors = simulated.std(axis=0, ddof=1)
    return [
        IntervalEstimate(float(r), float(min(lo, r)), float(max(hi, r)), float(se), "win rate draws", n, confidence)
        for r, lo, hi, se in zip(rates, lows, highs, errors, strict=True)
    ]


def _freedom(part: Part) -> float:
    bottom = sum(v * v / df for v, df in part.variances)
    total = sum(v for v, _ in part.variances)
    return total * total / bottom if bottom > 0 else max(float(part.n - 1), 1.0)
