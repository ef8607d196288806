"""A cached index of a folder's task files: lm_eval alone has fourteen thousand, and parsing them takes seconds.

The index of a folder is stored in the cache folder together with a stamp (number, size and newest time of its task
files, the versions of their package and of this one); it is rebuilt when the stamp differs. A task with unsupported
features has the reason beside its name.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from assaymark import settings
from assaymark.errors import DataError
from assaymark.registry import nearest
from assaymark.scoring.metric import GENERATE, LOGLIKELIHOOD, MULTIPLE_CHOICE, PASSED_ON, SIMULATED, TOOL_CALLS
from assaymark.scoring.metrics import REGISTERED, names_for, split_reduced
from assaymark.tasks.task import Kind
from assaymark.tasks.user_code import Declaration, declarations_below
from assaymark.tasks.yaml_files import read_task_file

_FORMAT = 5  # of the index file
_SKIPPED = {"__pycache__", ".ipynb_checkpoints"}


class IndexedFile(NamedTuple):
    """A task file that defines a task or a group, or one that cannot be read."""

    name: str
    kind: Kind
    path: str  # below the folder
    tags: Sequence[str] = ()
    n_members: int = 1
    reason: str | None = None  # why it cannot run
    broken: bool = False


_PACKAGES: dict[tuple[object, ...], tuple[Mapping[str, int], list[IndexedFile]]] = {}  # folders with times; files


def index_package(root: Path, version: str = "") -> list[IndexedFile]:
    """Return the task files of an installed package, as `index_folder` does; do not modify the list.

    In one process the thousands of files are looked at once, and their folders each time: a file that was added or
    removed is seen at once, and a name that was changed in a file by the next process.
    """
    key = (root, version, settings.cache_folder(), *REGISTERED.names())
    folders, files = _PACKAGES.get(key, ({}, []))
    if not folders or any(_time_of(folder) != time for folder, time in folders.items()):
        looked_at: dict[str, int] = {}
        files = index_folder(root, version, folders=looked_at)
        _PACKAGES[key] = looked_at, files
    return files


def copy_package_indexes(cache: Path) -> None:
    """Copy the indexes of the packages that this process has looked at into another cache folder, those of users not.

    A process that has a cache of its own would parse all files again, and must not see what else is in this one's.
    """
    for root in {cast("Path", key[0]).resolve() for key in _PACKAGES}:
        with suppress(OSError):  # it is parsed again
            content = _note(settings.cache_folder(), root).read_text(encoding="utf-8")
            settings.remember(_note(cache, root), content)


def _note(cache: Path, root: Path) -> Path:
    """Return the file of a folder's index; root: resolved."""
    return cache / "task_index" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:24]}.json"


