"""Inspect's log files of any version: detection, reading, and the choice among several logs of one task.

A log is an `.eval` archive or JSON; either may have no samples (`inspect log dump --header-only`, or a run that ended
before its header was written). Version 1 has its one scorer elsewhere; it is converted here, so that readers handle one
layout only.
Source: inspect_ai 0.3, https://inspect.aisi.org.uk/eval-logs.html
"""

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assaymark.errors import DataError
from assaymark.interop.log_files import json_object, object_in, parse_json, zip_member

__all__ = ["InspectLog", "chosen_logs", "inspect_logs", "read_log"]

HEADER, STARTED = "header.json", "_journal/start.json"  # an aborted run has only the second
SNIFFED = 65536  # bytes: a log begins with version, status and eval
SETTINGS = ("limit", "sample_id", "epochs")  # run settings that make two logs of one task different evaluations


@dataclass(frozen=True, slots=True)
class InspectLog:
    """One log, in the layout of version 2.

    task: its name, with the differing settings if a folder has other evaluations of the same task.
    samples: one per epoch; none if the log has only its header.
    """

    file: Path
    task: str
    header: Mapping[str, Any]
    samples: Sequence[Mapping[str, Any]]
    reductions: Sequence[Mapping[str, Any]]

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
    with file.open("rb") as opened:
        start = opened.read(SNIFFED)
    if b'"eval"' not in start:
        return False
    found = object_in(file).get("eval")
    return isinstance(found, dict) and {"task", "model"} <= set(found)


def read_log(file: Path) -> InspectLog:
    """Return a log in the layout of version 2.

    Raises: DataError if the file is not a log.
    """
    if file.suffix == ".json":
        whole = json_object(file)
        return _log(file, whole, whole.get("samples") or (), whole.get("reductions") or ())
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            header = _member(archive, HEADER if HEADER in names else STARTED)
            samples = [_member(archive, name) for name in names if name.startswith("samples/")]
            reduced = _member(archive, "reductions.json") if "reductions.json" in names else ()
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"{file} is not a log of Inspect: {error}; expected an archive with header.json") from error
    return _log(file, header, samples, reduced)


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    return parse_json(zip_member(archive, name), f"{archive.filename}, {name}")


def _log(
    file: Path, header: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], reductions: Sequence[Mapping[str, Any]]
) -> InspectLog:
    results = dict(header.get("results") or {})
    scorer = results.pop("scorer", None)
    name = "score"
    if isinstance(scorer, Mapping):  # version 1 had one scorer, with its metrics next to it
        name = str(scorer.get("name") or name)
        results["scores"] = [{**scorer, "name": name, "metrics": results.pop("metrics", {})}]
    elif results.get("scores"):
        name = str(results["scores"][0]["name"])
    moved = [
        {**sample, "scores": {name: sample["score"]}} if sample.get("score") and not sample.get("scores") else sample
        for sample in samples
    ]
    reductions = reductions or results.get("sample_reductions") or ()
    return InspectLog(file, str(header["eval"]["task"]), {**header, "results": results}, moved, reductions)


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
            shown = ", ".join(f"{key}={_short(_identity(log).get(key))}" for key in differing)
            by_name.setdefault(f"{log.task} ({shown})" if shown else log.task, []).append(log)
        for name, same in by_name.items():
            best = max(same, key=lambda log: (log.is_complete, str(log.header["eval"].get("created") or ""), log.file))
            chosen.append(replace(best, task=name))
            notes += [_excluded(name, log, best) for log in same if log is not best]
    return chosen, notes


def _excluded(name: str, log: InspectLog, best: InspectLog) -> str:
    status = str(log.header.get("status") or "started")
    return (
        f"{name}: {log.file.name} (status {status}) is excluded, since {best.file.name} is a log of the same "
        "evaluation; to have both, import each by its path"
    )


def _identity(log: InspectLog) -> dict[str, Any]:
    """Return the settings that identify an evaluation of a task."""
    spec = log.header["eval"]
    config = spec.get("config") or {}
    named = {"dataset": (spec.get("dataset") or {}).get("name"), "solver": spec.get("solver")}
    return {
        **{key: value for key, value in named.items() if value},
        **{key: config[key] for key in SETTINGS if config.get(key) is not None},
        **(spec.get("solver_args") or {}),
        **(spec.get("task_args") or {}),
    }


def _differing(found: Sequence[Mapping[str, Any]]) -> Iterator[str] | list[str]:
    keys = dict.fromkeys(key for one in found for key in one)
    return [key for key in keys if len({json.dumps(one.get(key), sort_keys=True, default=str) for one in found}) > 1]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:39] + "…"
