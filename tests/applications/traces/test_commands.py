"""`assaymark traces` and `assaymark serve --traces`, as a user calls them."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.applications.traces.serving import Retention, keep_pruning
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceFilter
from assaymark.applications.watch.quality import QualityQuery, quality_of
from assaymark.cli.main import main
from assaymark.store import Store
from tests.applications.traces.sending import TRACE, Receiver, receiving, request, span

PAID = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 0}  # fmt: skip


@contextmanager
def served(*options: str) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """Run `assaymark serve --traces`; give its address, its token ("" where it made none), and the process."""
    command = [sys.executable, "-m", "assaymark", "serve", "--traces", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    if process.stdout is None:
        raise RuntimeError("the process has no output")
    try:
        token = ""
        for line in process.stdout:
            token = result[0] if (result := re.findall(r"asm_[\w-]+", line)) else token
            if address := re.findall(r"http://\S+?(?=/?(?:\s|$))", line):
                yield address[0], token, process
                break
        else:
            pytest.fail("the server did not start")
    finally:
        process.kill()
        process.wait(20)


BATCH = 4  # spans


def batch(number: int) -> str:
    """Return a request with a call in a trace of its own, and more spans in one that all requests share."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10, "input.value": f"word{number}"}
    shared = [span(BATCH * number + more, name="shared", attributes=attributes) for more in range(BATCH - 1)]
    own = span(BATCH * number + BATCH - 1, trace=f"{number:032x}", name="own", attributes=attributes)
    return json.dumps(request(own, *shared))


def spans_of(place: str, numbers: set[int]) -> tuple[set[int], set[int]]:
    """Return which requests are stored by their spans in the shared trace, and which by their own trace."""
    with Store.open(place) as store:
        project = TraceLog(store).project_id("default")
        shared = {int(row.span_id.hex(), 16) for row in TraceLog(store).spans(project, bytes.fromhex(TRACE))}
        own = {number for number in numbers if TraceLog(store).spans(project, bytes.fromhex(f"{number:032x}"))}
    complete = {number for number in numbers if {BATCH * number + more for more in range(BATCH - 1)} <= shared}
    assert {number // BATCH for number in shared} == complete  # a request is stored whole, or not at all
    return complete, own


@pytest.mark.slow
def test_a_killed_receiver_loses_and_doubles_nothing(url: str) -> None:
    """After kill -9 while requests are in progress, what was acknowledged is there; sent again, each is there once."""
    headers = {"content-type": "application/json"}
    acknowledged: set[int] = set()
    unanswered: set[int] = set()
    sent: set[int] = set()

    def send_until_killed(address: str, first: int) -> None:
        with httpx.Client(base_url=address, headers=headers, timeout=30) as client:
            for number in [*sorted(unanswered)[first % 3 :: 3], *range(first, first + 10_000)]:
                sent.add(number)
                try:
                    answer = client.post("/v1/traces", content=batch(number))
                except httpx.TransportError:
                    unanswered.add(number)
                    return
                if answer.status_code == 200:
                    acknowledged.add(number)
                    unanswered.discard(number)
                else:
                    assert answer.status_code == 503  # the sender would try again
                    unanswered.add(number)

    n_unanswered = 0
    for attempt in range(1, 3):
        with served("--store", url) as (address, token, process):
            headers.setdefault("authorization", f"Bearer {token}")
            n_before = len(acknowledged)
            firsts = [attempt * 100_000 + 10_000 * at + at for at in range(3)]
            senders = [threading.Thread(target=send_until_killed, args=(address, first)) for first in firsts]
            for sender in senders:
                sender.start()
            deadline = time.monotonic() + 60
            while len(acknowledged) < n_before + 25:
                assert time.monotonic() < deadline, "nothing is acknowledged"
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)  # while requests are in progress
            for sender in senders:
                sender.join(60)
        shared, own = spans_of(url, sent)
        assert acknowledged <= shared == own
        n_unanswered += len(unanswered)
    assert n_unanswered > 0
    with served("--store", url) as (address, _, _), httpx.Client(base_url=address, headers=headers) as client:
        for number in sorted(unanswered | set(sorted(acknowledged)[::3])):  # some answers were lost on their way
            assert client.post("/v1/traces", content=batch(number)).json() == {}
        everything = unanswered | acknowledged
        assert spans_of(url, sent) == (everything, everything)
    with Store.open(url) as store:
        project = TraceLog(store).project_id("default")
        row = TraceLog(store).trace(project, bytes.fromhex(TRACE))
        assert (row.n_spans, row.n_input) == ((BATCH - 1) * len(everything), 10 * (BATCH - 1) * len(everything))
        assert all(each.n_conflicts == 0 for each in TraceLog(store).spans(project, bytes.fromhex(TRACE)))
        for number in everything:
            own_row = TraceLog(store).trace(project, bytes.fromhex(f"{number:032x}"))
            assert (own_row.n_spans, own_row.n_input) == (1, 10)
        listed = TraceLog(store).traces(project, TraceFilter(text=f"word{min(everything)}")).traces
        assert {each.trace_id.hex() for each in listed} == {TRACE, f"{min(everything):032x}"}
        assert store.verify() == []


