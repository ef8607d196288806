"""Effects of perturbations on a run's scores: paired differences to the unperturbed samples, and HELM's worst case.

A difference is over the samples that have a copy, each beside its original. The worst case of a family is over all
samples: the mean of each sample's lowest score among original and copies, even if lower is better.
Source: HELM (Liang et al. 2022, section 4.5), metrics/metric.py.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, TypeAlias, get_type_hints

from assaymark.perturbations.named import FAMILIES, family_of
from assaymark.records import ScoreStatus
from assaymark.records.result_facts import ResultFacts
from assaymark.results.evidence.groups import leaves_of
from assaymark.results.evidence.records import GroupSummaryInput, PerturbedScore, ScoreRow, TaskSummaryInput, row_value
from assaymark.statistics.aggregate import traits_of
from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.paired import compare_paired

PERTURBED: Final = "perturbed"  # the key of the results among a run's facts
MOST_RESULTS = 10_000
_Values: TypeAlias = dict[int, tuple[float, ...] | None]  # the score of each trial by sample; mostly there is one
_KINDS: Mapping[object, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    float | None: (int, float, type(None)),
}
_FIELD_TYPES = {name: _KINDS[hint] for name, hint in get_type_hints(PerturbedScore).items()}


def perturbed_from(facts: Mapping[str, object]) -> tuple[PerturbedScore, ...]:
    """Return the results among a run's facts; invalid ones, as in a file from elsewhere, are left out."""
    listed = facts.get(PERTURBED)
    entries = listed[:MOST_RESULTS] if isinstance(listed, list) else []
    return tuple(PerturbedScore(**entry) for entry in entries if _is_result(entry))


def _is_result(entry: object) -> bool:
    """Return whether an entry has the fields of a result, with values of their types."""
    if not isinstance(entry, Mapping) or {each.name for each in fields(PerturbedScore)} != set(entry):
        return False
    return all(isinstance(entry[name], kinds) for name, kinds in _FIELD_TYPES.items())


@dataclass(slots=True)
class PerturbedScores:
    """Collects the scores of originals and copies while scores are read.

    copies: task -> (its original, the perturbation's label, in whose worst case the copies count, if in one).
    """

    copies: Mapping[str, tuple[str, str, str | None]]
    _values: dict[tuple[str, str, str], _Values] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: ResultFacts) -> "PerturbedScores":
        """Return the collector for a run with these facts."""
        named = {name: task.get("perturbed") for name, task in facts.get("tasks", {}).items()}
        return cls(
            {
                name: (each["of"], each["by"], each["family"] if "family" in each else family_of(each["by"]))
                for name, each in named.items()
                if each
            }
        )

    def watch(self, rows: Iterable[ScoreRow]) -> Iterator[ScoreRow]:
        """Yield the rows unchanged."""
        wanted = {*self.copies, *(original for original, _, _ in self.copies.values())}
        for row in rows:
            if row.task in wanted:
                values = None if row.status is ScoreStatus.FAILED else _trials_of(row)
                self._values.setdefault((row.task, row.filter, row.metric), {})[row.sample_index] = values
            yield row

    def results(
        self, tasks: Sequence[TaskSummaryInput], groups: Sequence[GroupSummaryInput]
    ) -> tuple[PerturbedScore, ...]:
        """Return the results of each task, and before them of each group whose tasks all have copies, pooled."""
        originals = {original for original, _, _ in self.copies.values()}
        of_tasks = {task.name: self._samples(task) for task in tasks if task.name in originals}
        results: list[PerturbedScore] = []
        by_name = {group.name: group for group in groups}
        for group in groups:
            members = leaves_of(group.name, by_name)
            if group.aggregates and members and all(name in of_tasks for name in members):
                results += _pooled(group.name, [of_tasks[name] for name in members])
        for name, samples in of_tasks.items():
            results += _pooled(name, [samples])
        return tuple(results)

    def _samples(self, task: TaskSummaryInput) -> "_TaskScores":
        """Return a task's values by filter and metric: of its samples, and of their copies by label."""
        own: dict[tuple[str, str], tuple[_Values, dict[str, _Values]]] = {}
        numbers = frozenset(metric.name for metric in task.metrics if metric.is_number)
        for metric in task.metrics:
            for name in metric.filters:
                values = self._values.get((task.name, name, metric.name))
                if values is None or not traits_of(metric.aggregation).is_mean:
                    continue
                by_label = {
                    label: self._values.get((copy, name, metric.name), {})
                    for copy, (original, label, _) in self.copies.items()
                    if original == task.name
                }
                own[name, metric.name] = (values, by_label)
        families = {label: family for original, label, family in self.copies.values() if original == task.name}
        return _TaskScores(task.primary, own, families, numbers)


