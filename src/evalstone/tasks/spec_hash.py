"""The hash of a task: its YAML after includes and the bytes of the .py files it names. It holds no path.

Moving a task folder does not change it; editing a template, a helper function or an included file does.
"""

import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from evalstone.datasets.digests import file_digest
from evalstone.records import content_hash
from evalstone.tasks.task import FunctionRef


def hash_spec(spec: Mapping[str, Any]) -> str:
    """Return the content hash of a task file's mapping; no code is imported for it."""
    return content_hash(_plain(spec))


def _plain(value: Any) -> Any:
    if isinstance(value, FunctionRef):
        file = file_of(value)
        digest = _digest(file, file.stat().st_mtime_ns) if file is not None else None
        return {"!function": value.path, "sha256": digest}
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


@lru_cache(maxsize=1024)
def _digest(file: Path, _mtime_ns: int) -> str:
    return file_digest(file)


def file_of(function: FunctionRef) -> Path | None:
    """Return the .py file that holds a function, found without importing it; None if there is none."""
    if function.file is not None:
        return function.file
    top, *rest = function.module.split(".")
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if found is None:
        return None
    if not rest:
        return Path(found.origin) if found.origin else None
    for folder in found.submodule_search_locations or ():
        for place in (Path(folder, *rest).with_suffix(".py"), Path(folder, *rest) / "__init__.py"):
            if place.is_file():
                return place
    return None
