"""The record of a run's rescoring, and the lines that report it.

Stored in the run's facts under `rescored`: one entry per task and scoring, with the filters' steps and the metrics'
options, so that a reader can see how a score was computed without the file or the command.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from assaymark.records import JsonValue, canonical_json
from assaymark.records.result_facts import MetricFact, RescoredEntry, RescoredMetric, ResultFacts, TaskFact
from assaymark.results.evidence.task_facts import metric_fact, plain_spec, tasks_from
from assaymark.tasks.rescoring import SCORING_KEYS
from assaymark.tasks.task import Task

_NOT_IN_PROMPTS = SCORING_KEYS | {"task_alias", "tag", "group", "metadata", "unsafe_code", "should_decontaminate"}


def changed_prompt_keys(stored_spec: Mapping[str, object], task: Task, n_shots: int) -> list[str]:
    """Return the keys of a task file that affect prompts and have changed since the run."""
    now = json.loads(canonical_json(plain_spec(task.spec)))
    ignored = _NOT_IN_PROMPTS if n_shots == 0 else _NOT_IN_PROMPTS - {"doc_to_target"}  # a shot contains its answer
    keys = sorted({*stored_spec, *now} - ignored - {"doc_to_decontamination_query"})
    return [key for key in keys if stored_spec.get(key) != now.get(key)]


def rescored_entry(
    task: Task, scoring_hash: str, names: Iterable[tuple[str, str]], earlier: Iterable[tuple[str, str]]
) -> RescoredEntry:
    """Return the record of one task's rescoring.

    Args:
        task: with the filters and metrics of the rescoring.
        scoring_hash: the scoring's hash in the store.
        names: (filter, metric) of the new scores.
        earlier: (filter, metric) of the earlier scores.
    """
    name_pairs = list(names)
    return {
        "task": task.name,
        "scoring_hash": scoring_hash,
        "filters": [
            {
                "name": filter_spec.name,
                "steps": [{"function": plain_spec(s.function), **_plain(s.kwargs)} for s in filter_spec.steps],
            }
            for filter_spec in task.filters
        ],
        "metrics": [
            {
                **metric_fact(metric),
                "options": _plain(metric.kwargs),
                "filters": [f for f, name in name_pairs if name == metric.name],
            }
            for metric in task.metrics
        ],
        "in_place_of": [list(name) for name in name_pairs if name in set(earlier)],
    }


def _plain(kwargs: Mapping[str, object]) -> dict[str, JsonValue]:
    return {key: plain_spec(value) for key, value in kwargs.items()}


def add_rescored(facts: ResultFacts, entries: Sequence[RescoredEntry], own_hash: str) -> ResultFacts:
    """Return a run's facts with these entries added, the latest last.

    Entries describe current scores only: scores that a later entry replaced are removed from earlier ones, and a
    return to the run's own scoring adds no entry.
    """
    current: list[RescoredEntry] = list(facts.get("rescored", ()))
    for entry in entries:
        remaining = [known if known["task"] != entry["task"] else _without(known, entry) for known in current]
        current = [known for known in remaining if any(metric["filters"] for metric in known["metrics"])]
        current += [entry] if entry["scoring_hash"] != own_hash else []
    return {**with_rescored(facts, entries), "rescored": current}


def _without(earlier: RescoredEntry, entry: RescoredEntry) -> RescoredEntry:
    """Return an earlier entry without the scores that a later one replaced."""
    replaced = {(name, metric["name"]) for metric in entry["metrics"] for name in metric["filters"]}
    metrics: list[RescoredMetric] = [
        {**metric, "filters": [name for name in metric["filters"] if (name, metric["name"]) not in replaced]}
        for metric in earlier["metrics"]
    ]
    return {
        **earlier,
        "metrics": [metric for metric in metrics if metric["filters"]],
        "in_place_of": [pair for pair in earlier["in_place_of"] if tuple(pair) not in replaced],
    }


def with_rescored(facts: ResultFacts, entries: Iterable[RescoredEntry]) -> ResultFacts:
    """Return a run's facts with the filters and metrics of these entries added to its tasks.

    The primary metric of a task does not change.
    """
    tasks: dict[str, TaskFact] = dict(facts.get("tasks", {}))
    for entry in entries:
        name = entry["task"]
        if name in tasks:
            (summary,) = tasks_from({"tasks": {name: tasks[name]}})
            primary = tasks[name].get("primary_metric") or (summary.primary or (None,))[0]
            tasks[name] = {
                **tasks[name],
                "primary_metric": primary,
                "metrics": _merged(tasks[name]["metrics"], entry["metrics"]),
                "filters": list(dict.fromkeys([*tasks[name]["filters"], *(f["name"] for f in entry["filters"])])),
            }
    return {**facts, "tasks": tasks}


def _merged(metrics: Sequence[MetricFact], more: Iterable[RescoredMetric]) -> list[MetricFact]:
    by_name = {metric["name"]: metric for metric in metrics}
    for metric in more:
        known = by_name.get(metric["name"])
        filters = list(dict.fromkeys([*(known["filters"] if known is not None else ()), *metric["filters"]]))
        by_name[metric["name"]] = {**(metric if known is None else known), "filters": filters}
    return list(by_name.values())


def scoring_of(facts: ResultFacts, task: str) -> str | None:
    """Return the hash of the latest scoring that replaced a task's own scores; None where none did."""
    replaced = [e["scoring_hash"] for e in facts.get("rescored", ()) if e["task"] == task and e["in_place_of"]]
    return replaced[-1] if replaced else None


def rescored_lines(facts: ResultFacts) -> list[str]:
    """Return one line per scoring that was added after the run."""
    return [_line(entry) for entry in facts.get("rescored", ())]


def _line(entry: RescoredEntry) -> str:
    by_filter: dict[str, list[str]] = {}
    for metric in entry["metrics"]:
        options = ", ".join(key if value is True else f"{key} {value}" for key, value in metric["options"].items()
                            if value and not isinstance(value, list | dict | str))  # fmt: skip
        for name in metric["filters"]:
            by_filter.setdefault(name, []).append(metric["name"] + (f" ({options})" if options else ""))
    steps = {filter_spec["name"]: " then ".join(map(_step, filter_spec["steps"])) for filter_spec in entry["filters"]}
    rescored = "; ".join(f"{', '.join(names)} under {name}: {steps[name]}" for name, names in by_filter.items())
    instead = ", ".join(f"{metric} under {name}" for name, metric in entry["in_place_of"])
    return f"{entry['task']} scored again: {rescored}" + (f" (in place of the run's own {instead})" if instead else "")


def _step(step: Mapping[str, object]) -> str:
    function = step["function"]
    name = function["!function"] if isinstance(function, Mapping) else str(function)
    pattern = step.get("regex_pattern")
    return f"{name} {pattern}" if pattern else name
