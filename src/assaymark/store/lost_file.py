"""The file of a store that was deleted or replaced while it is open.

It can still be written, without an error, until the process ends and all of it is lost. So each write checks that the
path still leads to the same file, and the content is saved beside it if not.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from assaymark.errors import StoreError

FileId = tuple[int, int]  # device and inode


def file_id(path: Path) -> FileId | None:
    """Return device and inode of the file at a path, None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def rescue(connection: sqlite3.Connection, path: Path) -> StoreError:
    """Copy the content of an open connection into a new file beside `path`; return the error to raise."""
    what = f"store {path} was removed or replaced while it was written"
    number, target = 1, path.with_name(f"{path.name}.rescued")
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.rescued-{number}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(target)) as copy:
            connection.backup(copy)
    except (OSError, sqlite3.Error) as error:
        return StoreError(f"{what}, and its content cannot be saved ({error}); run the same command again")
    return StoreError(
        f"{what}; its content is saved in {target}: move that file back, or name it with --store, and run the same "
        "command again"
    )
