"""Reader of what a model's repository reports about it: values without answers, in the unit of whoever wrote them.

A value's unit is never guessed, and other models' values never decide it. Of a registered benchmark, or a metric that
is a share, a value above 1 can only be per cent. One up to 1 is a share if that is the benchmark's registered unit and
the model states no value of it above 1; else it is in doubt, and left out with a line. Any other value is a plain
number, as stated. Whoever imports may say the unit of both.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assaymark.documents.numbers import counted
from assaymark.errors import DataError, few
from assaymark.interop.hub_benchmarks import ACCURACY, HubTask, Unit, registered, tasks_of
from assaymark.interop.hub_files import ModelFiles, StatedResult, holds_results, model_folders, read_model_files
from assaymark.interop.imported import ForeignRun, Importer
from assaymark.interop.reported import LARGEST, ReportedValue
from assaymark.records import ReportedFacts
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import find_metric, known_direction, may_be_share

UNNAMED = "score"  # the metric of an entry whose benchmark is not known here
TOOL = "hub-results"
FORMAT = "a model's folder of the Hub with .eval_results/*.yaml or model-index in README.md, or a folder of such"
LISTED = 4  # values that a line on units names


@dataclass(frozen=True, slots=True)
class _Read:
    """A stated result in the unit that is used here, and why it is in that unit."""

    stated: StatedResult
    value: float
    unit: Unit | None  # None: no share
    why: str


def read_hub_results(path: Path, unit: Unit | None = None) -> ForeignRun:
    """Return what a model's folder reports as a run without samples.

    Args:
        path: the folder, or one of its files.
        unit: of the values whose unit is in doubt or not known; None leaves out the first, the others are numbers.

    Raises: DataError if no value can be read.
    """
    return _run(path, read_model_files(path), unit)


def read_models(folder: Path, unit: Unit | None = None) -> Iterator[ForeignRun | DataError]:
    """Yield what each model's folder below a folder reports, or why nothing can be read of it."""
    for path in model_folders(folder):
        try:
            yield read_hub_results(path, unit)
        except DataError as error:
            yield error


def _run(path: Path, files: ModelFiles, unit: Unit | None) -> ForeignRun:
    in_per_cent = {benchmark_of(stated) for stated in files.results if 1.0 < stated.value <= 100.0}
    read: list[_Read] = []
    faults = list(files.faults)
    for stated in files.results:
        each = _in_unit(stated, in_per_cent, unit)
        if isinstance(each, str):
            faults.append(f"{stated.place}: {each}")
        else:
            read.append(each)
    if not read:
        more = f" (and {counted(len(faults) - 1, 'other fault')})" if len(faults) > 1 else ""
        raise DataError(f"{path}: no reported value was read: {faults[0] if faults else 'there is none'}{more}")
    values = list(_distinct(sorted(read, key=_order)))
    return ForeignRun(
        tool=TOOL,
        model=files.model,
        date=max((each.stated.date for each in read), default="") or None,
        tasks=tuple(_tasks(values)),
        samples=(),
        reported=tuple(values),
        files=files.files,
        notes=(*faults, *_unit_lines(read)),
        shots_known=False,
    )


# ------------------------------------------------------------------------------------------ units


def _in_unit(stated: StatedResult, in_per_cent: Container[HubTask | None], unit: Unit | None) -> _Read | str:
    """Return a value as a share where it is one, or why it is left out: impossible, or in one of two units."""
    value, known = stated.value, benchmark_of(stated)
    name = stated.metric if known is None else known.metric
    metric = find_metric(name)
    is_share = known is not None or (metric is not None and metric.is_share)
    low, high = (-LARGEST, LARGEST) if metric is None else metric.value_range
    if not (0.0 <= value <= 100.0 if is_share else low <= value <= high and abs(value) <= LARGEST):
        return f"{value:g} is impossible: expected a number from {low:g} to {high:g}; it was left out"
    if not is_share:
        if metric is not None or not may_be_share(name):
            return _Read(stated, value, None, "as stated, no share")
        share = value / (100 if unit == "per cent" else 1)
        if unit is not None and 0.0 <= share <= 1.0:
            return _Read(stated, share, unit, "as you said")
        return _Read(stated, value, None, "as stated, in no known unit")
    if value > 1.0:
        return _Read(stated, value / 100, "per cent", "above 1")
    if value == 0.0:
        return _Read(stated, value, "share", "0 in either unit")
    if unit is not None:
        return _Read(stated, value / (100 if unit == "per cent" else 1), unit, "as you said")
    if known is None:
        because = "nothing states its unit"
    elif known.unit == "per cent":
        because = f"the leaderboard of {known.dataset} is in per cent"
    elif known in in_per_cent:
        because = f"the leaderboard of {known.dataset} has shares, and another value here is above 1"
    else:
        return _Read(stated, value, "share", "the unit of the benchmark's leaderboard")
    return (
        f"{value:g} may be {100 * value:g}% or {value:g}%: {because}; it was left out: "
        "import with --unit share or --unit percent"
    )


