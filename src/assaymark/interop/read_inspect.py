"""Reader of Inspect's logs: `.eval` archives and JSON logs, one task each.

A sample's epochs become repeats of one request, and its score is Inspect's reduction over them. Letter grades become
numbers as in Inspect's `value_to_float`.

A log of any version is an `.eval` archive or JSON; either may have no samples (`inspect log dump --header-only`, or a
run that ended before its header was written). Version 1 has its one scorer elsewhere; it is converted here, so that
readers handle one layout only. Source: inspect_ai 0.3, https://inspect.aisi.org.uk/eval-logs.html
"""

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assaymark.errors import DataError, clipped
from assaymark.interop.imported import ForeignRun, ForeignSample, Importer
from assaymark.interop.log_files import json_object, object_in, one_model, open_log, parse_json, zip_member
from assaymark.interop.reported import ReportedValue
from assaymark.records import JsonValue
from assaymark.records.json_values import (
    int_at,
    int_of,
    list_at,
    list_of,
    object_at,
    object_of,
    objects_at,
    objects_of,
    text_at,
)
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import is_higher_better

HEADER, STARTED = "header.json", "_journal/start.json"  # an aborted run has only the second
SNIFFED = 65536  # bytes: a log begins with version, status and eval
Key = tuple[str, str]  # a scorer, and the name of one of its values: the scorer's own if it has one only
SETTINGS = ("limit", "sample_id", "epochs")  # run settings that make two logs of one task different evaluations


@dataclass(frozen=True, slots=True)
class InspectLog:
    """One log, in the layout of version 2.

    task: its name, with the differing settings if a folder has other evaluations of the same task.
    samples: one per epoch; none if the log has only its header.
    ambiguous: names of values that several scorers give.
    """

    file: Path
    task: str
    header: Mapping[str, JsonValue]
    samples: Sequence[Mapping[str, JsonValue]]
    reductions: Sequence[Mapping[str, JsonValue]]
    ambiguous: frozenset[str]

    @property
    def spec(self) -> Mapping[str, JsonValue]:
        """The specification of the evaluation."""
        return object_of(self.header["eval"], "eval")

    @property
    def results(self) -> Mapping[str, JsonValue]:
        """The values; empty if the evaluation did not end."""
        return object_at(self.header, "results")

    @property
    def is_complete(self) -> bool:
        """Whether the evaluation ended successfully."""
        return self.header.get("status") == "success"


def inspect_logs(path: Path) -> list[Path]:
    """Return the logs at a path: the file itself, or all in a folder; none if it is not Inspect's."""
    if path.is_dir():
        logged = (file for file in path.glob("*.json") if file.is_file() and _is_json_log(file))
        return sorted([*path.glob("*.eval"), *logged])
    if path.suffix == ".eval":
        return [path]
    return [path] if path.suffix == ".json" and path.is_file() and _is_json_log(path) else []


def _is_json_log(file: Path) -> bool:
    """Return whether a JSON file has the header of a log; large files of other tools are not parsed for that."""
    with open_log(file) as opened:
        start = opened.read(SNIFFED)
    if b'"eval"' not in start:
        return False
    evaluation = object_in(file).get("eval")
    return isinstance(evaluation, dict) and {"task", "model"} <= set(evaluation)


def read_log(file: Path) -> InspectLog:
    """Return a log in the layout of version 2.

    Raises: DataError if the file is not a log.
    """
    if file.suffix == ".json":
        whole = json_object(file)
        return _log(file, whole, objects_at(whole, "samples"), objects_at(whole, "reductions"))
    try:
        with open_log(file) as opened, zipfile.ZipFile(opened) as archive:
            names = archive.namelist()
            header = _member(archive, file, HEADER if HEADER in names else STARTED)
            samples = [_member(archive, file, name) for name in names if name.startswith("samples/")]
            reduced = _member(archive, file, "reductions.json") if "reductions.json" in names else ()
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"{file} is not a log of Inspect: {error}; expected an archive with header.json") from error
    reductions = objects_of(reduced, "reductions")
    return _log(file, object_of(header, HEADER), objects_of(samples, "samples"), reductions)


