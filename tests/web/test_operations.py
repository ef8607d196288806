"""What operators need: /health, /ready, robots.txt, metrics and the log of requests, of a real server."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import StoreError, UsageError
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun
from assaymark.web.app import create_app
from assaymark.web.operations import metrics_address
from tests.served import running


class Losing(Site):
    """A site whose store goes away."""

    is_lost = False

    def stored_runs(self) -> list[StoredRun]:
        """Return no run, or fail."""
        if self.is_lost:
            raise StoreError("cannot connect to postgresql://board@db.internal:5432/runs")
        return []


def test_a_server_is_alive_without_its_store_and_ready_only_with_it() -> None:
    """Both are answered under any host name, as load balancers ask, and tell nothing of the store."""
    site = Losing([])
    with running(create_app([board_feature(site)])) as url:
        for path in ("/health", "/ready"):
            answer = httpx.get(url + path, headers={"host": "10.1.2.3:7500"})
            assert (answer.status_code, answer.text) == (200, "ok\n")
            assert answer.headers["cache-control"] == "no-store"
            assert httpx.head(url + path).content == b""
        site.is_lost = True
        assert httpx.get(f"{url}/health").status_code == 200
        answer = httpx.get(f"{url}/ready")
        assert answer.status_code == 503
        assert answer.text == "the store cannot be used now\n"
        assert httpx.get(f"{url}/robots.txt").text.startswith("User-agent: *\nDisallow: /api/\n")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_requests_are_counted_and_logged(tmp_path: Path, form: str) -> None:
    """`--metrics` counts by pattern, not by what visitors type; `--access_log` has a line for each."""
    place = str(tmp_path / "runs.sqlite")
    run = assaymark.evaluate("fake", "demo_facts", limit=10, store=place)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "assaymark", "serve", "--port", "0", "--store", place]
    command += ["--access_log", form, "--metrics", str(port), "--proxy", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        url = address[0].rstrip("/")
        try:
            visitor = {"x-forwarded-for": "203.0.113.9", "user-agent": 'a "b" \x1b[31m'}
            for path in (f"/run/{run.id}", "/nothing%0d%0aGET", f"/run/{run.id}", "/health"):
                httpx.get(url + path, headers=visitor, timeout=20)
            metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
            assert httpx.get(f"{url}/metrics").status_code == 404
        finally:
            server.terminate()
        lines = server.stdout.read().splitlines()
    assert re.search(r'assaymark_requests_total\{method="GET",route="/run/\{[^"]+",status="200"\} 2\.0', metrics)
    assert 'route="none",status="404"} 1.0' in metrics
    assert "nothing" not in metrics
    assert "assaymark_request_seconds_bucket" in metrics
    assert "process_resident_memory_bytes" in metrics
    logged = lines[:3]  # without /health, which is asked every few seconds
    if form == "json":
        records = [json.loads(line) for line in logged]
        assert [record["status"] for record in records] == [200, 404, 200]
        assert {record["client"] for record in records} == {"203.0.113.9"}
        assert records[0]["bytes"] > 1000
        assert records[1]["path"] == "/nothing%0d%0aGET"
    else:
        assert [line.split()[4] for line in logged] == ["200", "404", "200"]
        assert all(line.split()[1] == "203.0.113.9" for line in logged)
        assert "\x1b" not in "".join(lines)


def test_addresses_of_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    """A port alone is this machine's; what names none is refused before anything is opened."""
    assert metrics_address("9100") == ("127.0.0.1", 9100)
    assert metrics_address("[::1]:9100") == ("::1", 9100)
    assert metrics_address("0.0.0.0:9100") == ("0.0.0.0", 9100)
    for text in ("", "x", "host:", "1:70000"):
        with pytest.raises(UsageError, match="expected PORT or ADDRESS:PORT"):
            metrics_address(text)
    assert main(["serve", "--metrics", "nine"]) == 2
    assert "--metrics 'nine'" in capsys.readouterr().err
