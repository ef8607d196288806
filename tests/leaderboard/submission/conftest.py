"""The stores of these tests, on either database."""

from tests.store.conftest import path, postgres_server, postgres_url, store, url

__all__ = ["path", "postgres_server", "postgres_url", "store", "url"]
