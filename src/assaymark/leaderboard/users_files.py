"""The files behind a table: whether they changed, as of half a minute ago at most, and the numbers in their cells."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock

from assaymark.errors import DataError

LOOKED_AT_EVERY_S = 30.0
_Files = Callable[[Path], Iterable[Path]]
_states: dict[tuple[Path, _Files], tuple[float, int, str]] = {}
_lock = Lock()
MISSING = frozenset({"", "na", "n/a", "nan", "-", "–"})


def state_of(path: Path, files_of: _Files) -> str:
    """Return a text that changes with the files read of a path; it is looked at every half minute at most.

    It is looked at once more where the path itself changed, such as a folder with a new file.

    Args:
        path: a file, or a folder with files.
        files_of: returns the files that are read of it; the same function for the same use of a path.

    Raises: OSError where there is nothing at the path.
    """
    now, changed = time.monotonic(), path.stat().st_mtime_ns
    with _lock:
        known = _states.get((path, files_of))
    if path.is_dir() and known is not None and known[1] == changed and now - known[0] < LOOKED_AT_EVERY_S:
        return known[2]
    digest = sha256()
    for file in files_of(path):
        try:
            status = file.stat()
        except OSError:  # gone since, or a link to nothing
            continue
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogatepass"))
    with _lock:
        _states[path, files_of] = now, changed, digest.hexdigest()
    return digest.hexdigest()


def number_in(path: Path, line: int, record: Mapping[str, str | None], heading: str) -> float | None:
    """Return the number in a cell, without its percent sign; None for a cell that states that there is none.

    Raises: DataError with file, line and heading for a cell that is not a finite number.
    """
    text = (record.get(heading) or "").strip().rstrip("%")
    if text.lower() in MISSING:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{path}, line {line}: {heading} is {text[:40]!r}; expected a number, or nothing")
    return value
