"""A receiver for tests of watching, and a PostgreSQL server for those that need one."""

from tests.applications.traces.conftest import postgres_server, postgres_url, receiver

__all__ = ["postgres_server", "postgres_url", "receiver"]
