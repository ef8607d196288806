"""Hidden runs: what a battle or a held-out prompt set stores exists only for a store that was opened for a reason.

Every look-up of a run by its id or key passes one of these two functions, so that a read that forgets about hidden runs
does not find them.
"""

from sqlalchemy import ColumnElement, Connection, true

from assaymark.store.schema import runs

__all__ = ["sees_hidden", "shown_runs"]


def sees_hidden(connection: Connection) -> bool:
    """Return whether the connection is of a store that was opened for a reason to read hidden runs."""
    return bool(connection.get_execution_options().get("assaymark_sees_hidden", False))


def shown_runs(connection: Connection) -> ColumnElement[bool]:
    """Return the condition that a row of `runs` may be read: it is public, or the store was opened to read all."""
    return true() if sees_hidden(connection) else runs.c.visibility.is_(None)
