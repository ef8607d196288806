"""Suites: a leaderboard's benchmark as data: its tasks, their shots and metrics, and how the composite is computed.

A suite file (`library/suites/*.yaml`, `suites/*.yaml` in the user's folders, or a path; read by `suite_files`) becomes
frozen records here; its scores are computed in `suite_scores`. No leaderboard is hard-coded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeVar, get_args

from assaymark.errors import DataError

Normalise = Literal["none", "chance", "minmax"]
Aggregate = Literal["mean", "weighted", "winrate", "geometric"]
Within = Literal["mean", "weighted"]
PerSample = Literal["1/choices", "gold/choices"]
PER_SAMPLE: tuple[PerSample, ...] = get_args(PerSample)
Chance = float | PerSample | None
Named = TypeVar("Named", bound=str)

LARGEST = 1e100  # of a weight or the end of a range

_KEYS = {
    "name", "aliases", "version", "title", "profile", "members", "normalise", "clip", "missing", "group_by",
    "aggregate", "column_weights", "at_most", "reproduced", "unshown", "note",
}  # fmt: skip
_MEMBER_KEYS = {
    "task", "shots", "metric", "filter", "weight", "chance", "column", "within", "range", "questions",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """One task or group of a suite."""

    task: str
    column: str
    metrics: tuple[str, ...]  # several: their mean
    filter: str = "none"
    shots: int | None = None  # None: the task's own
    weight: float = 1.0  # within its column
    chance: Chance = None
    within: Within = "mean"  # how the tasks of a group are averaged
    range: tuple[float, float] = (0.0, 1.0)  # of the metric, for `normalise: minmax`
    questions: str | None = None  # members with the same name here have the same questions in the same order


@dataclass(frozen=True, slots=True)
class Suite:
    """A named set of tasks with shots, and the composite."""

    name: str
    title: str
    profile: str
    members: tuple[Member, ...]
    spec: Mapping[str, object]  # the file, as JSON: stored with a run so that its composite needs no file
    version: str = "1"
    aliases: tuple[str, ...] = ()
    normalise: Normalise = "none"
    clip: bool = False
    aggregate: Aggregate = "mean"
    at_most: int | None = None  # HELM's draw of so many samples from a task that has more
    column_weights: Mapping[str, float] | None = None  # for `aggregate: weighted` or `geometric`
    reproduced: bool = False
    unshown: str = ""  # what is missing for it to be reproduced
    note: str = ""
    source: Path | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(dict.fromkeys(member.column for member in self.members))

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns that are shown beside the composite and do not count in it: those of weight 0."""
        return tuple(column for column in self.columns if self.weight_of(column) == 0)

    def weight_of(self, column: str) -> float:
        """Return a column's weight in the composite."""
        return 1.0 if self.column_weights is None else self.column_weights[column]


@dataclass(frozen=True, slots=True)
class ChosenSuite:
    """A suite in a selection: the tasks of its members, and which members cannot be evaluated."""

    suite: Suite
    leaves: tuple[tuple[str, ...], ...]  # the tasks of each member; () where it is missing
    missing: tuple[tuple[str, str], ...] = ()  # (member, why)


def is_suite(spec: Mapping[str, object]) -> bool:
    """Return whether a file's mapping is a suite: it has members, and is neither task nor group."""
    return "members" in spec and "task" not in spec and "group" not in spec


def suite_from(spec: Mapping[str, object], source: Path | None = None) -> Suite:
    """Return the suite described by a mapping, from a file or a stored run.

    Raises: DataError naming the key and what was expected.
    """
    where = str(source or f"suite {spec.get('name')}")
    _refuse_strange(spec, _KEYS, where)
    name, listed = spec.get("name"), spec.get("members")
    if not isinstance(name, str) or not listed:
        raise DataError(f"{where}: a suite needs a `name` and at least one of `members`")
    if spec.get("missing", "refuse") != "refuse":
        raise DataError(f"{where}: missing is {spec['missing']!r}; expected refuse: the composite needs all members")
    if not isinstance(listed, list | tuple):
        raise DataError(f"{where}: members is {listed!r:.120}; expected a list of tasks with their metrics")
    members = tuple(_member(member, where) for member in listed)
    suite = Suite(
        name=name,
        title=str(spec.get("title") or name),
        profile=str(spec.get("profile") or "lm-eval-0.4.13"),
        members=members,
        spec=dict(spec),
        version=str(spec.get("version", "1")),
        aliases=tuple(map(str, _listed(spec, "aliases", where))),
        normalise=_one_of(spec, "normalise", "none", get_args(Normalise), where),
        clip=_boolean(spec, "clip", where),
        aggregate=_one_of(spec, "aggregate", "mean", get_args(Aggregate), where),
        at_most=_at_most(spec, where),
        reproduced=_boolean(spec, "reproduced", where),
        unshown=str(spec.get("unshown") or "its prompts are not shown to equal the board's"),
        note=str(spec.get("note") or "").strip(),
        source=source,
    )
    suite = replace(suite, column_weights=_column_weights(spec.get("column_weights"), suite, where))
    _check_chance(suite, where)
    return suite


