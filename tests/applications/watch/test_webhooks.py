"""Webhooks of alarms: signed, repeated until accepted, with one id, and to nowhere private unless that is allowed."""

import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch import rounds
from assaymark.applications.watch.alarm_log import AlarmLog
from assaymark.applications.watch.alarms import new_alarm, watch_once
from assaymark.applications.watch.rounds import check_webhook, deliver, keep_watching, signature
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.store import Store
from tests.applications.watch.filling import fill
from tests.applications.watch.test_alarms import BEGAN, N_BASELINE, RATE, drop, helpful

NOW = BEGAN + 10_000
SECRET = "a secret"


class Hook:
    """A server that keeps what it is sent and answers with the statuses that it has, the last one again and again."""

    def __init__(self, statuses: list[int], before: Callable[[], object]) -> None:
        self.statuses, self.requests = statuses, []  # type: ignore[var-annotated]
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.requests.append((dict(self.headers.items()), body))
                before()
                status = hook.statuses.pop(0) if len(hook.statuses) > 1 else hook.statuses[0]
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", f"{hook.url}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def hooked(*statuses: int, before: Callable[[], object] = lambda: None) -> Iterator[Hook]:
    """Serve a hook, which calls `before` before it answers."""
    hook = Hook(list(statuses), before)
    thread = threading.Thread(target=hook.server.serve_forever, daemon=True)
    thread.start()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()


def store_with_alarm(folder: Path, url: str, *, allow_private: bool = True) -> Store:
    """Return a store with an alarm that was raised."""
    return store_with_alarms(folder, url, 1, allow_private=allow_private)


def store_with_alarms(folder: Path, url: str, n: int, *, allow_private: bool = True) -> Store:
    """Return a store with alarms that were raised."""
    store = Store.open(str(folder / "s.sqlite"))
    TraceLog(store).add_project("bot")
    for at in range(n):
        alarm = new_alarm("quality" if not at else f"quality {at}", ["helpful"], RATE, n_baseline=N_BASELINE,
                          webhook=url, secret=SECRET, allow_private=allow_private)  # fmt: skip
        AlarmLog(store).add(1, alarm)
    fill(store, 1, helpful(drop(np.random.default_rng(1))))
    assert len(watch_once(store, NOW)) == n
    return store


