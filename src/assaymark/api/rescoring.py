"""Rescoring: score the stored outputs of a run with other filters or metrics, or by its current task files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assaymark.api.run import Run
from assaymark.api.stored import existing_store, run_in
from assaymark.errors import PlanError, UnknownName, UsageError
from assaymark.records import Estimate, JsonValue
from assaymark.registry import nearest
from assaymark.runner.prepare import split_names
from assaymark.runner.rescore import RescoredTask, rescore
from assaymark.runner.score_responses import SCORING_HASH
from assaymark.store import RunRow
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.prompt_styles import find_prompt_style, styled_task
from assaymark.tasks.rescoring import read_item, with_scoring
from assaymark.tasks.task import Task

__all__ = ["RescoreOptions", "Rescored", "rescore_run", "rescore_stored"]


@dataclass(frozen=True, slots=True)
class RescoreOptions:
    """What to rescore, and how. Filters and metrics are names, YAML text or YAML files."""

    task_names: Sequence[str] = ()  # among the run's tasks; empty: all
    filters: Sequence[str] = ()
    metrics: Sequence[str] = ()
    task_files: Sequence[str] = ()  # changed task files, whose tasks are scored; empty: those of the catalogue
    include_path: Sequence[str | Path] = ()
    unsafe_code: bool = False
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Rescored:
    """A run after it was scored again."""

    run: Run
    tasks: Sequence[RescoredTask]
    before: tuple[Estimate, ...] = field(default=(), repr=False)

    def lines(self) -> list[str]:
        """Return the counts of each task, and each changed value with the one it replaced."""
        earlier = {(one.task, one.filter, one.metric): one.value for one in self.before}
        found: list[str] = []
        for task in self.tasks:
            parts = [f"{task.task.name}: {task.n_scored:,} stored responses scored again, no request was sent"]
            parts += [f"{task.n_failed:,} failed and have no score"] if task.n_failed else []
            parts += [f"{task.n_incomplete:,} have no response yet"] if task.n_incomplete else []
            found.append("; ".join(parts))
            for one in self.run.estimates:
                key = (one.task, one.filter, one.metric)
                if one.task == task.task.name and key[1:] in task.names and earlier.get(key, one.value) != one.value:
                    found.append(f"  {one.metric} ({one.filter}) was {_shown(earlier[key])}, is {_shown(one.value)}")
        return found

    def to_json(self) -> dict[str, JsonValue]:
        """Return the run and the rescored tasks with stable names."""
        return {
            **self.run.to_json(),
            "scored_again": [
                {
                    "task": one.task.name,
                    "scoring_hash": one.scoring_hash,
                    "scores": [list(name) for name in one.names],
                    "n_scored": one.n_scored,
                    "n_failed": one.n_failed,
                    "n_incomplete": one.n_incomplete,
                }
                for one in self.tasks
            ],
        }


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def rescore_stored(store: str | None, name: str, options: RescoreOptions) -> Rescored:
    """Rescore a stored run by its name; see `rescore_run`."""
    opened = existing_store(store)
    return rescore_run(run_in(opened, name, rescoring=True), options)


def rescore_run(run: Run, options: RescoreOptions) -> Rescored:
    """Score a run's stored outputs again, without sending anything to the model; its earlier scores stay stored.

    Raises: UnknownName for an unknown task, filter or metric; PlanError if the stored outputs lack what a metric
        needs, or belong to other questions than those of the current task file.
    """
    from assaymark.report.evidence.from_store import SUMMARY_DUE, save_summary_of
    from assaymark.report.evidence.rescoring import add_rescored, rescored_entry
    from assaymark.report.evidence.task_facts import lacking_aggregations, own_aggregations

    row = run.row
    known = _known_tasks(row, options)
    tasks = [_changed(task, row, options) for task in _wanted_tasks(row, options, known)]
    own = own_aggregations([*known.values(), *tasks])
    if lacking := lacking_aggregations(row.extra, own):
        raise UsageError(
            f"task {lacking[0][0]} aggregates {lacking[0][1]} by a function in its file, which is not known here; "
            f"give the folder of {row.extra['tasks'][lacking[0][0]].get('source')} with --include_path"
        )
    before = run.estimates
    names = {task.name: [(e.filter, e.metric) for e in before if e.task == task.name] for task in tasks}

    def facts_of(results: Sequence[RescoredTask]) -> dict[str, JsonValue]:
        entries = [rescored_entry(one.task, one.scoring_hash, one.names, names[one.task.name]) for one in results]
        return {**add_rescored(row.extra, entries, SCORING_HASH), SUMMARY_DUE: True}

    results = rescore(run.store, row, tasks, facts_of, unsafe_code=options.unsafe_code, command=options.command)
    save_summary_of(run.store, run.id, run.row.extra, own)
    return Rescored(run, results, before)


def _changed(task: Task, row: RunRow, options: RescoreOptions) -> Task:
    """Return the task with the wanted filters and metrics, after checking that its questions are those of the run."""
    from assaymark.report.evidence.rescoring import changed_prompt_keys

    plan = next(one for one in row.plan.tasks if one.name == task.name)
    stored = row.extra["tasks"][task.name]["spec"]
    if task.spec_hash != plan.spec_hash and (keys := changed_prompt_keys(stored, task, plan.num_fewshot)):
        raise PlanError(
            f"task {task.name}: {task.source} has another {', '.join(keys)} than run {row.short_id} was evaluated "
            "with, so the stored outputs belong to other questions; run the task again, or give a file that differs "
            "in filters and metrics only with --tasks"
        )
    filters = [read_item(text, "--filter") for text in options.filters]
    return with_scoring(task, filters, [read_item(text, "--metric") for text in options.metrics])


def _known_tasks(row: RunRow, options: RescoreOptions) -> dict[str, Task]:
    """Return the run's tasks, read from the files given, else from the catalogue; unknown ones are omitted."""
    if (imported := row.extra.get("imported")) is not None:
        raise UsageError(
            f"run {row.short_id} was imported from {imported['tool']} without the task files that its scores need; "
            "score it again with that tool and import the result, or run the tasks here: assaymark run --tasks"
        )
    if any(name not in row.extra.get("tasks", {}) for name in row.tasks):
        why = f"was never summarised (it is {row.status}), so its task files are not known here"
        raise UsageError(f"run {row.short_id} {why}; run the tasks again")
    catalog, own = _catalog(options), OwnData(skip_bad_rows=row.plan.skip_bad_rows, answers=row.plan.answers)
    found: dict[str, Task] = {}
    for name in _selected_names(row.extra):
        try:
            found.update({task.name: task for task in catalog.select([name], own=own).tasks})
        except UnknownName:
            continue  # the task was read from a file given by its path
    found.update({task.name: task for task in _named_tasks(row, options)})
    known = [found[name] for name in row.tasks if name in found]
    if prompt_style := row.plan.prompt_style:
        known = [styled_task(task, find_prompt_style(prompt_style)) for task in known]
    return {task.name: task for task in known}


