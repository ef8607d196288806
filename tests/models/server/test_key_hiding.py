"""A server's key appears only in requests, whatever the server repeats, and wherever it truncates it."""

import itertools
import json
import logging
import shutil
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.errors import ModelUnavailable, UsageError
from assaymark.models.server.failures import KeyHider
from assaymark.runs.evaluate import evaluate
from assaymark.runs.run import Run
from assaymark.store import Store
from tests.conftest import ROOT
from tests.models.server.hostile_server import HostileServer, Reply, completion, hostile

KEY = "secret123-Zq7/x.Y"
HEADS = ("secret", "Zq7/x")  # the key's beginning, and the beginning of its rest


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """Run a server with a key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with hostile() as running:
        yield running


def replies_with(key: str) -> list[Reply]:
    """Return responses that repeat a key in every possible way: whole, in parts, escaped, and truncated."""
    tool = {"function": {"name": key, "arguments": json.dumps({key: f"x{key}"})}}
    whole = completion(f"It is {key}!", reasoning_content=f"key {key[:12]}", tool_calls=[tool])
    assert isinstance(whole.body, bytes)
    parts = {"message": {"content": [{"text": key[:3]}, {"text": key[3:]}]}, "finish_reason": key[:9]}
    return [
        whole,
        Reply(whole.body.replace(b"secret", b"\\u0073ecret").replace(b"/", b"\\/")),
        Reply(json.dumps({"choices": [parts]}).encode()),
        *(Reply(json.dumps({"error": {"message": "x" * n + key}}).encode(), 400) for n in (292, 290, 284)),
        Reply(json.dumps({"error": {"detail": [key, {key: key[:8]}]}}).encode(), 422),
        Reply(f"{'x' * 70}{key} is not JSON".encode()),
        Reply(json.dumps({"error": f"{'x' * 190}{key}"}).encode()),
        Reply(b"x", headers={"Content-Encoding": f"{'x' * 30}{key}"}),
        Reply(f"cut: {key[:7]}... and {key[:6]}".encode(), 400),
        Reply(f"{' ' * 65530}{key}".encode(), 400),
    ]


def arguments(server: HostileServer) -> dict[str, Any]:
    """Return the model's arguments."""
    return {"model": "m", "base_url": f"{server.url}/chat/completions", "max_retries": 1}


def run_of(server: HostileServer) -> Run:
    """Return a run in which each answer repeats the key."""
    numbers = itertools.count()

    def echo(_: Any, headers: Mapping[str, str]) -> Reply:
        key = headers["authorization"].removeprefix("Bearer ")
        replies = replies_with(key)
        reply = replies[next(numbers) % len(replies)]
        return Reply(reply.body, reply.status, {"X-Echo": key, "Retry-After": key, **reply.headers})

    server.answer = echo
    server.models = Reply(json.dumps({"data": [{"id": f"{'x' * 92}{KEY}"}, {"id": KEY}]}).encode())
    args = arguments(server)
    return evaluate("local-chat-completions", "demo_sums", model_args=args, limit=24, apply_chat_template=True)


def stored_texts(store: Store) -> Iterator[str]:
    """Yield every value of every table as text, decompressed if the store compressed it."""
    for row in store.runs():
        yield repr(row)
        yield repr(store.attempts(row.run_id))
        for task in row.tasks:
            yield from map(repr, store.samples(row.run_id, task))


