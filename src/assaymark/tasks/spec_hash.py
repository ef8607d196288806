"""The hash of a task: of its YAML after includes and the bytes of the .py files it names, but of no path.

Moving a task folder does not change it; editing a template, a helper function, an included file, or a file beside it
that a helper imports does. Installed packages are not part of it, except lm_eval's task folder.
"""

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from assaymark.datasets.files import file_digest
from assaymark.python_source import parse_python
from assaymark.records import content_hash
from assaymark.tasks.task import FunctionRef

TASK_PACKAGE = ("lm_eval", "tasks")


def hash_spec(spec: Mapping[str, object]) -> str:
    """Return the content hash of a task file's mapping, without importing code."""
    return content_hash(_plain(spec))


def _plain(value: object) -> object:
    if isinstance(value, FunctionRef):
        file = file_of(value)
        return {"!function": value.path, "sha256": code_hash(file) if file is not None else None}
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def code_hash(file: Path) -> str:
    """Return the hash of a .py file and of those files it imports that belong to the task."""
    imported = local_imports(file)
    own = _digest(file, file.stat().st_mtime_ns)
    if not imported:
        return own
    return content_hash([own, sorted(_digest(each, each.stat().st_mtime_ns) for each in imported)])


def local_imports(file: Path) -> frozenset[Path]:
    """Return the .py files of the task that a file imports, directly or indirectly."""
    paths: set[Path] = set()
    left = [file]
    while left:
        path = left.pop()
        for name in _imported_names(path, path.stat().st_mtime_ns):
            new = {each for each in _files_of_name(path, name) if each != file} - paths
            paths |= new
            left += new
    return frozenset(paths)


@lru_cache(maxsize=1024)
def _imported_names(file: Path, _mtime_ns: int) -> tuple[str, ...]:
    """Return the modules that a file's syntax tree may import, anywhere in it; relative ones begin with dots."""
    try:
        tree = parse_python(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):  # reported when the file is imported
        return ()
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            joint = "" if start.endswith(".") else "."
            names += [start, *(f"{start}{joint}{alias.name}" for alias in node.names)]  # a name may be a module
    return tuple(dict.fromkeys(names))


def _files_of_name(importer: Path, name: str) -> Iterator[Path]:
    """Yield the files that an import runs, of the module and its parent packages, if they belong to the task."""
    bare = name.lstrip(".")
    parts = bare.split(".") if bare else []
    if tuple(parts[:2]) == TASK_PACKAGE:
        file = _installed(parts) if len(parts) > 2 else None
        yield from [file] if file is not None else []
        return
    folder = importer.parent
    for _ in range(len(name) - len(bare) - 1):
        folder = folder.parent
    for depth in range(1, len(parts) + 1):
        path = Path(folder, *parts[:depth])
        yield from (each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file())


@lru_cache(maxsize=1024)
def _digest(file: Path, _mtime_ns: int) -> str:
    return file_digest(file)


def file_of(function: FunctionRef) -> Path | None:
    """Return the .py file of a function, without importing it; None if there is none."""
    return function.file if function.file is not None else _installed(function.module.split("."))


def _installed(parts: list[str]) -> Path | None:
    """Return the file of an installed module, without importing it; None if there is none."""
    top, *rest = parts
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        file = Path(spec.origin or "")
        return file if file.is_file() else None  # the origin of sys and os is not a path: built-in, frozen
    for folder in spec.submodule_search_locations or ():
        for path in (Path(folder, *rest).with_suffix(".py"), Path(folder, *rest) / "__init__.py"):
            if path.is_file():
                return path
    return None
