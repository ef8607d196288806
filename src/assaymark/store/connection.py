"""One database: how it is opened and checked, and its two kinds of transaction.

SQLite is used in WAL mode, so that readers never wait for the writer; writing begins with BEGIN IMMEDIATE, so that two
writers wait for each other instead of failing half-way. WAL needs memory shared by all users of the file, which a
network file system does not provide: there the older journal is used, with a notice to the user.
"""

import atexit
import os
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol, Self, cast
from weakref import WeakSet

from sqlalchemy import Connection, Dialect, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.util import LRUCache

from assaymark.errors import AssaymarkError, MissingExtra, StoreBusy, StoreError
from assaymark.settings import without_password
from assaymark.store import migrate
from assaymark.store.database_errors import explain, is_locked, translated
from assaymark.store.schema import SEARCH_TABLE_SQL, SPAN_SEARCH_TABLE_SQL

_ACTIVE_WORDS = re.compile(r"\b(VIRTUAL|GENERATED|AS|CHECK|DEFAULT|COLLATE|SELECT)\b", re.IGNORECASE)
_PLAIN_INDEX = re.compile(r'CREATE (UNIQUE )?INDEX "?\w+"? ON "?\w+"? \([\w", ]+\)( WHERE [\w" ]+)?', re.IGNORECASE)
FileId = tuple[int, int]  # device and inode
_NOWHERE: FileId = (-1, -1)  # of no file
BUSY_SECONDS = 30.0  # how long to wait for another writer
IDLE_SECONDS = 30.0  # after which a server ends the open transaction of a suspended writer
_LIMITS = text(
    "SELECT set_config('idle_in_transaction_session_timeout', :idle, true), set_config('lock_timeout', :lock, true)"
)
_COMPILED = LRUCache[object, object](1000)
"""Statements as SQLite's text, kept for the process: they are the same for each file, and compiling them takes as long
as a small run. The dialect is a part of the keys, so there is one."""
_DIALECTS: dict[str, Dialect] = {}
STRUCTURE_LOCK = 0x45564C53  # arbitrary key of PostgreSQL's advisory lock for assigning ids
_NETWORK = "nfs nfs4 cifs smb smb2 smb3 smbfs afs ceph lustre gpfs beegfs glusterfs panfs orangefs pvfs2"
_NETWORK_BY_FUSE = "sshfs glusterfs ceph rclone s3fs gcsfuse juicefs"
NETWORK_FILE_SYSTEMS = frozenset([*_NETWORK.split(), *(f"fuse.{name}" for name in _NETWORK_BY_FUSE.split())])


def file_system_of(path: Path, mounts: str = "/proc/self/mounts") -> str | None:
    """Return the type of the file system that holds `path` ("ext4", "nfs4"); None if the system does not report it."""
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    target = path.absolute()
    best, kind = -1, None
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if target.is_relative_to(point) and len(point.parts) >= best:  # a later mount hides an earlier one
            best, kind = len(point.parts), fields[2]
    return kind


def can_create_in(folder: Path) -> bool:
    """Return whether files can be created in a folder."""
    return os.access(folder, os.W_OK)


class OpenStore(Protocol):
    """An open store, as the tables of features need it."""

    @property
    def database(self) -> "Database":
        """The open database."""
        ...


_OPEN: "WeakSet[Database]" = WeakSet()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_OPEN.clear)  # a connection belongs to the process that opened it


@atexit.register
def _close_all() -> None:
    """Close databases left open by a command or script, so that SQLite moves its journal into the file for copying."""
    for database in list(_OPEN):
        database.close()


