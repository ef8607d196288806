"""Errors of a database as StoreErrors, with what to do about them."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from assaymark.errors import StoreBusy, StoreError

_FULL = "free some space and run the same command again: what is stored is safe, and an unfinished run continues"
_DAMAGED = "keep a copy; `sqlite3 FILE .recover` saves what can be read, then check it with `assaymark verify`"
_SQLITE_REMEDIES = (
    # beginning of SQLite's name for the error, cause, remedy
    ("SQLITE_FULL", "the disk (or the quota) is full", _FULL),
    ("SQLITE_IOERR", "the disk cannot be read or written (it may be full)", _FULL),
    ("SQLITE_BUSY", "another process kept it locked too long", "wait for that process or end it, then run again"),
    ("SQLITE_LOCKED", "another process kept it locked too long", "wait for that process or end it, then run again"),
    ("SQLITE_READONLY", "it is read-only", "check the permissions of the file and its folder, or name another store"),
    ("SQLITE_CANTOPEN", "the file cannot be opened", "check the path and its permissions, or name another store"),
    ("SQLITE_PERM", "the file may not be opened", "check its permissions, or name another store"),
    ("SQLITE_AUTH", "the file may not be opened", "check its permissions, or name another store"),
    ("SQLITE_NOTADB", "the file is not a SQLite database", "name another file, or move this one away"),
    ("SQLITE_CORRUPT", "the file is damaged", _DAMAGED),
    ("SQLITE_CONSTRAINT", "a row contradicts stored ones", "was the run removed while it was written?"),
)


def original_of(error: Exception) -> Exception:
    """Return the driver's error, also if SQLAlchemy wrapped it."""
    return error.orig if isinstance(error, DBAPIError) and isinstance(error.orig, Exception) else error


def is_locked(error: Exception) -> bool:
    """Return whether SQLite refused because another connection holds a lock, so that a retry may work."""
    code = getattr(original_of(error), "sqlite_errorcode", None)  # the primary code is its lowest byte
    return code is not None and code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def explain(error: Exception, where: str) -> StoreError:
    """Return the StoreError for an error of the database or the operating system."""
    original = original_of(error)
    first_line = str(original).strip().split("\n", 1)[0]
    if isinstance(original, sqlite3.Error):
        name = getattr(original, "sqlite_errorname", "") or ""
        for beginning, happened, remedy in _SQLITE_REMEDIES:
            if name.startswith(beginning):
                error_class = StoreBusy if is_locked(original) else StoreError
                return error_class(f"store {where}: {happened} ({first_line}); {remedy}")
        return StoreError(f"store {where}: its tables are not as they were written ({first_line}); {_DAMAGED}")
    if isinstance(original, UnicodeDecodeError):  # the driver reports a name in a damaged schema
        return StoreError(f"store {where}: the file is damaged ({first_line}); {_DAMAGED}")
    if isinstance(original, OSError):
        if original.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            return StoreError(f"store {where}: the disk is full ({first_line}); {_FULL}")
        return StoreError(f"store {where}: {first_line}; check the path and its permissions, or name another store")
    kind = type(original).__name__
    if kind in {"LockNotAvailable", "DeadlockDetected"}:  # of PostgreSQL
        return StoreBusy(f"store {where}: another writer held its rows too long ({first_line}); try again")
    return StoreError(f"store {where}: {kind}: {first_line}; check that the database is running and accessible")


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Translate errors of the database, its driver and the operating system into StoreErrors."""
    try:
        yield
    except (DBAPIError, PoolTimeout, sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise explain(error, where) from error
