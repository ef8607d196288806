"""Copies of a whole store: SQLite's online backup, so that runs, votes and servers may go on writing meanwhile.

A PostgreSQL server has tools of its own, which copy all of its databases consistently; `backup` names the command.
Source: https://www.sqlite.org/backup.html; https://www.postgresql.org/docs/current/backup-dump.html
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from assaymark.errors import StoreError, UsageError
from assaymark.store.connection import Database, parsed_url
from assaymark.store.schema import FORMER_VERSION_TABLE, HEAD, VERSION_TABLE

PAGES = 2_000  # copied between two checks for other writers: about 8 MB


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy that was made and checked. n_bytes: of its file."""

    path: Path
    n_bytes: int
    n_runs: int


def backup(url: str, path: Path) -> Copied:
    """Copy a store into a file, which becomes visible when it is whole and checked.

    url: the store's path or URL.

    Raises: UsageError for a PostgreSQL store, with the command to use, and for a file that exists; StoreError where the
        store is not there or the copy fails.
    """
    source = _file_of(parsed_url(url), "backup")
    if path.exists():
        raise UsageError(f"{path} exists already; name a new file")
    return _copy(source, path)


def restore(path: Path, url: str, *, replace: bool = False) -> Copied:
    """Copy a backup to a store's place.

    Args:
        url: the store's path or URL.
        replace: whether a store that is there already is replaced, after it was copied to `NAME.before-restore`.

    Raises: UsageError for a PostgreSQL store, and for a store that is there without `replace`; StoreError for a file
        that is not a whole store.
    """
    target = _file_of(parsed_url(url), "restore", must_exist=False)
    _check(path)
    aside = target.with_name(f"{target.name}.before-restore")
    if target.exists():
        if not replace:
            raise UsageError(f"{target} is a store already; add --replace, which copies it to {aside.name} first")
        if aside.exists():
            raise UsageError(f"{aside} is there from an earlier restore; move or remove it first")
        _copy(target, aside)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with closing(_reading(path)) as reading, closing(sqlite3.connect(target)) as writing:
            reading.backup(writing)  # one transaction: whoever has the store open sees all of it or nothing
        n_runs = _check(target)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{target} cannot be written: {error}; stop what uses it and restore again") from error
    return Copied(target, target.stat().st_size, n_runs)


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _file_of(url: URL, what: str, *, must_exist: bool = True) -> Path:
    if url.get_backend_name() != "sqlite":
        public_url = url.set(drivername="postgresql").render_as_string(hide_password=True)
        command = {
            "backup": f"pg_dump --format=custom --file=assaymark.dump '{public_url}'",
            "restore": f"pg_restore --clean --if-exists --single-transaction --dbname='{public_url}' assaymark.dump",
        }[what]
        raise UsageError(f"a PostgreSQL store is copied with the server's own tools: {command} (with its password)")
    file = Path(url.database or "")
    if must_exist and not Database.exists(str(file)):
        raise StoreError(f"there is no store at {file}; name one with --store")
    return file


def _copy(source: Path, path: Path) -> Copied:
    """Copy a SQLite file while others may write to it; the copy appears at `path` when it is whole and checked."""
    draft = path.with_name(f"{path.name}.copying")
    draft.unlink(missing_ok=True)
    try:
        with closing(_reading(source)) as reading, closing(sqlite3.connect(draft)) as writing:
            reading.backup(writing, pages=PAGES, sleep=0.02)
            writing.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        n_runs = _check(draft)
        draft.replace(path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{source} cannot be copied to {path}: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(f"{draft.name}-journal").unlink(missing_ok=True)  # SQLite leaves it on a full disk
    return Copied(path, path.stat().st_size, n_runs)


def _check(path: Path) -> int:
    """Return the number of runs of a file. Raises: StoreError unless it is a whole store that this version reads."""
    if not path.is_file():
        raise StoreError(f"file not found: {path}; expected one that `assaymark store backup` wrote")
    try:
        with closing(_reading(path)) as connection:
            (fault,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            version_table = next((name for name in (VERSION_TABLE, FORMER_VERSION_TABLE) if name in tables), None)
            if fault != "ok" or version_table is None or "runs" not in tables:
                what = "is damaged" if fault != "ok" else "is not a store of Assaymark"
                raise StoreError(f"{path} {what}{f' ({fault})' if fault != 'ok' else ''}; take another copy")
            (version,) = connection.execute(f"SELECT version_num FROM {version_table}").fetchone()  # noqa: S608 - ours
            if str(version) > HEAD:
                raise StoreError(f"{path} has schema {version}, newer than this version's {HEAD}; upgrade Assaymark")
            return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.Error as error:
        expected = "expected a file that `assaymark store backup` wrote"
        raise StoreError(f"{path} is not a store: {error}; {expected}") from error
