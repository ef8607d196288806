"""Reader of lm-eval's samples files: from 0.4.3 on one line per sample, before that one JSON list.

The early files are named after the model's arguments instead of the time, and have a request's arguments as a list.
Source: lm-evaluation-harness 0.4.0 to 0.4.2, __main__.py; from 0.4.3 on loggers/evaluation_tracker.py
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assaymark.errors import DataError
from assaymark.interop.log_files import json_object, parse_json

__all__ = ["samples_file", "samples_of"]

EARLY_NAMES = (r"/|=", r"[\"<>:/\|\\?\*\[\]]+")  # replaced by "__" in the model's arguments, by 0.4.0 and by 0.4.2


def samples_file(results: Path, task: str) -> Path:
    """Return the path of a task's samples: with the time of the results file, or with the name of early versions.

    The file may not exist, since samples are logged only on request.
    """
    stamp = results.stem.partition("_")[2] if results.stem.startswith("results_") else results.stem.rpartition("_")[2]
    file = results.parent / f"samples_{task}_{stamp}.jsonl"
    if file.is_file() or results.stem.startswith("results_"):
        return file
    arguments = str((json_object(results).get("config") or {}).get("model_args") or "")
    early = [results.parent / f"{re.sub(pattern, '__', arguments)}_{task}.jsonl" for pattern in EARLY_NAMES]
    return next((one for one in early if one.is_file()), file)


def samples_of(results: Path, task: str) -> Iterator[dict[str, Any]]:
    """Yield the samples of a task; none if they were not logged.

    Raises: DataError for a line that is not a sample, and for a sample that occurs twice under one filter.
    """
    file = samples_file(results, task)
    if not file.is_file():
        return
    seen: set[tuple[str, str]] = set()
    for location, sample in _logged(file):
        if not isinstance(sample, dict):
            raise DataError(f"{location} contains a {type(sample).__name__}; expected an object")
        if "doc_id" not in sample or "doc" not in sample:
            raise DataError(f"{location}: no doc_id or doc; expected a sample as lm-eval logs it")
        key = (str(sample["doc_id"]), str(sample.get("filter", "none")))
        if key in seen:
            raise DataError(f"{location}: doc_id {key[0]} (filter {key[1]}) occurs twice")
        seen.add(key)
        yield {**sample, "arguments": _arguments(sample.get("arguments"))}


def _logged(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield each sample with its location in the file: the lines, or the items of the one list of an early file."""
    with file.open(encoding="utf-8") as lines:
        first = lines.readline()
        if first.strip() == "[" or first.lstrip().startswith("[{"):
            whole = parse_json(first + lines.read(), str(file))
            yield from ((f"{file}, item {number}", sample) for number, sample in enumerate(whole, start=1))
            return
        lines.seek(0)
        for number, line in enumerate(lines, start=1):
            if line.strip():
                location = f"{file}, line {number}"
                yield location, parse_json(line, location)


def _arguments(given: Any) -> Any:
    """Return the arguments of a sample's requests by name, as in lm-eval's current format."""
    if not isinstance(given, list):
        return given
    return {
        f"gen_args_{number}": one if isinstance(one, Mapping) else {f"arg_{i}": part for i, part in enumerate(one)}
        for number, one in enumerate(given)
    }