def _member(archive: zipfile.ZipFile, file: Path, name: str) -> JsonValue:
    return parse_json(zip_member(archive, file, name), f"{file}, {name}")


def _log(
    file: Path,
    header: Mapping[str, JsonValue],
    samples: Sequence[Mapping[str, object]],
    reductions: Sequence[Mapping[str, JsonValue]],
) -> InspectLog:
    results = dict(object_at(header, "results"))
    scorer = results.pop("scorer", None)
    name = "score"
    if isinstance(scorer, Mapping):  # version 1 had one scorer, with its metrics next to it
        name = str(scorer.get("name") or name)
        results["scores"] = [{**scorer, "name": name, "metrics": results.pop("metrics", {})}]
    elif results.get("scores"):
        name = str(objects_at(results, "scores")[0]["name"])
    moved = [
        {**sample, "scores": {name: sample["score"]}} if sample.get("score") and not sample.get("scores") else sample
        for sample in samples
    ]
    reductions = reductions or objects_at(results, "sample_reductions")
    keys = {_key(score) for score in objects_at(results, "scores")} | {key for one in moved for key in _graded(one)}
    n_scorers = Counter(part for _, part in keys)
    return InspectLog(
        file,
        str(object_of(header["eval"], "eval")["task"]),
        {**header, "results": results},
        moved,
        reductions,
        frozenset(part for part, n in n_scorers.items() if n > 1),
    )


def chosen_logs(logs: Sequence[InspectLog]) -> tuple[list[InspectLog], list[str]]:
    """Return one log of each evaluation, with distinct names, and a note on each excluded log.

    Logs of one task with other arguments, data, solver or limits are separate evaluations. Of several logs of the same
    evaluation (for example a retry) the latest completed one is used.
    """
    by_task: dict[str, list[InspectLog]] = {}
    for log in logs:
        by_task.setdefault(log.task, []).append(log)
    chosen: list[InspectLog] = []
    notes: list[str] = []
    for own in by_task.values():
        differing = _differing([_identity(log) for log in own])
        by_name: dict[str, list[InspectLog]] = {}
        for log in own:
            arguments = ", ".join(f"{key}={_short(_identity(log).get(key))}" for key in differing)
            by_name.setdefault(f"{log.task} ({arguments})" if arguments else log.task, []).append(log)
        for name, same in by_name.items():
            best = max(same, key=lambda log: (log.is_complete, str(log.spec.get("created") or ""), log.file))
            chosen.append(replace(best, task=name))
            notes += [_excluded(name, log, best) for log in same if log is not best]
    return chosen, notes


def _excluded(name: str, log: InspectLog, best: InspectLog) -> str:
    status = str(log.header.get("status") or "started")
    return (
        f"{name}: {log.file.name} (status {status}) is excluded, since {best.file.name} is a log of the same "
        "evaluation; to have both, import each by its path"
    )


def _identity(log: InspectLog) -> dict[str, object]:
    """Return the settings that identify an evaluation of a task."""
    spec = log.spec
    config = object_at(spec, "config")
    named = {"dataset": object_at(spec, "dataset").get("name"), "solver": spec.get("solver")}
    return {
        **{key: value for key, value in named.items() if value},
        **{key: config[key] for key in SETTINGS if config.get(key) is not None},
        **object_at(spec, "solver_args"),
        **object_at(spec, "task_args"),
    }


def _differing(identities: Sequence[Mapping[str, object]]) -> Iterator[str] | list[str]:
    keys = dict.fromkeys(key for identity in identities for key in identity)
    return [
        key
        for key in keys
        if len({json.dumps(identity.get(key), sort_keys=True, default=str) for identity in identities}) > 1
    ]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return clipped(text, 40)


GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
MEANS = ("accuracy", "mean")  # metrics of Inspect that are the mean over samples


