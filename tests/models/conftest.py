"""Fixtures for tests of models: a real server with a real model."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.models.server.openai_server import TestServer


@pytest.fixture(scope="module")
def running() -> "Iterator[TestServer]":
    """Serve the small demo model."""
    from tests.models.server.behind_server import MODEL
    from tests.models.server.openai_server import serving

    with serving(MODEL) as server:
        yield server


@pytest.fixture
def server(running: "TestServer", monkeypatch: pytest.MonkeyPatch) -> "TestServer":
    """Return the server without any fault set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    running.reset()
    return running
