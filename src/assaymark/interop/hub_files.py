"""What a model's repository says about its results: `.eval_results/*.yaml`, and `model-index` in README.md before it.

The files are anybody's: each is bounded, regular and inside of the repository, and a fault is one line that names file
and key. An entry with a fault is left out, and an optional key with one; everything else is read.
Source: huggingface/hub-docs, docs/hub/eval-results.md and modelcard.md
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from assaymark.documents.plain_text import printable
from assaymark.errors import DataError
from assaymark.limits.regular_files import CACHED, content_of, link_folders
from assaymark.limits.yaml_documents import front_matter, load_yaml
from assaymark.records import JsonValue

FOLDER = ".eval_results"
CARD = "README.md"
LARGEST_FILE = 1 << 20
MOST_FILES = 1000
MOST_ENTRIES = 10_000  # of one file
LONGEST = 200  # characters of a text
LONGEST_URL = 2000
MOST_FOLDERS = 20_000  # that are looked at for models
DEPTH = 4  # of models in a folder of models: models--org--name/snapshots/COMMIT
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
_KEYS = {
    "an entry": ("dataset", "value", "verifyToken", "date", "source", "notes"),
    "dataset": ("id", "task_id", "revision"),
    "source": ("url", "name", "user", "org"),
}


@dataclass(frozen=True, slots=True)
class StatedResult:
    """One value of a file, in the unit of whoever wrote it."""

    file: str  # in the model's folder
    dataset: str
    task_id: str  # of `.eval_results`; of `model-index` the configuration
    value: float
    name: str = ""  # of the benchmark, where `model-index` has one
    metric: str = ""  # `.eval_results` names none
    shots: int | None = None
    date: str = ""
    source: str = ""  # URL
    by: str = ""  # name, user or organisation
    notes: str = ""
    revision: str = ""

    json_keys = "file dataset task_id value notes date"

    @property
    def place(self) -> str:
        """File and benchmark, for messages."""
        return f"{self.file}: {self.name or self.dataset} {self.metric or self.task_id}"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's folder as it was read."""

    model: str
    results: tuple[StatedResult, ...]
    faults: tuple[str, ...]
    files: tuple[Path, ...]


class _Fault(Exception):
    """What is wrong with an entry or a key of it."""


def holds_results(path: Path) -> bool:
    """Return whether a folder is a model's repository with results, or a path such a file of one."""
    if path.is_dir():
        return (path / FOLDER).is_dir() or _has_model_index(path / CARD)
    return _is_entries_file(path) or (path.name == CARD and _has_model_index(path))


def model_folders(path: Path) -> list[Path]:
    """Return the models' repositories with results below a folder, sorted; symbolic links are not followed."""
    found: list[Path] = []
    level, n_left = [path], MOST_FOLDERS
    for _ in range(DEPTH):
        folders = [each for folder in level for each in _folders_in(folder)][:n_left]
        n_left -= len(folders)
        level = []
        for each in folders:
            (found if holds_results(each) else level).append(each)
    return sorted(found)


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder; none of one that may not be read."""
    try:
        with os.scandir(folder) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names) if not name.startswith(".")]


def files_in_model(folder: Path) -> list[Path]:
    """Return the files of a model's folder that are read."""
    return [*_entries_files(folder), folder / CARD]


def read_model_files(path: Path) -> ModelFiles:
    """Return what a model's folder, or one file of it, says about its results, and what could not be read of it."""
    root = path if path.is_dir() else path.parent.parent if _is_entries_file(path) else path.parent
    results: list[StatedResult] = []
    faults: list[str] = []
    files: list[Path] = []
    names = [path] if not path.is_dir() else [*_entries_files(root, faults), root / CARD]
    for file in names:
        if file.name == CARD and not _has_model_index(file):
            continue
        shown = file.relative_to(root).as_posix()
        try:
            content = load_yaml(_front_matter(file) if file.name == CARD else _content(root, file))
        except DataError as error:
            faults.append(f"{shown}: {error}")
            continue
        files.append(file)
        of_file = _card_results(shown, content) if file.name == CARD else _entries(shown, content)
        for each in of_file:
            if isinstance(each, str):
                faults.append(each)
            else:
                results.append(each)
    return ModelFiles(_model_of(root), tuple(results), tuple(faults), tuple(files))


