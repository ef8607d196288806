"""Reader of Inspect's logs: `.eval` archives and JSON logs, one task each.

A sample's epochs become repeats of one request, and its score is Inspect's reduction over them. Letter grades become
numbers as in Inspect's `value_to_float`.
Source: inspect_ai 0.3, https://inspect.aisi.org.uk/eval-logs.html
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assaymark.interop.imported import ForeignRun, ForeignSample, ReportedValue
from assaymark.interop.inspect_logs import InspectLog, chosen_logs, inspect_logs, read_log
from assaymark.interop.log_files import one_model
from assaymark.report.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import is_higher_better

__all__ = ["read_inspect"]

GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
MEANS = ("accuracy", "mean")  # metrics of Inspect that are the mean over samples


def read_inspect(path: Path) -> ForeignRun:
    """Return the run in a log, or in a folder of logs of one model.

    Raises: DataError if a file is not a log, or the logs are of several models.
    """
    found = [read_log(file) for file in inspect_logs(path)]
    model = one_model([str(log.header["eval"]["model"]) for log in found], path)
    logs, notes = chosen_logs(found)
    first = logs[0].header["eval"]
    return ForeignRun(
        tool="inspect_ai",
        version=(first.get("packages") or {}).get("inspect_ai"),
        date=first.get("created"),
        model=model,
        tasks=tuple(_task(log) for log in logs),
        samples=tuple(sample for log in logs for sample in _samples(log)),
        reported=tuple(value for log in logs for value in _reported(log)),
        files=tuple(log.file for log in logs),
        config={log.task: dict(log.header["eval"].get("config") or {}) for log in logs},
        notes=(
            *notes,
            *(
                f"{log.task}: the log ends with status {log.header.get('status') or 'started'}, so samples may be "
                "missing"
                for log in logs
                if not log.is_complete
            ),
            *(
                f"{log.task}: the log has no samples, so the task can be shown but not compared"
                for log in logs
                if not log.samples
            ),
        ),
    )


def _task(log: InspectLog) -> TaskSummaryInput:
    of_dataset = log.header["eval"].get("dataset") or {}
    return TaskSummaryInput(
        name=log.task,
        metrics=tuple(MetricInput(name, higher_is_better=is_higher_better(name)) for name in _metric_names(log)),
        output_type="generate_until",
        alias=log.task.rpartition("/")[2],
        version=str(log.header["eval"].get("task_version", "N/A")),
        n_total=of_dataset.get("samples"),
    )


def _metric_names(log: InspectLog) -> list[str]:
    """Return the names of the scores in the results, else in the samples."""
    listed = [_name(log, score) for score in (log.header.get("results") or {}).get("scores") or ()]
    logged = [name for sample in log.samples for name in _graded(sample)]
    return list(dict.fromkeys(listed or logged))


def _name(log: InspectLog, score: Mapping[str, Any]) -> str:
    """Return a score's name, with its reducer if the log has several."""
    reducers = {one.get("reducer") for one in log.reductions if one.get("reducer")}
    reducer = score.get("reducer")
    return f"{score['name']}_{reducer}" if reducer and len(reducers) > 1 else str(score["name"])


def _reported(log: InspectLog) -> Iterator[ReportedValue]:
    for score in (log.header.get("results") or {}).get("scores") or ():
        listed = {
            name: one.get("value") if isinstance(one, Mapping) else one
            for name, one in (score.get("metrics") or {}).items()
        }
        values: dict[str, float] = {name: one for name, one in listed.items() if isinstance(one, int | float)}
        mean = next((name for name in MEANS if name in values), None)
        n = int(score.get("scored_samples") or _n_samples(log))
        name = _name(log, score)
        if mean is not None:
            yield ReportedValue(log.task, name, float(values[mean]), values.get("stderr"), n)
        for other, value in values.items():
            if other not in {*MEANS, "stderr", "std", "var"}:
                yield ReportedValue(log.task, f"{name} {other}", float(value), None, n)


