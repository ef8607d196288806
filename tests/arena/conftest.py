"""The stores of these tests, on either database."""

from tests.store.conftest import file_store, path, store, url

__all__ = ["file_store", "path", "store", "url"]
