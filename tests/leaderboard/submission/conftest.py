"""The stores of these tests, on either database."""

from tests.store.conftest import path, store, url

__all__ = ["path", "store", "url"]