class Database:
    """An open database with a current schema."""

    def __init__(
        self, url: URL, *, read_only: bool = False, hidden_for: str | None = None, follows: bool = False
    ) -> None:
        self.url = url
        self._follows = follows
        self.hidden_for = hidden_for  # the reason to read hidden runs; None: they are not read
        self.read_only = read_only
        self.is_sqlite = url.get_backend_name() == "sqlite"
        public_url = f"sqlite:///{url.database}" if self.is_sqlite else url.render_as_string(hide_password=True)
        self.shown_url = without_password(public_url)
        self.notices: tuple[str, ...] = ()
        self._lock = threading.RLock()  # one writing transaction per process
        self._file: FileId | None = None  # device and inode of the file, once it is prepared
        self._lost: StoreError | None = None
        self._engine = self._make_engine()
        _OPEN.add(self)

    @classmethod
    def open(cls, url: str, *, read_only: bool = False, hidden_for: str | None = None, follows: bool = False) -> Self:
        """Open the database and bring its schema up to date.

        With `hidden_for`, the reason, hidden runs are read and written as public ones are. With `follows`, as servers
        need it, which hold nothing of the file between two requests, a file that replaces this one is opened in turn.

        Raises: StoreError, SchemaTooNew, MissingExtra.
        """
        database = cls(parsed_url(url), read_only=read_only, hidden_for=hidden_for, follows=follows)
        try:
            with translated(database.shown_url):
                database._prepare()
                database._file = _file_id(Path(database.url.database or "")) if database.is_sqlite else None
        except AssaymarkError:
            database.close()
            raise
        return database

    @classmethod
    def exists(cls, url: str) -> bool:
        """Return whether the URL or path has a store.

        Raises: StoreError for a folder or a server that cannot be reached or refuses, MissingExtra without its driver.
        """
        parsed = parsed_url(url)
        if parsed.get_backend_name() == "sqlite":
            path = Path(parsed.database or "")
            try:
                if path.is_dir():
                    raise _is_folder(path)
                return path.is_file() and path.stat().st_size > 0
            except PermissionError as error:
                raise explain(error, str(path)) from error
        database = cls(parsed, read_only=True)
        try:
            with database.reading() as connection:
                return migrate.version_of(connection) is not None  # also for an earlier version
        finally:
            database.close()

    @classmethod
    def is_writable(cls, url: str) -> bool:
        """Return whether the file and folder of a store are writable; True for a server, which checks by itself."""
        parsed = parsed_url(url)
        path = Path(parsed.database or "")
        return parsed.get_backend_name() != "sqlite" or (
            os.access(path, os.W_OK) and can_create_in(path.absolute().parent)
        )

    def is_in_place(self) -> bool:
        """Return whether the path still leads to the file that was opened; True for a server."""
        return self._file is None or _file_id(Path(self.url.database or "")) == self._file

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database throughout."""
        self._follow()
        with translated(self.shown_url), self._engine.connect() as plain:
            connection = plain.execution_options(assaymark_sees_hidden=self.hidden_for is not None)
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(
        self, *, durable: bool = False, locked: bool = False, wait_seconds: float | None = None
    ) -> Iterator[Connection]:
        """Open the writing transaction; all of it is stored, or nothing.

        With `durable` it is on the disk when the block ends, also if the machine loses its power: SQLite otherwise
        guarantees that only if the process is killed. (PostgreSQL always does.) `locked`: as after `lock_structure`.

        Raises: StoreBusy where other writers hold the database for longer than `wait_seconds` (None: `BUSY_SECONDS`);
        StoreError, also if the store was opened read-only, or its file was removed.
        """
        if self.read_only:
            raise StoreError(f"store {self.shown_url} is read-only; check its permissions, or name another store")
        if wait_seconds is None:
            wait_seconds = BUSY_SECONDS
        self._follow()
        with self._writer_of_process(wait_seconds), translated(self.shown_url), self._engine.connect() as plain:
            connection = plain.execution_options(
                assaymark_writes=True, assaymark_sees_hidden=self.hidden_for is not None
            )
            with self._waiting(plain, wait_seconds), self._flushed(plain, durable), connection.begin():
                if not self.is_sqlite:
                    connection.execute(_LIMITS, {"idle": f"{IDLE_SECONDS}s", "lock": f"{wait_seconds}s"})
                if locked:
                    self.lock_structure(connection)
                yield connection
            self._refuse_lost_file(plain)

    @contextmanager
    def _writer_of_process(self, wait_seconds: float) -> Iterator[None]:
        """Wait to be the only writer of this process. Raises: StoreBusy."""
        if not self._lock.acquire(timeout=wait_seconds):
            raise StoreBusy(
                f"store {self.shown_url}: this process has been writing it for {wait_seconds:g} s; try again"
            )
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _waiting(self, connection: Connection, wait_seconds: float) -> Iterator[None]:
        """Let SQLite wait for other processes for this long inside the block."""
        if wait_seconds == BUSY_SECONDS or not self.is_sqlite:
            yield
            return
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        driver.execute(f"PRAGMA busy_timeout = {int(wait_seconds * 1000)}")
        try:
            yield
        finally:
            driver.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")

    @contextmanager
    def _flushed(self, connection: Connection, durable: bool) -> Iterator[None]:
        """Make SQLite flush each transaction in the block to the disk, if `durable`."""
        if not (durable and self.is_sqlite):
            yield
            return
        driver = cast("sqlite3.Connection", connection.connection.driver_connection)
        driver.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            driver.execute("PRAGMA synchronous = NORMAL")

    def _refuse_lost_file(self, connection: Connection) -> None:
        """Raise StoreError if the path no longer leads to the file that was just written; save its content once.

        A file that was deleted or replaced can still be written, without an error, until the process ends and all of it
        is lost.
        """
        if self.is_in_place():
            return
        if self._lost is None:
            self._lost = _rescue(
                cast("sqlite3.Connection", connection.connection.driver_connection),
                Path(self.url.database or "").absolute(),
            )
        raise self._lost

    def _follow(self) -> None:
        """Go on with the file that is at the path now, if this database is to follow it.

        Raises: StoreError while there is none, and once where it was replaced, with where the old content is saved.
        """
        if not self._follows or self.is_in_place():
            return
        with self._lock, translated(self.shown_url):
            if self.is_in_place():
                return
            path = Path(self.url.database or "").absolute()
            if self._lost is None:
                pooled = self._engine.raw_connection()
                try:
                    if pooled.info.get("file") == self._file:  # else it is one that was opened just now
                        old = cast("sqlite3.Connection", pooled.driver_connection)
                        self._lost = _rescue(old, path, "the server goes on with what is put at its path")
                finally:
                    pooled.close()
            if not path.is_file() or not path.stat().st_size:
                raise self._lost or StoreError(f"the store {path} was removed; put it back at its path")
            self._engine.dispose()
            self._file = None
            try:
                self._prepare()
            except BaseException:
                self._file = _NOWHERE  # looked at again by the next request; another file may get the former inode
                raise
            self._file, lost, self._lost = _file_id(path), self._lost, None
            if lost is not None:
                raise lost

    def lock_structure(self, connection: Connection) -> None:
        """Keep others from assigning ids or removing texts until this transaction ends.

        SQLite needs no such lock: it has one writer at a time.
        """
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": STRUCTURE_LOCK})

    def shrink(self) -> None:
        """Return freed pages to the file system; PostgreSQL does so by itself."""
        if self.is_sqlite:
            with self._lock, translated(self.shown_url), self._bare() as connection:
                connection.executescript("PRAGMA incremental_vacuum")  # execute() would stop at the first page

    @contextmanager
    def _bare(self) -> Iterator[sqlite3.Connection]:
        """Yield the driver's own connection, outside any transaction, as some PRAGMAs need it."""
        pooled = self._engine.raw_connection()
        try:
            yield cast("sqlite3.Connection", pooled.driver_connection)
        finally:
            pooled.close()

    # ------------------------------------------------------------------------------------- opening

    def _make_engine(self) -> Engine:
        try:
            if self.is_sqlite:
                engine = create_engine(self.url, creator=self._connect, execution_options={"compiled_cache": _COMPILED})
                engine.dialect = _DIALECTS.setdefault("sqlite", engine.dialect)
            else:
                engine = create_engine(self.url, isolation_level="READ COMMITTED", pool_pre_ping=True)
        except ModuleNotFoundError as error:
            raise MissingExtra(f"the store {self.shown_url}", "postgres") from error
        if self.is_sqlite:
            event.listen(engine, "connect", self._set_up_connection)
            event.listen(engine, "begin", self._begin)
        return engine

    def _connect(self) -> sqlite3.Connection:
        path = Path(self.url.database or "").absolute()
        mode = (
            "ro" if self.read_only else "rw" if self._file else "rwc"
        )  # "rw": a file that vanished is not created again
        uri = f"{path.as_uri()}?mode={mode}"
        if self.read_only and not can_create_in(path.parent) and not path.with_name(path.name + "-wal").exists():
            uri += "&immutable=1"  # nobody is writing, and SQLite cannot create its files beside it
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)

    def _set_up_connection(self, connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        record.info["file"] = _file_id(Path(self.url.database or ""))
        connection.isolation_level = None  # transactions are begun by us, not implicitly by the driver
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -32000")  # KiB
        if self.read_only:
            connection.execute("PRAGMA query_only = ON")

    @staticmethod
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("assaymark_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    def _prepare(self) -> None:
        if self.is_sqlite:
            self._prepare_file(Path(self.url.database or ""))
        if self.read_only:
            with self.reading() as connection:
                migrate.require_current(connection, self.shown_url)
            return
        with self.reading() as connection:
            if migrate.is_current(connection, self.shown_url):
                return
        with self.writing(locked=True) as connection:
            migrate.upgrade(connection, self.shown_url)

    def _prepare_file(self, path: Path) -> None:
        if path.is_dir():
            raise _is_folder(path)
        exists = path.is_file() and path.stat().st_size > 0
        if exists:
            with self._bare() as connection:
                _refuse_active_schema(connection, self.shown_url)
        if self.read_only:
            if not exists:
                raise StoreError(f"there is no store at {path}; it is created by the first `assaymark run`")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = file_system_of(path.parent)
        is_remote = kind in NETWORK_FILE_SYSTEMS
        if is_remote:
            notice = (
                f"the store {path} is on a network file system ({kind}): use it from one machine at a time, "
                f"or use a store on a local disk (--store FILE, ASSAYMARK_STORE) or a PostgreSQL server"
            )
            self.notices = (notice,)
        self._set_journal("DELETE" if is_remote else "WAL", is_new=not exists)

    def _set_journal(self, mode: str, *, is_new: bool) -> None:
        """Set the journal mode; two processes that open a new file at once wait for each other here."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with self._bare() as connection:
                    if is_new:
                        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                    connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
            except (DBAPIError, sqlite3.Error) as error:
                if not is_locked(error) or time.monotonic() > deadline:
                    raise explain(error, self.shown_url) from error
                time.sleep(0.02)
            else:
                return


def parsed_url(url: str) -> URL:
    """Return the URL of a store given by a URL, or by a path, in which no character is special."""
    if "://" not in url:
        return URL.create("sqlite", database=url)
    try:
        parsed = make_url(url.replace("postgres://", "postgresql://", 1))
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise StoreError(
            f"'{without_password(url)}' is not a store ({without_password(str(error))}); "
            "expected a file, sqlite:///FILE or postgresql://..."
        ) from error
    if backend not in {"sqlite", "postgresql"}:
        raise StoreError(
            f"'{parsed.drivername}' is not a kind of store; expected sqlite:///FILE or postgresql://HOST/NAME"
        )
    if backend == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise StoreError(f"'{url}' names no file; expected sqlite:///FILE")
    if backend == "sqlite" and parsed.query:
        raise StoreError(f"'{url}' has a query after '?', which a store's file does not accept; expected a plain path")
    return parsed


def _is_folder(path: Path) -> StoreError:
    return StoreError(f"store {path} is a folder; expected a file such as {path / 'store.sqlite'}")


def _file_id(path: Path) -> FileId | None:
    """Return device and inode of the file at a path, None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


_MOVE_BACK = "move that file back, or name it with --store, and run the same command again"


def _rescue(connection: sqlite3.Connection, path: Path, remedy: str = _MOVE_BACK) -> StoreError:
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
    return StoreError(f"{what}; its content is saved in {target}: {remedy}")


def _refuse_active_schema(connection: sqlite3.Connection, where: str) -> None:
    """Raise StoreError if a file's schema has anything but tables and indexes that only hold data.

    A store from elsewhere is untrusted: a view instead of a table can make a SELECT run for ever, and a trigger or
    a generated column runs its author's code. Our own schema has tables, plain indexes, and two full-text indexes with
    exactly our statements. Reading `sqlite_master` evaluates nothing that it describes.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    for kind, name, statement in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if statement is None and kind == "index":
            continue  # SQLite's own index of a key
        plain = " ".join(str(statement).split())
        if kind == "table" and (plain in {SEARCH_TABLE_SQL, SPAN_SEARCH_TABLE_SQL} or not _ACTIVE_WORDS.search(plain)):
            continue
        if kind == "index" and _PLAIN_INDEX.fullmatch(plain):
            continue
        what = f"the {kind} '{name}'" if kind in {"view", "trigger"} else f"a {kind} '{name}' that computes"
        raise StoreError(
            f"store {where} has {what}, which no store has, so it was not read; expected a file written by assaymark: "
            "get it again from its source"
        )
