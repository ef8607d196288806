"""The stores of these tests: each a file, or a database of the session's PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assaymark.store import Store
from assaymark.store.connection import Database
from tests.conftest import CREATE_FILE


@pytest.fixture(autouse=True)
def created_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create files by the store's own statements."""
    monkeypatch.setattr(Database, "_prepare_file", CREATE_FILE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a path for a new store."""
    return tmp_path / "store.sqlite"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a new store: a file that does not exist yet, or a database with empty tables."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("path"))
    return str(request.getfixturevalue("postgres_store"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Return a new store on either database."""
    with Store.open(url) as opened:
        yield opened


@pytest.fixture
def file_store(path: Path) -> Iterator[Store]:
    """Return a new store in a file."""
    with Store.open(str(path)) as opened:
        yield opened