@pytest.mark.slow
def test_a_first_server_makes_a_project_and_receives(tmp_path: Path) -> None:
    """The first server prints a token with which spans are stored; later ones know it."""
    place = str(tmp_path / "traces.sqlite")
    with served("--store", place) as (url, token, _):
        headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        assert httpx.post(f"{url}/v1/traces", content=batch(1), headers=headers, timeout=30).json() == {}
    with served("--store", place) as (url, other, _):
        assert other == ""
        assert httpx.post(f"{url}/v1/traces", content=batch(2), headers=headers, timeout=30).json() == {}
    assert spans_of(place, {1, 2, 3}) == ({1, 2}, {1, 2})


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[str, Receiver]]:
    """Return a store with three traces, and its receiver."""
    place = tmp_path / "traces.sqlite"
    with receiving(place) as receiver:
        receiver.send(span(1, name="first", seconds=4), span(2, 1, name="call", attributes={**PAID, "user.id": "ada"}))
        status = {"code": 2, "message": "no such document"}
        receiver.send(span(1, trace="02" * 16, name="second", start=5, status=status))
        receiver.send(span(1, trace="03" * 16, name="third", start=9, attributes={"input.value": "a rare word"}))
        yield str(place), receiver


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run a command with --json; return what it printed."""
    assert main(["traces", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_lists_and_filters(kept: tuple[str, Receiver], capsys: pytest.CaptureFixture[str]) -> None:
    """The list has the latest trace first, and each filter keeps what it names."""
    place, _ = kept
    cases = [
        ([], ["third", "second", "first"]),
        (["--error"], ["second"]),
        (["--slower", "3"], ["first"]),
        (["--model", "gpt-4o"], ["first"]),
        (["--model", "gpt-4"], []),
        (["--user", "ada"], ["first"]),
        (["--dearer", "0.001"], ["first"]),
        (["--text", "rare word"], ["third"]),
        (["--text", '"word rare"'], []),
        (["--version", "1.2", "--limit", "2"], ["third", "second"]),
        (["--version", "1.3"], []),
    ]
    for words, names in cases:
        result = printed(capsys, "ls", "--store", place, *words)
        assert [trace["name"] for trace in result] == names, words
    first = printed(capsys, "ls", "--store", place, "--user", "ada")[0]
    assert (first["cost"], first["input_tokens"], first["spans"]) == (0.0025, 1000, 2)
    assert main(["traces", "ls", "--store", place]) == 0
    assert "second" in capsys.readouterr().out


def test_a_trace_in_the_terminal(kept: tuple[str, Receiver], capsys: pytest.CaptureFixture[str]) -> None:
    """`show` has the steps as a tree, by the id or its first digits; other ids are refused in a line."""
    place, _ = kept
    steps = printed(capsys, "show", TRACE[:8], "--store", place)
    assert [(step["name"], step["kind"], step["depth"]) for step in steps] == [("first", "span", 0), ("call", "llm", 1)]
    assert main(["traces", "show", TRACE, "--store", place]) == 0
    assert "  call" in capsys.readouterr().out
    assert main(["traces", "show", "ff" * 16, "--store", place]) == 2
    assert main(["traces", "show", "f", "--store", place]) == 2


def test_an_export_can_be_received(kept: tuple[str, Receiver], tmp_path: Path) -> None:
    """What `export` writes as OTLP is accepted by the receiver, as the same bytes; JSON lines have a step each."""
    place, receiver = kept
    file = tmp_path / "out.json"
    assert main(["traces", "export", "-o", str(file), "--store", place]) == 0
    other = TraceLog(receiver.store).add_project("copy")
    headers = {"authorization": f"Bearer {other}", "content-type": "application/json"}
    answer = httpx.post(f"{receiver.url}/v1/traces", content=file.read_bytes(), headers=headers)
    assert answer.json() == {}
    number = TraceLog(receiver.store).project_id("copy")
    for trace in (TRACE, "02" * 16, "03" * 16):
        copies = TraceLog(receiver.store).spans(number, bytes.fromhex(trace))
        originals = TraceLog(receiver.store).spans(receiver.project, bytes.fromhex(trace))
        assert [(row.body, row.source) for row in copies] == [(row.body, row.source) for row in originals]
    words = ["traces", "export", "-o", str(file), "--format", "jsonl", "--store", place, "--project", "bot"]
    assert main(words) == 0
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["first", "call", "second", "third"]


def test_pruning(kept: tuple[str, Receiver], capsys: pytest.CaptureFixture[str]) -> None:
    """`prune` removes by age and by size, the oldest first, with their place in the text index."""
    place, receiver = kept
    assert main(["traces", "prune", "--store", place]) == 2
    assert main(["traces", "prune", "--older_than", "1", "--store", place]) == 0
    assert len(printed(capsys_after(capsys), "ls", "--store", place)) == 3
    newest = TraceLog(receiver.store).trace(receiver.project, bytes.fromhex("03" * 16))
    (size,) = [each.n_bytes for each in TraceLog(receiver.store).projects()]
    assert main(["traces", "prune", "--keep_mib", str(size * 0.5 / 2**20), "--store", place]) == 0
    left = printed(capsys_after(capsys), "ls", "--store", place)
    assert [trace["trace_id"] for trace in left][:1] == [newest.trace_id.hex()]
    assert len(left) < 3
    assert main(["traces", "prune", "--older_than", "0", "--store", place]) == 0
    assert printed(capsys_after(capsys), "ls", "--store", place) == []
    assert printed(capsys, "ls", "--store", place, "--text", "rare") == []


def capsys_after(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """Forget what was printed so far."""
    capsys.readouterr()
    return capsys


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences and markup in spans are printed as text by every command."""
    place = tmp_path / "traces.sqlite"
    hostile = "\x1b[2J\x1b]0;owned\x07 [red]markup[/red]"
    with receiving(place) as receiver:
        attributes = {"openinference.span.kind": "LLM", "llm.model_name": hostile, "session.id": hostile}
        status = {"code": 2, "message": hostile}
        receiver.send(
            span(1, name=hostile, attributes=attributes, status=status), resource={"service.version": hostile}
        )
    for words in (["ls"], ["ls", "--json"], ["show", TRACE], ["show", TRACE, "--json"]):
        assert main(["traces", *words, "--store", str(place)]) == 0
        out = capsys.readouterr().out
        assert ("\x1b" in out, "\x07" in out, "[red]" in out) == (False, False, True), words


