"""Leases, so that a run has one writer: the holder renews its lease, and every write checks it in its transaction.

`run_leases` has one row for each run that was ever written. Taking a lease raises its *epoch*, which the writer
remembers. A process that was suspended longer than its lease finds another epoch at its next write: that write is not
stored, and the process stops. Expiry is measured by the database's clock, so the clocks of machines that share a store
need not agree. A lease whose process is known to have ended is available at once.

Lock order on a server: the run's lease first, the structure lock second. SQLite has one writer at a time anyway.
"""

import threading
import uuid
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, insert, literal_column, select, update

from assaymark import settings
from assaymark.errors import LeaseLost, RunBusy, StoreError
from assaymark.store.connection import Database
from assaymark.store.liveness import Owner
from assaymark.store.rows import RunWriter
from assaymark.store.schema import StoredRow, attempts, run_leases, runs, with_checksum

_CLOCKS: dict[str, ColumnElement[float]] = {
    "sqlite": literal_column("(julianday('now') - 2440587.5) * 86400.0"),
    "postgresql": literal_column("extract(epoch FROM clock_timestamp())::float8"),
}


def clock_of(connection: Connection) -> ColumnElement[float]:
    """Return the expression of the database's time. Units: seconds since 1970."""
    return _CLOCKS[connection.dialect.name]


def now(connection: Connection) -> float:
    """Return the database's time. Units: seconds since 1970."""
    return float(connection.execute(select(clock_of(connection))).scalar_one())


RENEWALS = 3  # per lease, so that a failed one (a locked file) does not lose it
RETRY_SECONDS = 1.0  # after a failed renewal

_renewed_here: set[str] = set()  # tokens of the leases that this process renews


class Lease(NamedTuple):
    """A run's stored lease. Units: seconds_left by the database's clock, negative after expiry."""

    run: int
    attempt: int
    epoch: int
    owner: Owner | None  # None after release
    seconds_left: float

    @property
    def is_held(self) -> bool:
        """Whether its holder may still write."""
        if self.owner is None or self.seconds_left <= 0:
            return False
        if self.owner.is_this_process:
            return self.owner.token in _renewed_here
        return not self.owner.is_known_dead


@dataclass(slots=True)
class _Held:
    """A lease that this store holds."""

    run: int
    epoch: int
    token: str
    lost: LeaseLost | None = None


def lock(connection: Connection, run: int) -> Lease | None:
    """Return a run's lease, locked until the transaction ends; None if it never had one."""
    return _read(connection, run, for_update=True)


def _read(connection: Connection, run: int, *, for_update: bool = False) -> Lease | None:
    row = _row(connection, run, for_update=for_update)
    return None if row is None else _lease_of(row, now(connection))


def _row(connection: Connection, run: int, *, for_update: bool = False) -> StoredRow | None:
    statement = select(run_leases).where(run_leases.c.run == run)
    return connection.execute(statement.with_for_update() if for_update else statement).one_or_none()


def _lease_of(row: StoredRow, at: float) -> Lease:
    return Lease(row.run, row.attempt, row.epoch, Owner.from_text(row.owner), row.expires - at)


def _change(connection: Connection, row: StoredRow, **changes: object) -> None:
    values = with_checksum(run_leases, {**row._asdict(), **changes})
    statement = update(run_leases).where(run_leases.c.run == row.run)
    connection.execute(statement.values(**{name: values[name] for name in (*changes, "checksum")}))


def holder_of(connection: Connection, run: int) -> RunWriter | None:
    """Return the process that holds a run's lease, None if there is none."""
    lease = _read(connection, run)
    if lease is None or lease.owner is None or not lease.is_held:
        return None
    this = (attempts.c.run == run) & (attempts.c.number == lease.attempt)
    since = connection.execute(select(attempts.c.started_at).where(this)).scalar()
    return RunWriter(lease.attempt, lease.owner.host, lease.owner.process_id, since or "an unknown time")


def refuse_held(connection: Connection, run: int) -> None:
    """Raise RunBusy if a process holds the run's lease."""
    holder = holder_of(connection, run)
    if holder is not None:
        run_id = connection.execute(select(runs.c.run_id).where(runs.c.id == run)).scalar_one()
        raise RunBusy(
            f"run {run_id} is being written by {holder}; wait for it or stop it, then run the same command again"
        )


def drop(connection: Connection, run: int) -> None:
    """Remove the lease of a run that is being removed."""
    connection.execute(delete(run_leases).where(run_leases.c.run == run))