def _n_samples(log: InspectLog) -> int:
    """Return the number of scored samples for a score that does not state it (before 0.3.80); 0 if unknown."""
    results, spec = log.header["results"], log.header["eval"]
    config, of_dataset = spec.get("config") or {}, spec.get("dataset") or {}
    if results.get("completed_samples"):
        return int(results["completed_samples"]) // int(config.get("epochs") or 1)
    if of_dataset.get("sample_ids"):
        return len(of_dataset["sample_ids"])
    is_whole = log.is_complete and config.get("limit") is None and config.get("sample_id") is None
    return int(of_dataset.get("samples") or 0) if is_whole else 0


# -------------------------------------------------------------------------------------------- samples


def _samples(log: InspectLog) -> Iterator[ForeignSample]:
    by_id: dict[Any, list[Mapping[str, Any]]] = {}
    for sample in sorted(log.samples, key=lambda one: int(one.get("epoch", 1))):
        by_id.setdefault(sample["id"], []).append(sample)
    reduced = _reduced(log)
    names = _metric_names(log)
    listed = (log.header["eval"].get("dataset") or {}).get("sample_ids") or ()
    order = {one: position for position, one in enumerate(listed)}
    ids = sorted(by_id, key=lambda one: order.get(one, len(order)))
    for index, sample_id in enumerate(ids):
        yield _sample(log.task, order.get(sample_id, index), by_id[sample_id], reduced.get(sample_id, {}), names)


def _sample(
    task: str, index: int, epochs: Sequence[Mapping[str, Any]], reduced: Mapping[str, float], names: Sequence[str]
) -> ForeignSample:
    first = epochs[0]
    grades = [_graded(epoch) for epoch in epochs]
    errors = [str(epoch["error"].get("message") or epoch["error"]) for epoch in epochs if epoch.get("error")]
    target = first.get("target")
    choices = first.get("choices") or ()
    scores: dict[str, float | None] = {}
    for name in names:
        known = [one[name] for one in grades if name in one]
        scores[name] = reduced.get(name, sum(known) / len(known) if known else None)
    failed = all(value is None for value in scores.values())
    return ForeignSample(
        task=task,
        index=index,
        row={"input": first["input"], "choices": list(choices), "target": target},
        prompt=_prompt(first),
        target=", ".join(map(str, target)) if isinstance(target, list) else str(target or ""),
        scores=scores,
        answers=tuple(_completion(epoch.get("output") or {}) for epoch in epochs),
        n_choices=len(choices) or None,
        error=errors[0] if errors and failed else None,
    )


def _completion(output: Mapping[str, Any]) -> str:
    """Return the model's answer; early logs have it only in the message of the first choice."""
    if output.get("completion"):
        return str(output["completion"])
    choices = output.get("choices") or ()
    return _text((choices[0].get("message") or {}).get("content")) if choices else ""


def _prompt(sample: Mapping[str, Any]) -> str:
    """Return the messages before the model's first answer, as text."""
    texts = []
    for message in sample.get("messages") or ():
        if message.get("role") == "assistant":
            break
        texts.append(_text(message.get("content")))
    return "\n\n".join(texts) or _text(sample["input"])


def _text(content: Any) -> str:
    """Return the text of a message, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [_text(part.get("content", part.get("text", ""))) for part in content or () if isinstance(part, Mapping)]
    return "\n".join(part for part in parts if part)


def _graded(sample: Mapping[str, Any]) -> dict[str, float]:
    """Return a sample's scores as numbers by name; a score with several values under each value's name."""
    found: dict[str, float] = {}
    for scorer, score in (sample.get("scores") or {}).items():
        found |= _numbers(scorer, score.get("value"))
    return found


def _reduced(log: InspectLog) -> dict[Any, dict[str, float]]:
    """Return the reductions over the epochs, by sample and score."""
    found: dict[Any, dict[str, float]] = {}
    for reduction in log.reductions:
        name = _name(log, {"name": reduction["scorer"], "reducer": reduction.get("reducer")})
        for one in reduction.get("samples") or ():
            found.setdefault(one.get("sample_id"), {}).update(_numbers(name, one.get("value")))
    return found


def _numbers(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, Mapping):
        return {key: number for part, one in value.items() for key, number in _numbers(str(part), one).items()}
    if isinstance(value, bool | int | float):
        return {name: float(value)}
    if isinstance(value, str):
        grade = GRADES.get(value, GRADES.get(value.lower()))
        if grade is not None:
            return {name: grade}
        try:
            return {name: float(value)}
        except ValueError:
            return {}
    return {}