def _is_entries_file(path: Path) -> bool:
    return path.suffix == ".yaml" and path.parent.name == FOLDER


def _entries_files(root: Path, faults: list[str] | None = None) -> list[Path]:
    """Return the files of a folder's entries; `faults` gets a line where they are too many."""
    folder = root / FOLDER
    files = sorted(file for file in folder.iterdir() if file.suffix == ".yaml") if folder.is_dir() else []
    if len(files) > MOST_FILES and faults is not None:
        faults.append(f"{FOLDER}: has {len(files):,} files; the first {MOST_FILES:,} are read")
    return files[:MOST_FILES]


def _model_of(root: Path) -> str:
    """Return a model's name: as huggingface_hub's cache names it, else the folder as it was typed."""
    for part in reversed(root.absolute().parts):
        if (cached := CACHED.fullmatch(part)) is not None and cached["kind"] == "models":
            return f"{cached['org']}/{cached['name']}"
    return printable(root.as_posix() if root.name else root.absolute().name) or "model"


# ------------------------------------------------------------------------------------------ files


def _content(root: Path, file: Path) -> bytes:
    """Return a file's bytes. Raises: DataError for one that may not be read."""
    return content_of(file, LARGEST_FILE, link_folders(root))


def _has_model_index(card: Path) -> bool:
    try:
        return re.search(r"^model-index[ \t]*:", _front_matter(card), re.MULTILINE) is not None
    except DataError:
        return False


def _front_matter(card: Path) -> str:
    return front_matter(_content(card.parent, card))


# ------------------------------------------------------------------------------------------ .eval_results


def _entries(file: str, content: object) -> Iterator[StatedResult | str]:
    """Yield the entries of a file, and a line for each fault."""
    if not isinstance(content, list):
        yield f"{file}: is {_kind(content)}; expected a list of entries with `dataset` and `value`"
        return
    if len(content) > MOST_ENTRIES:
        yield f"{file}: has {len(content):,} entries; the first {MOST_ENTRIES:,} are read"
    for number, entry in enumerate(content[:MOST_ENTRIES], start=1):
        place = file if len(content) == 1 else f"{file}: entry {number}"
        faults: list[str] = []
        try:
            yield _entry(file, entry, faults)
        except _Fault as fault:
            faults.append(f"{fault}; the entry was left out")
        yield from (f"{place}: {fault}" for fault in faults)


def _entry(file: str, entry: object, faults: list[str]) -> StatedResult:
    content = _mapping(entry, "an entry", faults)
    dataset = _mapping(_required(content, "dataset"), "dataset", faults)
    source = _mapping(content["source"], "source", faults) if content.get("source") is not None else {}
    return StatedResult(
        file=file,
        dataset=_hub_id(dataset),
        task_id=_required_text(dataset, "task_id"),
        value=_number(_required(content, "value"), "value"),
        date=_date(content, faults),
        source=_url(source, faults),
        by=_text(source, "name", faults) or _text(source, "user", faults) or _text(source, "org", faults),
        notes=_text(content, "notes", faults),
        revision=_text(dataset, "revision", faults),
    )


# ------------------------------------------------------------------------------------------ model-index


def _card_results(file: str, content: object) -> Iterator[StatedResult | str]:
    """Yield the values of a model card's `model-index`, and a line for each fault."""
    models = content.get("model-index") if isinstance(content, Mapping) else None
    if not isinstance(models, list):
        yield f"{file}: model-index is {_kind(models)}; expected a list"
        return
    for model in models:
        results = model.get("results") if isinstance(model, Mapping) else None
        if not isinstance(results, list):
            yield f"{file}: model-index: results is {_kind(results)}; expected a list"
            continue
        for number, result in enumerate(results[:MOST_ENTRIES], start=1):
            yield from _card_result(file, f"{file}: model-index, result {number}", result)