class Leases:
    """The leases that one open store holds; a thread renews them while there are any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str, _Held] = {}  # by run id
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._seconds = 0.0

    # ---------------------------------------------------------------- inside the caller's transaction

    def take(self, connection: Connection, run: int, attempt: int) -> tuple[int, str]:
        """Take the run's lease from whoever had it; return epoch and token for `hold`."""
        self._seconds = settings.lease_seconds()
        token = uuid.uuid4().hex
        before = _row(connection, run)
        epoch = 1 if before is None else before.epoch + 1
        owner, expires = Owner.this_process(token).to_text(), now(connection) + self._seconds
        if before is None:
            fresh = {"run": run, "attempt": attempt, "epoch": epoch, "owner": owner, "expires": expires}
            connection.execute(insert(run_leases), with_checksum(run_leases, fresh))
        else:
            _change(connection, before, attempt=attempt, epoch=epoch, owner=owner, expires=expires)
        return epoch, token

    def check(self, connection: Connection, run_id: str, run: int, *, only_held: bool = False) -> None:
        """Check that this store may write the run in this transaction.

        With `only_held`, a store that does not hold the lease may write too, for rows that are no outputs.

        Raises: LeaseLost if another writer took the run over; RunBusy if this store does not hold the lease and
            another writer does.
        """
        held = self._held.get(run_id)
        if held is None and only_held:
            return
        lease = lock(connection, run)
        if held is None:
            if lease is not None and lease.is_held:
                refuse_held(connection, run)
        elif lease is None or (lease.run, lease.epoch) != (held.run, held.epoch):
            raise self._lose(connection, run_id, held, lease)

    def release(self, connection: Connection, run_id: str) -> None:
        """Release the run's lease at the end of this transaction."""
        held = self._held.get(run_id)
        if held is not None:
            row = _row(connection, held.run, for_update=True)
            if row is not None and row.epoch == held.epoch:
                _change(connection, row, owner="", expires=0.0)

    # ------------------------------------------------------------------------------------ held leases

    def hold(self, run_id: str, run: int, epoch: int, token: str) -> None:
        """Begin to renew a lease that was taken; call it after that transaction is committed."""
        with self._changed:
            self._forget(run_id)
            self._held[run_id] = _Held(run, epoch, token)
            _renewed_here.add(token)
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew_while_held, name="run leases", daemon=True)
                self._thread.start()

    def holds(self, run_id: str) -> bool:
        """Return whether this store took the run's lease and has not released it; the lease may have been lost."""
        return run_id in self._held

    def refuse_lost(self, run_id: str) -> None:
        """Raise LeaseLost if the run is known to have been taken over; does not read the database."""
        held = self._held.get(run_id)
        if held is not None and held.lost is not None:
            raise held.lost

    def forget(self, run_id: str) -> None:
        """Stop renewing the run's lease, which is released already, or expires."""
        with self._changed:
            self._forget(run_id)
            self._changed.notify_all()

    def _forget(self, run_id: str) -> None:
        held = self._held.pop(run_id, None)
        if held is not None:
            _renewed_here.discard(held.token)

    def close(self) -> None:
        """Release all held leases, and stop renewing."""
        held = list(self._held)
        try:
            if held:
                with self._database.writing() as connection:
                    for run_id in held:
                        self.release(connection, run_id)
        finally:
            with self._changed:
                for run_id in held:
                    self._forget(run_id)
                self._changed.notify_all()
                thread = self._thread
            if thread is not None:
                thread.join()  # it would open a new connection after the database was closed

    def _lose(self, connection: Connection, run_id: str, held: _Held, lease: Lease | None) -> LeaseLost:
        """Record that another writer has the run, or that it is gone, and return the error."""
        if held.lost is None and connection.execute(select(runs.c.id).where(runs.c.run_id == run_id)).first() is None:
            held.lost = LeaseLost(f"run {run_id} is not in the store; it may have been removed by another process")
            _renewed_here.discard(held.token)
        if held.lost is None:
            who = "another process"
            if lease is not None and lease.owner is not None:
                who = f"process {lease.owner.process_id} on {lease.owner.host} (attempt {lease.attempt})"
            held.lost = LeaseLost(
                f"run {run_id} was taken over by {who} while this process was suspended for longer than its lease; "
                "this process stops. What it has stored is safe, and the same command follows or continues the run"
            )
            _renewed_here.discard(held.token)
        return held.lost

    # ------------------------------------------------------------------------------------- renewing

    def _renew_while_held(self) -> None:
        pause = self._seconds / RENEWALS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._held, pause)  # nothing may be held already
                held = [(run_id, lease) for run_id, lease in self._held.items() if lease.lost is None]
                if not self._held:
                    self._thread = None
                    return
            pause = self._seconds / RENEWALS
            try:
                self._renew(held)
            except StoreError:  # the next write raises it; until the lease expires there is time to try again
                pause = min(RETRY_SECONDS, pause)

    def _renew(self, held: list[tuple[str, _Held]]) -> None:
        with self._database.writing() as connection:
            for run_id, lease in held:
                row = _row(connection, lease.run, for_update=True)
                if row is None or row.epoch != lease.epoch:
                    self._lose(connection, run_id, lease, None if row is None else _lease_of(row, 0.0))
                elif row.owner:  # else it has been released
                    _change(connection, row, expires=now(connection) + self._seconds)
