"""The database's clock, by which leases and jobs are timed: machines that share a store need not agree on the time."""

from typing import Any

from sqlalchemy import Connection, literal_column, select

__all__ = ["clock_of", "now"]

_CLOCKS: dict[str, Any] = {
    "sqlite": literal_column("(julianday('now') - 2440587.5) * 86400.0"),
    "postgresql": literal_column("extract(epoch FROM clock_timestamp())::float8"),
}


def clock_of(connection: Connection) -> Any:
    """Return the expression of the database's time. Units: seconds since 1970."""
    return _CLOCKS[connection.dialect.name]


def now(connection: Connection) -> float:
    """Return the database's time. Units: seconds since 1970."""
    return float(connection.execute(select(clock_of(connection))).scalar_one())