def _time_of(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - hundreds, at each command of a process
    except OSError:
        return None


def index_user_folder(root: Path) -> list[IndexedFile]:
    """Return a user's folder's task files, and the tasks that its Python files declare; none of them is imported."""
    root = root.resolve()
    declared = declarations_below(root)
    metrics = tuple(each.name for each in declared if each.kind == "metrics")
    return [
        *index_folder(root, metrics=metrics),
        *(indexed_task(each, root) for each in declared if each.kind == "tasks"),
    ]


def indexed_task(declaration: Declaration, root: Path) -> IndexedFile:
    """Return the index entry of a task that a Python file below the folder declares."""
    file = cast("Path", declaration.function.file)
    return IndexedFile(declaration.name, "task", file.relative_to(root).as_posix())


def index_folder(
    root: Path, version: str = "", metrics: Sequence[str] = (), folders: dict[str, int] | None = None
) -> list[IndexedFile]:
    """Return the folder's task files in order of their paths, from the cache where nothing changed.

    Args:
        metrics: names of metrics that the folder's Python files declare.
        folders: receives the folders that were looked at, with their times of change.
    """
    root = root.resolve()
    # what cannot run here depends on the metrics that there are, ours, installed ones and the folder's own
    stamp = [_FORMAT, settings.VERSION, version, *REGISTERED.names(), *metrics, *_stamp(root, folders)]
    note = _note(settings.cache_folder(), root)
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["stamp"] == stamp:
            return list(map(IndexedFile._make, known["files"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no index yet, or a damaged one
    files = list(_indexed(root, metrics))
    settings.remember(note, json.dumps({"stamp": stamp, "root": str(root), "files": files}))
    return files


def _stamp(root: Path, looked_at: dict[str, int] | None = None) -> tuple[int, int, int]:
    count = size = newest = 0
    for entry in _walk(str(root), looked_at):
        status = entry.stat()
        count += 1
        size += status.st_size
        newest = max(newest, status.st_mtime_ns)
    return count, size, newest


def _walk(folder: str, looked_at: dict[str, int] | None = None) -> Iterator["os.DirEntry[str]"]:
    """Yield every file that can be part of a task: YAML files, and those whose names end in yaml without a dot."""
    folders = [folder]
    while folders:
        here = folders.pop()
        try:
            if looked_at is not None:
                looked_at[here] = os.stat(here).st_mtime_ns  # noqa: PTH116 - as in `_time_of`
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.name.endswith(("yaml", "yml")) and not entry.is_dir(follow_symlinks=False):
                        yield entry
                    elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                        folders.append(entry.path)
        except OSError:
            continue


def task_files(root: Path) -> list[Path]:
    """Return the folder's .yaml files except cards, sorted by path."""
    paths = (Path(entry.path) for entry in _walk(str(root)) if entry.name.endswith((".yaml", ".yml")))
    return sorted((path for path in paths if not path.name.endswith(".card.yaml")), key=lambda path: path.as_posix())


def _indexed(root: Path, metrics: Sequence[str]) -> Iterable[IndexedFile]:
    for path in task_files(root):
        relative = path.relative_to(root).as_posix()
        try:
            spec = read_task_file(path, in_real_folder=True)
        except DataError as error:
            yield IndexedFile(path.stem, "task", relative, reason=str(error), broken=True)
            continue
        file = describe_file(spec, relative, metrics)
        if file is not None:
            yield file


def describe_file(spec: Mapping[str, object], path: str, metrics: Sequence[str] = ()) -> IndexedFile | None:
    """Return the index entry of a file's mapping: a task, a group, or None (a template that others include)."""
    tag = spec.get("tag")
    tags = (tag,) if isinstance(tag, str) else tuple(map(str, tag)) if isinstance(tag, list) else ()
    if "class" not in spec and isinstance(group := spec.get("group"), str):
        members = spec.get("task")
        count = len(members) if isinstance(members, list) else 0
        return IndexedFile(group, "group", path, tags, count, None if count else "the group has no members")
    if isinstance(task := spec.get("task"), str):
        return IndexedFile(task, "task", path, tags, 1, why_not_runnable(spec, metrics))
    return None


def why_not_runnable(spec: Mapping[str, object], declared: Collection[str] = ()) -> str | None:
    """Return the reason why a task file's mapping is not supported, or None. declared: metrics of the user's files."""
    if spec.get("use_prompt") is not None:
        return f"use_prompt '{spec['use_prompt']}' needs the library promptsource, which is not supported"
    if spec.get("doc_to_audio") is not None:
        return "doc_to_audio: its prompts contain audio, which no model here takes; prompts are text and images"
    return None if "class" in spec else _unknown_metric(spec, declared)


def _unknown_metric(spec: Mapping[str, object], declared: Collection[str]) -> str | None:
    if spec.get("process_results") is not None:
        return None  # the task scores itself; its metrics may have any name
    output_type = str(spec.get("output_type", "generate_until"))
    known = names_for(output_type)
    if output_type == LOGLIKELIHOOD:  # lm-eval omits from its results what such a task cannot have (acc_norm)
        known = (*known, *names_for(MULTIPLE_CHOICE))
    if spec.get("doc_to_tools") is not None:
        known = names_for(SIMULATED) if spec.get("simulator") is not None else (*names_for(TOOL_CALLS), *known)
    listed = spec.get("metric_list")
    for item in listed if isinstance(listed, list | tuple) else ():
        name = item.get("metric") if isinstance(item, Mapping) else None
        plain = split_reduced(name)[0] if isinstance(name, str) else name
        if output_type == GENERATE and name in PASSED_ON and not isinstance(item.get("aggregation"), str | None):
            continue  # scored by its `!function`
        if isinstance(name, str) and known and plain not in {*known, *declared} and name not in REGISTERED:
            near = nearest(name, known)
            hint = f"nearest: {', '.join(near)}" if near else f"expected one of {', '.join(known)}, or !function"
            return f"metric '{name}' is not known for {output_type}; {hint}"
    return None
