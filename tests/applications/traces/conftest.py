"""A receiver for tests of traces, and stores on either database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.proto", reason="the extra `traces` is not installed")
pytest.importorskip("uvicorn")

from tests.applications.traces.sending import Receiver, receiving
from tests.store.conftest import path, url

__all__ = ["path", "url"]


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """Return a server with an empty project."""
    with receiving(tmp_path / "traces.sqlite") as result:
        yield result
