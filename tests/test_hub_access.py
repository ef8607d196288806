"""The Hub is tried once and briefly, before its library retries for half a minute."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from assaymark import hub_access
from tests.conftest import ROOT

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the machine's proxy, and every cached result."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    hub_access._is_reachable.cache_clear()


def test_a_hub_that_accepts_a_connection_is_reachable_however_slow_it_answers() -> None:
    """A server that never responds is left to the Hub's library; one that does not exist is reported at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert hub_access._is_reachable(f"http://127.0.0.1:{port}", 0)
    assert not hub_access._is_reachable(f"http://127.0.0.1:{port}", 1)


def test_the_proxy_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy the Hub's own address need not be known to any name server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{server.getsockname()[1]}")
        assert hub_access._is_reachable("https://hub.invalid", 0)
        monkeypatch.setenv("no_proxy", "hub.invalid")
        assert not hub_access._is_reachable("https://hub.invalid", 1)


def test_a_name_server_that_does_not_respond_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result comes in time even while the system still resolves the name."""
    asked_long_enough = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        asked_long_enough.wait(60)
        return []

    monkeypatch.setattr(hub_access, "CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    assert not hub_access._is_reachable("https://hub.invalid", 0)
    assert not asked_long_enough.is_set()
    asked_long_enough.set()


def test_offline_applies_inside_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub's library is offline during one look-up, and unchanged afterwards."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with hub_access.hub_or_cache():
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE


def test_missing_data_without_a_network_is_one_line(tmp_path: Path) -> None:
    """There is no wait for retries: the line states that the Hub cannot be reached and names the data folder."""
    pytest.importorskip("datasets")
    unset = {"HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", *PROXIES}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "assaymark", "run", "--model", "fake", "--tasks", "sciq", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "the Hub cannot be reached" in done.stderr
    assert "--data_dir DIR" in done.stderr