def read_inspect(path: Path) -> ForeignRun:
    """Return the run in a log, or in a folder of logs of one model.

    Raises: DataError if a file is not a log, or the logs are of several models.
    """
    all_logs = [read_log(file) for file in inspect_logs(path)]
    model = one_model([str(log.spec["model"]) for log in all_logs], path)
    logs, notes = chosen_logs(all_logs)
    first = logs[0].spec
    return ForeignRun(
        tool="inspect_ai",
        version=text_at(object_at(first, "packages"), "inspect_ai"),
        date=text_at(first, "created"),
        model=model,
        tasks=tuple(_task(log) for log in logs),
        samples=tuple(sample for log in logs for sample in _samples(log)),
        reported=tuple(value for log in logs for value in _reported(log)),
        files=tuple(log.file for log in logs),
        config={log.task: dict(object_at(log.spec, "config")) for log in logs},
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
    n_total = object_at(log.spec, "dataset").get("samples")
    return TaskSummaryInput(
        name=log.task,
        metrics=tuple(MetricInput(name, higher_is_better=is_higher_better(name)) for name in _metric_names(log)),
        output_type="generate_until",
        alias=log.task.rpartition("/")[2],
        version=str(log.spec.get("task_version", "N/A")),
        n_total=None if n_total is None else int_of(n_total, "samples"),
    )


def _metric_names(log: InspectLog) -> list[str]:
    """Return the names of the scores in the results, else in the samples."""
    listed = [_name(log, _key(score), score.get("reducer")) for score in objects_at(log.results, "scores")]
    logged = [_name(log, key) for sample in log.samples for key in _graded(sample)]
    return list(dict.fromkeys(listed or logged))


def _key(score: Mapping[str, JsonValue]) -> Key:
    name = str(score["name"])
    return str(score.get("scorer") or name), name


def _name(log: InspectLog, key: Key, reducer: JsonValue = None) -> str:
    """Return a value's name; with its scorer if several have one of that name, with its reducer if several are used."""
    scorer, part = key
    reducers = {reduction.get("reducer") for reduction in log.reductions if reduction.get("reducer")}
    name = f"{scorer}/{part}" if part in log.ambiguous and scorer != part else part
    return f"{name}_{reducer}" if reducer and len(reducers) > 1 else name


def _reported(log: InspectLog) -> Iterator[ReportedValue]:
    for score in objects_at(log.results, "scores"):
        listed = {
            name: entry.get("value") if isinstance(entry, Mapping) else entry
            for name, entry in object_at(score, "metrics").items()
        }
        values: dict[str, float] = {name: number for name, number in listed.items() if isinstance(number, int | float)}
        mean = next((name for name in MEANS if name in values), None)
        n = int_at(score, "scored_samples", _n_samples(log))
        name = _name(log, _key(score), score.get("reducer"))
        if mean is not None:
            yield ReportedValue(log.task, name, float(values[mean]), values.get("stderr"), n)
        for other, value in values.items():
            if other not in {*MEANS, "stderr", "std", "var"}:
                yield ReportedValue(log.task, f"{name} {other}", float(value), None, n)


def _n_samples(log: InspectLog) -> int:
    """Return the number of scored samples for a score that does not state it (before 0.3.80); 0 if unknown."""
    config, of_dataset = object_at(log.spec, "config"), object_at(log.spec, "dataset")
    if n_completed := int_at(log.results, "completed_samples", 0):
        return n_completed // int_at(config, "epochs", 1)
    if sample_ids := list_at(of_dataset, "sample_ids"):
        return len(sample_ids)
    is_whole = log.is_complete and config.get("limit") is None and config.get("sample_id") is None
    return int_at(of_dataset, "samples", 0) if is_whole else 0


# -------------------------------------------------------------------------------------------- samples


def _samples(log: InspectLog) -> Iterator[ForeignSample]:
    by_id: dict[object, list[Mapping[str, object]]] = {}
    for sample in sorted(log.samples, key=lambda record: int_of(record.get("epoch", 1), "epoch")):
        by_id.setdefault(sample["id"], []).append(sample)
    reduced = _reduced(log)
    names = _metric_names(log)
    listed = list_at(object_at(log.spec, "dataset"), "sample_ids")
    order = {identifier: position for position, identifier in enumerate(listed)}
    ids = sorted(by_id, key=lambda identifier: order.get(identifier, len(order)))
    for index, sample_id in enumerate(ids):
        yield _sample(log, order.get(sample_id, index), by_id[sample_id], reduced.get(sample_id, {}), names)


def _sample(
    log: InspectLog,
    index: int,
    epochs: Sequence[Mapping[str, JsonValue]],
    reduced: Mapping[str, float],
    names: Sequence[str],
) -> ForeignSample:
    first = epochs[0]
    grades = [{_name(log, key): number for key, number in _graded(epoch).items()} for epoch in epochs]
    errors = [str(object_at(epoch, "error").get("message") or epoch["error"]) for epoch in epochs if epoch.get("error")]
    target = first.get("target")
    choices = list_at(first, "choices")
    scores: dict[str, float | None] = {}
    for name in names:
        known = [grade[name] for grade in grades if name in grade]
        scores[name] = reduced.get(name, sum(known) / len(known) if known else None)
    failed = all(value is None for value in scores.values())
    return ForeignSample(
        task=log.task,
        index=index,
        row={"input": first["input"], "choices": list(choices), "target": target},
        prompt=_prompt(first),
        target=", ".join(map(str, target)) if isinstance(target, list) else str(target or ""),
        scores=scores,
        answers=tuple(_completion(object_at(epoch, "output")) for epoch in epochs),
        n_choices=len(choices) or None,
        error=errors[0] if errors and failed else None,
    )


def _completion(output: Mapping[str, JsonValue]) -> str:
    """Return the model's answer; early logs have it only in the message of the first choice."""
    if output.get("completion"):
        return str(output["completion"])
    choices = objects_at(output, "choices")
    return _text(object_at(choices[0], "message").get("content")) if choices else ""


def _prompt(sample: Mapping[str, JsonValue]) -> str:
    """Return the messages before the model's first answer, as text."""
    texts = []
    for message in objects_at(sample, "messages"):
        if message.get("role") == "assistant":
            break
        texts.append(_text(message.get("content")))
    return "\n\n".join(texts) or _text(sample["input"])


def _text(content: JsonValue) -> str:
    """Return the text of a message, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    listed = [part for part in list_of(content or (), "content") if isinstance(part, Mapping)]
    parts = [_text(part.get("content", part.get("text", ""))) for part in listed]
    return "\n".join(part for part in parts if part)


def _graded(sample: Mapping[str, JsonValue]) -> dict[Key, float]:
    """Return a sample's scores as numbers by scorer and name; a score with several values under each value's name."""
    numbers: dict[Key, float] = {}
    for scorer, score in object_at(sample, "scores").items():
        numbers |= _numbers((scorer, scorer), object_of(score, scorer).get("value"))
    return numbers


def _reduced(log: InspectLog) -> dict[JsonValue, dict[str, float]]:
    """Return the reductions over the epochs, by sample and score."""
    reduced: dict[JsonValue, dict[str, float]] = {}
    for reduction in log.reductions:
        scorer, reducer = str(reduction["scorer"]), reduction.get("reducer")
        for sample in objects_at(reduction, "samples"):
            numbers = _numbers((scorer, scorer), sample.get("value"))
            by_name = {_name(log, key, reducer): number for key, number in numbers.items()}
            reduced.setdefault(sample.get("sample_id"), {}).update(by_name)
    return reduced


def _numbers(key: Key, value: object) -> dict[Key, float]:
    if isinstance(value, Mapping):
        parts = [_numbers((key[0], str(part)), part_value) for part, part_value in value.items()]
        return {own: number for numbers in parts for own, number in numbers.items()}
    if isinstance(value, bool | int | float):
        return {key: float(value)}
    if isinstance(value, str):
        grade = GRADES.get(value, GRADES.get(value.lower()))
        if grade is not None:
            return {key: grade}
        try:
            return {key: float(value)}
        except ValueError:
            return {}
    return {}


IMPORTER = Importer(inspect_logs, read_inspect, "Inspect's .eval or .json logs")
