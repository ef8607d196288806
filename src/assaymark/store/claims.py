"""Work that one of several workers claims for a time, renews, and ends or loses.

A row of such work has `state` ("running" while it is held), `owner`, `epoch`, `expires` and `not_before`, both by the
database's clock, and the number of tries. A claim raises the epoch, and every later change by that worker names it, so
a worker that was suspended past its claim changes nothing more. Work may be taken again when its claim has expired, or
at once if its worker was a process of this machine that is known to have ended. On PostgreSQL a claim skips the rows
that others are taking (`with_for_update(skip_locked=True)`); on SQLite the writing transaction has begun before it.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, and_, select, update

from assaymark.store.connection import Database
from assaymark.store.leases import clock_of
from assaymark.store.liveness import Owner


@dataclass(frozen=True)
class Claims:
    """The rows of one table, as workers claim them.

    waiting: the state of work that nobody holds; tries: the column that counts them; most_tries: failed ones and those
    whose worker ended; retry_seconds: before the second try, doubled each time.
    """

    table: Table
    waiting: str
    tries: str
    most_tries: int
    retry_seconds: float

    def is_held(self, epoch: int) -> ColumnElement[bool]:
        """A condition: the work is still held by the claim with this epoch."""
        return and_(self.table.c.state == "running", self.table.c.epoch == epoch)

    def has_lapsed(self, connection: Connection) -> ColumnElement[bool]:
        """A condition: the claim on the work has expired."""
        return and_(self.table.c.state == "running", self.table.c.expires < clock_of(connection))

    def may_begin(self, connection: Connection) -> ColumnElement[bool]:
        """A condition: the work waits, and its time has come."""
        return and_(self.table.c.state == self.waiting, self.table.c.not_before <= clock_of(connection))

    def is_spent(self, connection: Connection) -> ColumnElement[bool]:
        """A condition: the claim has expired, and no tries are left."""
        return and_(self.has_lapsed(connection), self.table.c[self.tries] >= self.most_tries)

    def taken(self, connection: Connection, owner: str, seconds: float) -> dict[str, object]:
        """Return the values of work that a worker takes for `seconds`."""
        count, epoch = self.table.c[self.tries] + 1, self.table.c.epoch + 1
        expires = clock_of(connection) + seconds
        return {"state": "running", "epoch": epoch, self.tries: count, "owner": owner, "expires": expires}

    def retried(self, connection: Connection, n_tries: int) -> dict[str, object]:
        """Return the values of work that has failed `n_tries` times and is tried again, later each time."""
        pause = self.retry_seconds * 2 ** (n_tries - 1)
        return {"state": self.waiting, "not_before": clock_of(connection) + pause}

    def returned(self) -> dict[str, object]:
        """Return the values of work that is put back at once, without counting the try."""
        return {"state": self.waiting, "owner": "", self.tries: self.table.c[self.tries] - 1}

    def expire_dead(self, database: Database) -> None:
        """End the claims of processes of this machine that are known to have ended, so that nobody waits for them."""
        is_running, owner = self.table.c.state == "running", self.table.c.owner
        with database.reading() as connection:
            texts = connection.execute(select(owner).where(is_running).distinct()).scalars().all()
        dead = [text for text in texts if (known := Owner.from_text(text)) is not None and known.is_known_dead]
        if dead:
            with database.writing() as connection:
                connection.execute(update(self.table).where(is_running, owner.in_(dead)).values(expires=0.0))