def _trials_of(row: ScoreRow) -> tuple[float, ...] | None:
    """Return a sample's score, or of several trials each one's; None where one is not defined."""
    detail = row.detail if isinstance(row.detail, dict) else {}
    listed = detail.get("trials") or (row_value(row),)
    values = tuple(float(value) for value in listed)
    return None if any(math.isnan(value) for value in values) else values


@dataclass(frozen=True, slots=True)
class _TaskScores:
    primary: tuple[str, str] | None  # metric, filter
    values: Mapping[tuple[str, str], tuple[_Values, Mapping[str, _Values]]]
    families: Mapping[str, str | None]  # by label
    numbers: frozenset[str]  # metrics that are no shares, even where all values are in [0, 1]


@dataclass(slots=True)
class _Pairs:
    """Scores of samples as they are and perturbed, in the same order."""

    original: list[float] = field(default_factory=list)
    perturbed: list[float] = field(default_factory=list)
    n_left_out: int = 0

    def add(self, original: tuple[float, ...] | None, perturbed: Iterable[tuple[float, ...] | None]) -> None:
        """Add a sample; of several scores the lowest, of several trials the mean, none if a score is missing.

        The lowest is that of each trial, as in HELM, where all have as many.
        """
        scores = list(perturbed)
        known = [score for score in scores if score is not None]
        if len(known) < len(scores) or original is None:
            self.n_left_out += 1
            return
        self.original.append(_mean(original))
        if len({len(score) for score in known}) == 1:
            self.perturbed.append(_mean([min(of_trial) for of_trial in zip(*known, strict=True)]))
        else:
            self.perturbed.append(min(map(_mean, known)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _pooled(name: str, members: Sequence[_TaskScores]) -> Iterator[PerturbedScore]:
    """Yield the results of one task, or of the samples of several."""
    shared = [key for key in members[0].values if all(key in member.values for member in members)]
    for key in shared:
        pairs: dict[str, _Pairs] = {}
        worst: dict[str, _Pairs] = {}
        for member in members:
            originals, by_label = member.values[key]
            for label, copies in by_label.items():
                own = pairs.setdefault(label, _Pairs())
                for index, copy in copies.items():
                    own.add(originals.get(index), [copy])
            for family in FAMILIES:
                of_family = [own for label, own in by_label.items() if member.families[label] == family and own]
                if of_family:
                    for index, original in originals.items():
                        in_all = [original, *(copies[index] for copies in of_family if index in copies)]
                        worst.setdefault(family, _Pairs()).add(original, in_all)
        is_primary = all(member.primary == (key[1], key[0]) for member in members)
        is_number = any(key[1] in member.numbers for member in members)
        for by, own, is_worst in [
            *((label, own, False) for label, own in pairs.items()),
            *((family, own, True) for family, own in worst.items()),
        ]:
            if own.original:
                is_share = not is_number and all(0 <= score <= 1 for score in (*own.original, *own.perturbed))
                yield _result(
                    name, key, by, own,
                    is_share=is_share, is_worst=is_worst, is_primary=is_primary, n_tasks=len(members),
                )  # fmt: skip


def _result(
    name: str,
    key: tuple[str, str],
    by: str,
    pairs: _Pairs,
    *,
    is_share: bool,
    is_worst: bool,
    is_primary: bool,
    n_tasks: int,
) -> PerturbedScore:
    paired = compare_paired(pairs.original, pairs.perturbed, is_share=is_share)
    value = estimate_mean(
        pairs.perturbed, binary=None if is_share else False, bounds=None if is_share else (-math.inf, math.inf)
    )
    return PerturbedScore(
        task=name,
        metric=key[1],
        filter=key[0],
        by=by,
        is_worst=is_worst,
        n=len(pairs.original),
        original=sum(pairs.original) / len(pairs.original),
        value=value.value,
        low=value.low,
        high=value.high,
        difference=paired.difference,
        difference_low=paired.low,
        difference_high=paired.high,
        p=paired.p,
        n_broken=paired.a_only,
        n_mended=paired.b_only,
        n_left_out=pairs.n_left_out,
        is_primary=is_primary,
        is_share=is_share,
        n_tasks=n_tasks,
        confidence=paired.confidence,
    )