def test_retention_while_serving(kept: tuple[str, Receiver]) -> None:
    """A server with a limit of age or size removes what is more, and keeps on while it runs."""
    _, receiver = kept
    retention = Retention.of(1e-9, None)
    assert retention is not None
    is_over = keep_pruning(receiver.store, retention, every_seconds=0.05)
    deadline = time.monotonic() + 30
    try:
        for number in (8, 9):
            receiver.send(span(1, trace=f"{number:032x}", name="late", start=number))
            while TraceLog(receiver.store).projects()[0].n_traces:
                assert time.monotonic() < deadline, "nothing was removed"
                time.sleep(0.02)
    finally:
        is_over.set()
    assert Retention.of(None, None) is None


def test_projects_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A token is printed once and only its hash is stored; a project is removed with all that it has."""
    place = str(tmp_path / "traces.sqlite")
    token = printed(capsys, "project", "add", "bot", "--store", place)["token"]
    assert main(["traces", "project", "add", "bot", "--store", place]) == 2
    other = printed(capsys_after(capsys), "project", "token", "bot", "--write_only", "--store", place)["token"]
    assert not any(secret.encode() in (tmp_path / "traces.sqlite").read_bytes() for secret in (token, other))
    with Store.open(place) as store:
        known = [TraceLog(store).token(each) for each in (token, other, "asm_x")]
    assert [None if each is None else each.scope for each in known] == ["all", "write", None]
    assert [each["name"] for each in printed(capsys, "project", "list", "--store", place)] == ["bot"]
    assert main(["traces", "project", "remove", "nothing", "--yes", "--store", place]) == 2
    assert main(["traces", "project", "remove", "bot", "--yes", "--store", place]) == 0
    assert printed(capsys_after(capsys), "project", "list", "--store", place) == []
    assert main(["serve", "--redact", "email", "--store", place]) == 2


def test_a_clock_that_runs_backwards_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A span that ended before it began has no duration anywhere, least of all a negative one, but a mark."""
    place = tmp_path / "clocks.sqlite"
    with receiving(place) as receiver:
        receiver.send(span(1, name="root", seconds=-3))
        receiver.send(span(1, trace="02" * 16, name="fine", seconds=2), span(2, 1, trace="02" * 16, seconds=-1))
        with receiver.client as client:
            listed = {each["name"]: each for each in client.get("/traces.json").json()["traces"]}
            assert (listed["root"]["seconds"], listed["root"]["clock_fault"]) == (None, True)
            assert (listed["fine"]["seconds"], listed["fine"]["clock_fault"]) == (2.0, False)
            text = client.get("/traces").text
            assert text.count(">clock</span>") == 1
            page = client.get(f"/trace/{TRACE}").text
            assert ">clock</span>" in page
            assert "its clock runs backwards" in page
            inner = client.get(f"/trace/{'02' * 16}").text
            assert ">clock</span>" not in inner
            assert "its clock runs backwards" in inner
            assert not re.search(r">-\d", text + page + inner)
    for words in (["ls"], ["show", TRACE]):
        assert main(["traces", *words, "--store", str(place)]) == 0
        output = capsys.readouterr().out
        assert re.search(r"root .* clock ", output)
        assert "-3.0" not in output


