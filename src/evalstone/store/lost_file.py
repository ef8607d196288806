"""A store whose file is taken away while it is open: noticed at the next write, and what it held is saved.

An open file that was deleted can still be written, and everything would look well until the process ends and all of
it is gone. So each write asks whether the path still leads to the same file.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from evalstone.errors import StoreError

__all__ = ["FileId", "file_id", "rescue"]

FileId = tuple[int, int]  # device and inode


def file_id(path: Path) -> FileId | None:
    """Return which file a path leads to, None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def rescue(connection: sqlite3.Connection, path: Path) -> StoreError:
    """Copy what an open connection still sees into a new file beside `path`; return the error that says so."""
    what = f"store {path} was removed or replaced while it was written"
    number, place = 1, path.with_name(f"{path.name}.rescued")
    while place.exists():
        number += 1
        place = path.with_name(f"{path.name}.rescued-{number}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(place)) as copy:
            connection.backup(copy)
    except (OSError, sqlite3.Error) as error:
        return StoreError(f"{what}, and what it held cannot be saved ({error}); run the same command again")
    return StoreError(
        f"{what}; what it held until now is saved in {place}: move that file back, or name it with --store, and run "
        "the same command again"
    )