def _card_result(file: str, place: str, result: object) -> Iterator[StatedResult | str]:
    faults: list[str] = []
    try:
        content = _mapping(result, "", faults)
        dataset = _mapping(_required(content, "dataset"), "", faults)
        source = _mapping(content["source"], "", faults) if content.get("source") is not None else {}
        arguments = dataset.get("args")
        shots = arguments.get("num_few_shot") if isinstance(arguments, Mapping) else None
        common = StatedResult(
            file=file,
            dataset=_required_text(dataset, "type"),
            task_id=_text(dataset, "config", faults),
            value=0.0,
            name=_text(dataset, "name", faults),
            shots=shots if type(shots) is int and 0 <= shots < 1000 else None,
            source=_url(source, faults),
            by=_text(source, "name", faults),
            revision=_text(dataset, "revision", faults),
        )
        metrics = _list(content, "metrics")
    except _Fault as fault:
        yield f"{place}: {fault}; the result was left out"
        return
    yield from (f"{place}: {fault}" for fault in faults)
    for metric in metrics[:MOST_ENTRIES]:
        try:
            of_metric = _mapping(metric, "", faults)
            value = _number(_required(of_metric, "value"), "value")
            yield replace(common, metric=_required_text(of_metric, "type"), value=value)
        except _Fault as fault:
            yield f"{place}: metrics: {fault}; the value was left out"


# ------------------------------------------------------------------------------------------ keys


def _mapping(value: object, what: str, faults: list[str]) -> Mapping[str, JsonValue]:
    """Return a mapping, and add its unknown keys to the faults. Raises: _Fault for anything else."""
    if not isinstance(value, Mapping):
        raise _Fault(f"{what or 'a result'} is {_kind(value)}; expected a mapping")
    if (known := _KEYS.get(what)) is not None:
        strange = [str(key) for key in value if key not in known]
        faults += [f"unknown key {printable(key)[:40]!r} of {what}; known: {', '.join(known)}" for key in strange[:5]]
    return value


def _required(content: Mapping[str, JsonValue], key: str) -> JsonValue:
    if content.get(key) is None:
        raise _Fault(f"has no `{key}`")
    return content[key]


def _list(content: Mapping[str, JsonValue], key: str) -> list[JsonValue]:
    value = _required(content, key)
    if not isinstance(value, list):
        raise _Fault(f"{key} is {_kind(value)}; expected a list")
    return value


def _required_text(content: Mapping[str, JsonValue], key: str) -> str:
    value = _required(content, key)
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise _Fault(f"{key} is {_shown(value)}; expected a text of up to {LONGEST} characters")
    return printable(" ".join(value.split()))


def _hub_id(content: Mapping[str, JsonValue]) -> str:
    value = _required_text(content, "id")
    if not _HUB_ID.fullmatch(value) or ".." in value:
        raise _Fault(f"id is {_shown(value)}; expected a data set of the Hub, such as openai/gsm8k")
    return value


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Fault(f"{key} is {_shown(value)}; expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _Fault(f"{key} is {_shown(value)}; expected a finite number")
    return number


def _text(content: Mapping[str, JsonValue], key: str, faults: list[str]) -> str:
    """Return an optional text; one that is none is a fault, and left out."""
    value = content.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST:
        faults.append(f"{key} is {_shown(value)}; expected a text of up to {LONGEST} characters, and was left out")
        return ""
    return printable(" ".join(value.split()))


def _date(content: Mapping[str, JsonValue], faults: list[str]) -> str:
    """Return a date, or a time in UTC, in the one form of ISO 8601 whose texts are in order."""
    stated = _text(content, "date", faults)
    if not stated:
        return ""
    with suppress(ValueError):
        return date.fromisoformat(stated).isoformat()
    try:
        at = datetime.fromisoformat(stated)
        return (at if at.tzinfo is None else at.astimezone(UTC)).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        faults.append(f"date is {_shown(stated)}; expected ISO 8601, such as 2026-01-15, and was left out")
        return ""


def _url(content: Mapping[str, JsonValue], faults: list[str]) -> str:
    value = content.get("url")
    if value is None:
        return ""
    if not isinstance(value, str) or not re.fullmatch(rf"https?://[!-~]{{1,{LONGEST_URL}}}", value):
        faults.append(f"url is {_shown(value)}; expected an address that begins with https://, and was left out")
        return ""
    return value


def _kind(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", type(None): "empty", bool: "true or false"}
    return names.get(type(value), "a number")


def _shown(value: object) -> str:
    """Return a value for a message; what is long or nested only by its kind."""
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return _kind(value)
    return repr(printable(value)[:60]) if isinstance(value, str) else f"{value!r:.60}"
