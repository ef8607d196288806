"""Several files of predictions of one model: shares over instances, pass@k, effort per resolved instance, and dates.

The unit of uncertainty is the instance, whose repeats are a cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean, estimate_ratio
from assaymark.statistics.groups import UnpairedComparison, compare_means, compare_shares
from assaymark.statistics.paired import PairedComparison, compare_paired
from assaymark.statistics.pass_at_k import estimate_pass_at_k
from assaymark.swe.instances import Instance
from assaymark.swe.report import SweReport


@dataclass(frozen=True, slots=True)
class Repeats:
    """The resolved share over several attempts at each instance.

    Attributes:
        scores: instance id -> 1 or 0 for each attempt that is scored.
        mean: of the share that is resolved; each instance counts once, by the mean of its attempts.
        pass_at: k -> the chance that one of k attempts resolves an instance, over those with at least k attempts.
    """

    scores: Mapping[str, tuple[float, ...]]
    mean: IntervalEstimate
    pass_at: Mapping[int, IntervalEstimate]


@dataclass(frozen=True, slots=True)
class PerResolved:
    """The total effort of attempts, divided by the number of instances that they resolve; None if not known."""

    calls: IntervalEstimate | None
    cost: IntervalEstimate | None


@dataclass(frozen=True, slots=True)
class CutoffSplit:
    """Instances by whether they were created before a date.

    Attributes:
        n_undated: instances without a date, which are in neither group.
        before: created before the date; None without any that is scored.
        after: on the date or later; None without any that is scored.
        difference: after minus before; None where one is missing.
    """

    cutoff: date
    n_undated: int
    before: IntervalEstimate | None
    after: IntervalEstimate | None
    difference: UnpairedComparison | None


def repeats_of(reports: Sequence[SweReport]) -> Repeats | None:
    """Return the share resolved by the attempts of several files; None where nothing is scored.

    Raises: DataError for files of different models.
    """
    models = list(dict.fromkeys(report.model for report in reports))
    if len(models) > 1:
        raise DataError(
            f"the files have predictions of {' and '.join(models[:3])}; expected attempts of one model, and the other "
            "with --against"
        )
    scores = _scores(reports)
    if not scores:
        return None
    most = max(len(each) for each in scores.values())
    pass_at = {}
    for k in range(1, most + 1):
        tried = [each for each in scores.values() if len(each) >= k]
        pass_at[k] = estimate_pass_at_k([int(sum(each)) for each in tried], [len(each) for each in tried], k)
    return Repeats(scores, _estimate(list(scores.values())), pass_at)


def compare_repeats(
    first: Sequence[SweReport], second: Sequence[SweReport]
) -> tuple[PairedComparison, dict[str, list[str]]]:
    """Return the second minus the first over the instances that both have scores of, each by its attempts' mean.

    Returns: the comparison, and the instances in which one of them resolves more: only_first, only_second.
    Raises: DataError where there are none.
    """
    a, b = ({name: sum(each) / len(each) for name, each in _scores(reports).items()} for reports in (first, second))
    common = [name for name in a if name in b]
    if not common:
        raise DataError(
            f"{first[0].model} and {second[0].model} have no graded instance in common; grade both with "
            "`assaymark swe grade`"
        )
    only = {
        "only_first": sorted(name for name in common if a[name] > b[name]),
        "only_second": sorted(name for name in common if b[name] > a[name]),
    }
    return compare_paired([a[name] for name in common], [b[name] for name in common]), only


def per_resolved(reports: Sequence[SweReport]) -> PerResolved | None:
    """Return calls and cost for each resolved attempt, as ratios of sums over instances; None without attempts."""
    totals: dict[str, list[float]] = {}  # calls, cost, resolved
    is_priced = True
    for report in reports:
        for name, effort in (report.efforts.by_instance if report.efforts is not None else {}).items():
            total = totals.setdefault(name, [0.0, 0.0, 0.0])
            is_priced = is_priced and effort.cost is not None
            for at, amount in enumerate((effort.n_calls, effort.cost or 0.0, effort.is_resolved)):
                total[at] += amount
    if not totals:
        return None
    calls, costs, resolved = ([each[at] for each in totals.values()] for at in range(3))
    return PerResolved(_amount_per(resolved, calls), _amount_per(resolved, costs) if is_priced else None)


def _amount_per(resolved: Sequence[float], amounts: Sequence[float]) -> IntervalEstimate | None:
    """Return the sum of amounts over that of what is resolved; None where one is 0.

    The interval is that of its inverse, resolved over amount, whose error does not grow where little is resolved: the
    upper end is None where nothing may be resolved.
    """
    if not sum(resolved) or not sum(amounts):
        return None
    inverse = estimate_ratio(resolved, amounts)
    low, high = (None if end is None or end <= 0 else 1.0 / end for end in (inverse.high, inverse.low))
    stderr = None if inverse.stderr is None else inverse.stderr / inverse.value**2
    method = f"inverse of {inverse.method}" if inverse.stderr is not None else inverse.method
    return replace(inverse, value=1.0 / inverse.value, low=low, high=high, stderr=stderr, method=method)


def split_by_date(reports: Sequence[SweReport], instances: Sequence[Instance], cutoff: date) -> CutoffSplit:
    """Return the shares resolved before and from a date on, such as that of a model's training data.

    An instance's date is that of its pull request.
    """
    dates = {each.instance_id: _date_of(each) for each in instances}
    groups: tuple[list[tuple[float, ...]], list[tuple[float, ...]]] = ([], [])
    n_undated = 0
    for name, scores in _scores(reports).items():
        created = dates[name]
        if created is None:
            n_undated += 1
        else:
            groups[created >= cutoff].append(scores)
    before, after = groups
    difference = _difference(before, after) if before and after else None
    return CutoffSplit(
        cutoff, n_undated, _estimate(before) if before else None, _estimate(after) if after else None, difference
    )


def _difference(
    before: Sequence[tuple[float, ...]], after: Sequence[tuple[float, ...]]
) -> UnpairedComparison | None:  # fmt: skip
    if all(len(each) == 1 for each in (*before, *after)):
        n_before, n_after = (int(sum(each[0] for each in group)) for group in (before, after))
        return compare_shares(n_before, len(before), n_after, len(after))
    try:
        return compare_means(*([sum(each) / len(each) for each in group] for group in (before, after)))  # type: ignore[arg-type]
    except DataError:  # too few instances, or none that differs from another
        return None


def _scores(reports: Sequence[SweReport]) -> dict[str, tuple[float, ...]]:
    scores: dict[str, tuple[float, ...]] = {}
    for report in reports:
        for name, score in report.scores().items():
            scores[name] = (*scores.get(name, ()), score)
    return scores


def _estimate(scores: Sequence[tuple[float, ...]]) -> IntervalEstimate:
    if all(len(each) == 1 for each in scores):
        return estimate_mean([each[0] for each in scores], binary=True)
    return estimate_mean([sum(each) / len(each) for each in scores], binary=False, bounds=(0.0, 1.0))


def _date_of(instance: Instance) -> date | None:
    try:
        return date.fromisoformat(instance.created_at[:10])
    except ValueError:
        return None
