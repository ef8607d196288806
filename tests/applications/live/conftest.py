"""A store with a project for tests of live monitoring, and a server over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.proto", reason="the extra `traces` is not installed")

from tests.applications.live.live_traces import Live


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """Return an open store with the project `bot`."""
    with Live.open(str(tmp_path / "live.sqlite")) as opened:
        yield opened