def test_a_key_is_nowhere_in_stored_data(
    server: HostileServer, own_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither store, log, report, table nor export contains the key, or 6 characters of its beginning."""
    caplog.set_level("DEBUG")
    run = run_of(server)
    kinds = {output.error_kind for record in run.samples("demo_sums") for output in record.outputs}
    assert {None, "RequestRefused", "MalformedAnswer"} <= kinds
    kept = [*stored_texts(run.store), *run.remarks(), str(run), json.dumps(run.to_json(), default=str)]
    reports = [run.write_report(tmp_path / f"report.{ending}") for ending in ("html", "md")]
    reports += run.write_lm_eval_files(tmp_path / "lm", log_samples=True)
    for name in ("run.assaymark", "run.csv", "run.json", "run.yaml", "run.md"):
        assert main(["export", run.id, "-o", str(tmp_path / name)]) == 0
    kept += [path.read_text("utf-8") for path in (*reports, *tmp_path.glob("run.[cjym]*"))]
    run.store.close()
    for path in (own_home / "store.sqlite", tmp_path / "run.assaymark"):
        with closing(sqlite3.connect(path)) as database:
            kept += list(database.iterdump())
    shutil.copy(tmp_path / "run.assaymark", tmp_path / "copy")
    with Store.open(str(tmp_path / "copy")) as exported:
        kept += list(stored_texts(exported))
    kept.append(caplog.text)
    assert any("(key)" in text for text in kept)
    assert [head for head in HEADS for text in kept if head in text] == []


def test_an_answer_that_contained_the_key_is_counted(server: HostileServer) -> None:
    """Replacements in answers are recorded with the run, since they may change scores."""
    run = run_of(server)
    described: Any = run.attempts()[0]["summary"]
    assert described["model"]["responses_with_key"] >= 3


@pytest.mark.parametrize("status", [401, 404, 302])
def test_an_error_that_ends_the_run_has_no_key_in_its_traceback(server: HostileServer, status: int) -> None:
    """The chain of exceptions, with all objects in it, is free of the key."""
    server.models = Reply(b"{}")
    server.answer = lambda _, __: Reply(f"{'x' * 290}{KEY}".encode(), status, {"Location": KEY})
    with pytest.raises(ModelUnavailable) as caught:
        evaluate("local-chat-completions", "demo_sums", model_args=arguments(server), limit=1, apply_chat_template=True)
    report = "".join(traceback.TracebackException.from_exception(caught.value).format())
    assert "(key)" in report
    assert not any(head in report for head in HEADS)


def test_a_refused_key_is_not_shown_by_the_command(server: HostileServer, tmp_path: Path) -> None:
    """A refused list of models with the key at the limit gives one line without it, in its own process."""
    server.models = Reply(f"{'x' * 191}{KEY}".encode(), 401, {"X-Echo": KEY})
    words = ",".join(f"{name}={value}" for name, value in arguments(server).items())
    command = [sys.executable, "-m", "assaymark", "run", "--model", "local-chat-completions", "--model_args", words,
               "--tasks", "demo_sums", "--apply_chat_template", "--store", str(tmp_path / "s.db")]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "refuses access (401)" in done.stderr
    assert not any(head in done.stdout + done.stderr for head in HEADS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a abcdefgh-9 b", "a (key) b"),
        ("xabcdefgh-9x", "x(key)x"),
        ("it was abcdef", "it was (key)"),
        ("it was abcdefg... so", "it was (key)... so"),
        ("abcdefgh-", "(key)"),
        ("abcde", "abcde"),
        ("abcdefx and abcdefgx", "abcdefx and abcdefgx"),
        ("abcdefabcdefgh-9abcdefgh", "abcdef(key)(key)"),
        ("", ""),
    ],
)
def test_whole_and_partial_keys_are_hidden(text: str, expected: str) -> None:
    """A whole key is hidden anywhere; its beginning, from 6 characters, at a word's end; other words stay."""
    assert KeyHider(("abcdefgh-9",)).text(text) == expected


def test_a_placeholder_key_is_not_a_secret() -> None:
    """A placeholder set for servers without keys is not removed from answers."""
    assert KeyHider(("EMPTY", "none", "")).text("EMPTY or none") == "EMPTY or none"


def test_keys_in_json_are_found_however_they_are_escaped() -> None:
    """The quick check of the text never misses a key that the visit of the value would hide."""
    for key in ('ab"\\/cde', "abcdefgh", "a/bcdefg"):
        hider = KeyHider((key,))
        for text in (json.dumps({key: [key]}), json.dumps([key]).replace("/", "\\/"),
                     json.dumps("".join(f"\\u{ord(sign):04x}" for sign in key)).replace("\\\\u", "\\u")):  # fmt: skip
            assert hider.may_be_in(text)
            assert key not in json.dumps(hider.value(json.loads(text)))
    assert not KeyHider(("abcdefgh",)).may_be_in(json.dumps({"text": "nothing here"}))


def test_logs_are_unfiltered_after_a_call(server: HostileServer) -> None:
    """The filters that remove the key are removed again."""
    run_of(server)
    names = ("httpx", "httpcore.http11", "httpcore.connection")
    assert [len(logging.getLogger(name).filters) for name in names] == [0, 0, 0]


@pytest.mark.parametrize("key", ["schlüssel-1", "two\nlines1"])
def test_a_key_that_is_not_a_header_value_is_refused_without_showing_it(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A key with other than printable ASCII is one error with the variable's name; space around a key is not sent."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UsageError, match="OPENAI_API_KEY contains a character") as caught:
        run_of(server)
    assert key[:6] not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    assert run_of(server).row.n_outputs == 24