def _catalog(options: RescoreOptions) -> Catalog:
    return Catalog.open([Path(folder).expanduser() for folder in options.include_path])


def _named_tasks(row: RunRow, options: RescoreOptions) -> list[Task]:
    """Return the run's tasks that are in the files given."""
    if not options.task_files:
        return []
    own = OwnData(skip_bad_rows=row.plan.skip_bad_rows, answers=row.plan.answers)
    named = _catalog(options).select(split_names(options.task_files), own=own).tasks
    found = [task for task in named if task.name in row.tasks]
    if not found:
        raise UsageError(
            f"none of the tasks in {', '.join(options.task_files)} is in run {row.short_id}, "
            f"which has {', '.join(row.tasks[:10])}"
        )
    return found


def _wanted_tasks(row: RunRow, options: RescoreOptions, known: Mapping[str, Task]) -> list[Task]:
    """Return the tasks to score: those named, else those of the files given, else all of the run's."""
    for name in options.task_names:
        if name not in row.tasks:
            remedy = f"it has: {', '.join(row.tasks[:10])}"
            raise UnknownName("task in this run", name, nearest(name, row.tasks), remedy)
    wanted = options.task_names or [task.name for task in _named_tasks(row, options)] or row.tasks
    for name in wanted:
        if name not in known:
            source = row.extra["tasks"][name].get("source")
            raise UnknownName(
                "task", name, (), f"run {row.short_id} read it from {source}; give its file with --tasks FILE"
            )
    return [known[name] for name in wanted]


def _selected_names(facts: Mapping[str, Any]) -> list[str]:
    """Return names that select a run's tasks: its outermost groups, which may change their tasks, and the rest."""
    groups = {group["name"]: set(group["members"]) for group in facts.get("groups", ())}
    inside = set().union(*groups.values()) if groups else set()
    return [name for name in groups if name not in inside] + [name for name in facts["tasks"] if name not in inside]