def _member(spec: object, where: str) -> Member:
    if not isinstance(spec, Mapping) or not isinstance(spec.get("task"), str) or not spec.get("metric"):
        raise DataError(f"{where}: member {spec!r:.120}; expected `task` and `metric` at least")
    where = f"{where}, member {spec['task']}"
    _refuse_strange(spec, _MEMBER_KEYS, where)
    metric, shots, span = spec["metric"], spec.get("shots"), spec.get("range", [0, 1])
    if shots is not None and (not isinstance(shots, int) or isinstance(shots, bool) or shots < 0):
        raise DataError(f"{where}: shots is {shots!r}; expected 0 or more, or null for the task's own")
    if not isinstance(span, list | tuple) or len(span) != 2 or not all(map(_is_number, span)) or span[0] >= span[1]:
        raise DataError(f"{where}: range is {span!r:.80}; expected [lowest, highest]")
    weight = spec.get("weight", 1)
    if not _is_number(weight) or weight <= 0:
        raise DataError(f"{where}: weight is {weight!r:.80}; expected more than 0")
    metrics = (metric,) if isinstance(metric, str) else metric
    if not isinstance(metrics, list | tuple) or not all(isinstance(name, str) for name in metrics):
        raise DataError(f"{where}: metric is {metric!r:.80}; expected a name or a list of names")
    if not isinstance(spec.get("questions"), str | None):
        raise DataError(f"{where}: questions is {spec['questions']!r:.80}; expected a name")
    return Member(
        task=spec["task"],
        column=str(spec.get("column") or spec["task"]),
        metrics=tuple(metrics),
        filter=str(spec.get("filter", "none")),
        shots=shots,
        weight=float(weight),
        chance=_chance(spec.get("chance"), where),
        within=_one_of(spec, "within", "mean", get_args(Within), where),
        range=(float(span[0]), float(span[1])),
        questions=spec.get("questions"),
    )


def _is_number(value: object) -> bool:
    """Return whether a value is a finite number; the integers of a file may be larger than any float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _at_most(spec: Mapping[str, object], where: str) -> int | None:
    value = spec.get("at_most")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise DataError(f"{where}: at_most is {value!r:.80}; expected a whole number of samples from 1")
    return value


def _listed(spec: Mapping[str, object], key: str, where: str) -> Sequence[object]:
    value = spec.get(key) or ()
    if not isinstance(value, list | tuple):
        raise DataError(f"{where}: {key} is {value!r:.80}; expected a list")
    return value


def _chance(value: object, where: str) -> Chance:
    """Return the chance score: a number (exact where it is given as a fraction), or a rule per sample."""
    if value is None:
        return None
    for rule in PER_SAMPLE:
        if value == rule:
            return rule
    try:
        number = float(Fraction(str(value)))
    except (ValueError, ZeroDivisionError, OverflowError):
        number = -1.0
    if not 0 <= number < 1:
        raise DataError(
            f"{where}: chance is {value!r}; expected a number from 0 to below 1, a fraction such as 1/3, "
            f"{' or '.join(PER_SAMPLE)}"
        )
    return number


def _one_of(spec: Mapping[str, object], key: str, default: Named, known: Sequence[Named], where: str) -> Named:
    value = spec.get(key, default)
    for name in known:
        if value == name:
            return name
    raise DataError(f"{where}: {key} is {value!r}; expected one of {', '.join(known)}")


def _boolean(spec: Mapping[str, object], key: str, where: str) -> bool:
    value = spec.get(key, False)
    if not isinstance(value, bool):
        raise DataError(f"{where}: {key} is {value!r}; expected true or false")
    return value


def _refuse_strange(spec: Mapping[str, object], known: set[str], where: str) -> None:
    strange = sorted(set(map(str, spec)) - known)
    if strange:
        raise DataError(f"{where}: unknown key '{strange[0]}'; known: {', '.join(sorted(known))}")


def _column_weights(weights: object, suite: Suite, where: str) -> Mapping[str, float] | None:
    if weights is None:
        if suite.aggregate == "weighted":
            raise DataError(
                f"{where}: aggregate is weighted; expected `column_weights` with {', '.join(suite.columns)}"
            )
        return None
    least = 0 if suite.aggregate == "weighted" else None  # of weight 0: shown beside the composite
    if (
        not isinstance(weights, Mapping)
        or set(weights) != set(suite.columns)
        or not all(_is_number(each) and (each > 0 or each == least) for each in weights.values())
        or not any(weights.values())
    ):
        raise DataError(
            f"{where}: column_weights is {weights!r:.200}; expected more than 0 for each of {suite.columns}"
        )
    return weights


def _check_chance(suite: Suite, where: str) -> None:
    lacking = [member.task for member in suite.members if member.chance is None]
    if suite.normalise == "chance" and lacking:
        raise DataError(f"{where}: normalise is chance, and {', '.join(lacking)} names no `chance`")