def _unit_lines(read: Sequence[_Read]) -> Iterator[str]:
    """Yield which values were read in which unit, and why, a line for each reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for each in read:
        unit = "" if each.unit is None else f"read as {each.unit}, "
        name = f"{each.stated.name or each.stated.dataset} {each.stated.metric or each.stated.task_id}"
        by_reason.setdefault((unit, each.why), []).append(f"{name} {each.stated.value:g}")
    for (unit, why), names in by_reason.items():
        yield f"{unit}{why}: {few(names, LISTED)}"


# ------------------------------------------------------------------------------------------ names


def benchmark_of(stated: StatedResult) -> HubTask | None:
    """Return the registered task that a result is of; None for one that is not known here."""
    if not stated.metric:
        return registered(stated.dataset, stated.task_id)
    # a model card names the configuration, and any metric
    found = [task for task in tasks_of(stated.dataset) if task.config == (stated.task_id or "default")]
    return found[0] if found and stated.metric in ACCURACY else None


def _task_of(stated: StatedResult) -> str:
    known = benchmark_of(stated)
    if known is not None:
        return known.id
    if not stated.metric:
        return f"{stated.dataset}:{stated.task_id}"
    return stated.name or f"{stated.dataset}{f' ({stated.task_id})' if stated.task_id else ''}"


def _order(read: _Read) -> tuple[str, bool, int]:
    """Return the place of a value: of several of a task, the one without notes first, then the latest."""
    digits = "".join(filter(str.isdigit, read.stated.date[:10]))
    return _task_of(read.stated), bool(read.stated.notes), -int(digits or 0)


def _distinct(read: Sequence[_Read]) -> Iterator[ReportedValue]:
    """Yield the values; what tells several of one task and metric apart stands where filters do."""
    seen: dict[tuple[str, str, str], int] = {}
    for each in read:
        stated, known = each.stated, benchmark_of(each.stated)
        metric = known.metric if known is not None else stated.metric or UNNAMED
        key = (_task_of(stated), "acc" if metric == "accuracy" else metric, stated.notes[:60] or "none")
        seen[key] = seen.get(key, 0) + 1
        variant = key[2] if seen[key] == 1 else f"{key[2]} ({seen[key]})"
        facts: ReportedFacts = {
            "stated": stated.value, "unit": each.unit or "", "unit_by": each.why, "file": stated.file,
            "date": stated.date, "source": stated.source, "by": stated.by, "notes": stated.notes,
            "dataset": stated.dataset, "benchmark": "" if known is None else known.id,
            "revision": stated.revision,
        }  # fmt: skip
        yield ReportedValue(key[0], key[1], each.value, filter=variant, shots=stated.shots, facts=facts)


def _tasks(values: Sequence[ReportedValue]) -> Iterator[TaskSummaryInput]:
    by_task: dict[str, dict[str, list[str]]] = {}
    for value in values:
        by_task.setdefault(value.task, {}).setdefault(value.metric, []).append(value.filter)
    for task, metrics in by_task.items():
        yield TaskSummaryInput(
            name=task,
            metrics=tuple(_metric(name, filters) for name, filters in metrics.items()),
            output_type="unknown",
            version="",
        )


def _metric(name: str, filters: Sequence[str]) -> MetricInput:
    direction = known_direction(name)
    return MetricInput(
        name, higher_is_better=direction is not False, filters=tuple(filters), is_neutral=direction is None
    )


IMPORTER = Importer(holds_results, read_hub_results, FORMAT, read_in_unit=read_hub_results)