def test_a_signed_request_once_accepted(tmp_path: Path) -> None:
    """The body is JSON, signed with the standard library's HMAC over time and body; accepted, it is not repeated."""
    with hooked(204) as hook:
        store = store_with_alarm(tmp_path, f"{hook.url}/alarms")
        (delivery,) = deliver(store, NOW)
        assert delivery.failure == ""
        assert deliver(store, NOW + 1e6) == []
        ((headers, body),) = hook.requests
    fields = dict(part.split("=", 1) for part in headers["assaymark-signature"].split(","))
    expected = hmac.new(SECRET.encode(), fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(fields["v1"], expected)
    assert abs(int(fields["t"]) - time.time()) < 60
    content = json.loads(body)
    assert content["id"] == headers["assaymark-event-id"]
    assert (content["alarm"], content["metric"], content["threshold"]) == ("quality", "helpful", 20_000)
    assert content["text"].startswith("the mean of helpful fell from")
    assert signature("a", 1, b"x") != signature("b", 1, b"x") != signature("b", 2, b"x")


def test_failures_are_repeated_with_growing_pauses_and_one_id(tmp_path: Path) -> None:
    """After a failure the next try is later, each pause twice the last, with the same id, until it is accepted."""
    with hooked(500, 503, 302, 200) as hook:
        store = store_with_alarm(tmp_path, hook.url)
        now, pauses = NOW, []
        for failure in ("status 500", "status 503", "status 302", ""):
            (delivery,) = deliver(store, now)
            assert delivery.failure == failure
            if failure:
                assert deliver(store, now) == []
                pause = next(pause for pause in range(1, 10_000) if AlarmLog(store).due(now + pause))
                pauses.append(pause)
                now += pause
        ids = {headers["assaymark-event-id"] for headers, _ in hook.requests}
        assert len(hook.requests) == 4  # the redirect was not followed
    assert pauses == [10, 20, 40]
    assert len(ids) == 1


def test_a_killed_try_is_repeated(tmp_path: Path) -> None:
    """A watcher that claimed a try and died leaves it to others after a minute; a living one keeps it meanwhile."""
    with hooked(200) as hook:
        store = store_with_alarm(tmp_path, hook.url)
        ((_, event, _),) = AlarmLog(store).due(NOW)
        assert AlarmLog(store).claim_delivery(event, NOW + rounds.CLAIM_SECONDS)
        assert not AlarmLog(store).claim_delivery(event, NOW + rounds.CLAIM_SECONDS)
        assert deliver(store, NOW + 1) == []
        (delivery,) = deliver(store, NOW + rounds.CLAIM_SECONDS + 1)
        assert delivery.failure == ""


def test_private_addresses_are_refused(tmp_path: Path) -> None:
    """Without --allow_private nothing is sent to this machine, by address or by name."""
    with hooked(200) as hook:
        store = store_with_alarm(tmp_path, hook.url.replace("127.0.0.1", "localhost"), allow_private=False)
        (delivery,) = deliver(store, NOW)
        assert "loopback" in delivery.failure
        assert "--allow_private" in delivery.failure
        assert hook.requests == []


def test_a_slow_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends its answer byte by byte is left when the time is over."""
    monkeypatch.setattr(rounds, "TIMEOUT_SECONDS", 1.0)
    is_over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listening.accept()
        with connection:
            for byte in b"HTTP/1.1 200 OK\r\nx: " + b"x" * 1000:
                if is_over.wait(0.3):
                    return
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return

    threading.Thread(target=drip, daemon=True).start()
    store = store_with_alarm(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}")
    began = time.monotonic()
    (delivery,) = deliver(store, NOW)
    is_over.set()
    listening.close()
    assert "no answer within 1 s" in delivery.failure
    assert time.monotonic() - began < 3


def test_webhooks_are_called_side_by_side(tmp_path: Path) -> None:
    """Eight webhooks none of which answers before all have been called are all told, each once."""
    everyone = threading.Barrier(8)
    with hooked(200, before=lambda: everyone.wait(20)) as hook:
        store = store_with_alarms(tmp_path, hook.url, 8)
        deliveries = deliver(store, NOW)
        assert [delivery.failure for delivery in deliveries] == [""] * 8
        assert len({headers["assaymark-event-id"] for headers, _ in hook.requests}) == 8
        assert deliver(store, NOW + 1e6) == []


def test_a_webhook_that_hangs_holds_no_alarm_up(tmp_path: Path) -> None:
    """While a webhook does not answer, the values of another alarm are counted and it is raised."""
    is_called, may_answer, is_raised = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        is_called.set()
        may_answer.wait(300)

    with hooked(200, before=hang) as hook:
        store = store_with_alarms(tmp_path, hook.url, 1)
        TraceLog(store).add_project("other")
        AlarmLog(store).add(2, new_alarm("later", ["helpful"], RATE, n_baseline=N_BASELINE))
        # before anybody looks: values that come after a look at an alarm without any are late
        fill(store, 2, helpful(drop(np.random.default_rng(1))))
        is_over = keep_watching(
            store, 0.05, None, lambda line: is_raised.set() if "ALARM 'later'" in line.text else None
        )
        assert is_called.wait(300)
        assert is_raised.wait(300)
        assert not may_answer.is_set()
        is_over.set()
        may_answer.set()
        for thread in threading.enumerate():
            if thread.name.startswith("alarms"):
                thread.join(30)


def test_nobody_listens(tmp_path: Path) -> None:
    """A refused connection is a failure with its reason, and is tried again; after the last try it is given up."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = store_with_alarm(tmp_path, f"http://127.0.0.1:{port}")
    now = NOW
    for at in range(rounds.MOST_TRIES):
        (delivery,) = deliver(store, now)
        assert "ConnectError" in delivery.failure
        assert delivery.is_last == (at == rounds.MOST_TRIES - 1)
        now += 2 * rounds.LONGEST_PAUSE
    assert deliver(store, now + 1e9) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("example.org", "expected an address such as"),
        ("ftp://example.org/x", "expected an address such as"),
        ("https://user:word@example.org", "has a user or password"),
        ("http://127.0.0.1:9/x", "loopback"),
        ("http://localhost/x", "loopback"),
        ("http://169.254.169.254/latest", "metadata"),
        ("http://[::1]/x", "loopback"),
        ("http://10.1.2.3/x", "private"),
        ("http://example.org:port/x", "expected an address such as"),
        ("https://example.org/\nx", "expected an address such as"),
    ],
)
def test_bad_addresses(tmp_path: Path, url: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Addresses that cannot or must not be called are refused when the alarm is made."""
    with pytest.raises(UsageError, match=message):
        check_webhook(url, allow_private=False)
    location = str(tmp_path / "s.sqlite")
    TraceLog(Store.open(location)).add_project("bot")
    words = ["traces", "alarm", "add", "a", "--metric", "errors", "--false_alarms", RATE, "--store", location]
    assert main([*words, "--webhook", url]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1


def test_the_watcher_calls_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`traces watch --once` sends what is due and says so; the secret is printed once, when the alarm is made."""
    with hooked(200) as hook:
        location = str(tmp_path / "s.sqlite")
        store = Store.open(location)
        TraceLog(store).add_project("bot")
        words = ["traces", "alarm", "add", "a", "--metric", "helpful", "--false_alarms", RATE, "--store", location]
        assert main([*words, "--webhook", hook.url, "--allow_private", "--baseline", "200", "--json"]) == 0
        secret = json.loads(capsys.readouterr().out)["secret"]
        fill(store, 1, helpful(drop(np.random.default_rng(1))))
        assert main(["traces", "watch", "--once", "--store", location]) == 0
        assert "its webhook was told" in capsys.readouterr().out
        ((headers, body),) = hook.requests
        fields = dict(part.split("=", 1) for part in headers["assaymark-signature"].split(","))
        assert fields["v1"] == signature(secret, int(fields["t"]), body).partition("v1=")[2]
        assert main(["traces", "alarm", "list", "--store", location]) == 0
        assert secret not in capsys.readouterr().out


@pytest.mark.slow
def test_a_server_watches_without_being_asked(tmp_path: Path) -> None:
    """`assaymark serve --traces` raises an alarm once, calls its webhook and says so; not with --no_watch_alarms."""
    with hooked(200) as hook:
        location = str(tmp_path / "s.sqlite")
        with Store.open(location) as store:
            TraceLog(store).add_project("bot")
            alarm = new_alarm(
                "a", ["helpful"], RATE, n_baseline=N_BASELINE, webhook=hook.url, secret=SECRET, allow_private=True
            )
            AlarmLog(store).add(1, alarm)
            fill(store, 1, helpful(drop(np.random.default_rng(1))))
        silent = _served(location, "--no_watch_alarms", until="http://", seconds=60)
        assert "ALARM" not in silent
        assert hook.requests == []
        log = _served(location, until="its webhook was told", seconds=60)
        assert log.count("ALARM 'a': the mean of helpful fell") == 1
        assert len(hook.requests) == 1


def _served(location: str, *options: str, until: str, seconds: float) -> str:
    """Run a server until it has printed a text and 2 s longer; return all that it printed."""
    command = [sys.executable, "-m", "assaymark", "serve", "--traces", "--port", "0", "--store", location, *options]
    lines: list[str] = []
    has_said = threading.Event()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as server:

        def read() -> None:
            for line in server.stdout or ():
                lines.append(line)
                if until in line:
                    has_said.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert has_said.wait(seconds), lines
        time.sleep(2)
        server.terminate()
        reader.join()
    return "".join(lines)