@pytest.mark.parametrize("clock", [{"startTimeUnixNano": "0"}, {"endTimeUnixNano": str(2**64 - 1)}])
def test_no_trace_takes_fifty_years(tmp_path: Path, capsys: pytest.CaptureFixture[str], clock: dict[str, str]) -> None:
    """A span without a start, or with an end far in the future, has no duration in lists, filters and charts."""
    place = tmp_path / "clocks.sqlite"
    with receiving(place) as receiver:
        receiver.send({**span(1, name="root"), **clock})
        receiver.send(span(1, trace="02" * 16, name="fine", seconds=2))
        log = TraceLog(receiver.store)
        by_duration = log.traces(receiver.project, TraceFilter(), order="took").traces
        assert [(row.name, row.seconds, row.has_clock_fault) for row in by_duration] == [
            ("fine", 2.0, False), ("root", None, True),
        ]  # fmt: skip
        slow = log.traces(receiver.project, TraceFilter(least_seconds=1.0)).traces
        assert [row.name for row in slow] == ["fine"]
        results = quality_of(receiver.store, QualityQuery("1", "day").window(receiver.project))
        (latency,) = (each for each in results.metrics if each.key == "latency")
        assert [point.value for each in latency.series for point in each.points] == [2.0]
        with receiver.client as client:
            assert "its clock cannot be right" in client.get(f"/trace/{TRACE}").text
    assert main(["traces", "ls", "--store", str(place)]) == 0
    assert re.search(r"root .* clock ", capsys.readouterr().out)


def test_of_several_projects_one_has_to_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a second project, commands name both and the option that chooses; a wrong name gets the nearest ones."""
    place = str(tmp_path / "two.sqlite")
    with Store.open(place) as store:
        TraceLog(store).add_project("bot")
    assert main(["traces", "ls", "--store", place]) == 0
    with Store.open(place) as store:
        TraceLog(store).add_project("guide")
    capsys.readouterr()
    for command in (["ls"], ["quality"], ["alarm", "list"]):
        assert main(["traces", *command, "--store", place]) == 2
        assert capsys.readouterr().err == "error: there are 2 projects (bot, guide); name one with --project\n"
        assert main(["traces", *command, "--store", place, "--project", "guide"]) == 0
        capsys.readouterr()
    assert main(["traces", "ls", "--store", place, "--project", "guid"]) == 2
    assert re.search("unknown project 'guid'; nearest: .*guide", capsys.readouterr().err)
