"""Targets that are files, modules, objects, commands and HTTP endpoints."""

import functools
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.applications.processes import CommandTarget
from assaymark.errors import ModelUnavailable, UsageError
from tests.http_servers import JsonHandler, LoopbackServer, serving

ROWS = [{"inputs": {"question": "2+2?"}, "expected": "4"}, {"inputs": {"question": "3+3?"}, "expected": "6"}]


def run_of(target: Any, rows: Any = ROWS, **options: Any) -> assaymark.Run:
    """Evaluate with the scorer `exact`, unless others are given."""
    return assaymark.evaluate(target, rows, **{"scorers": ["exact"], **options})


def value_of(run: assaymark.Run) -> float | None:
    """Return the share of right answers."""
    return run.estimate("rows", "exact").value


class Bot:
    """An application with a state."""

    def __init__(self, answer: str = "4") -> None:
        self.answer = answer
        self.n_called = 0

    def __call__(self, inputs: dict[str, str]) -> str:
        """Answer."""
        self.n_called += 1
        return self.answer

    async def later(self, inputs: dict[str, str]) -> str:
        """Answer later."""
        return self.answer


class AsyncBot:
    """An application whose calls are awaited."""

    async def __call__(self, inputs: dict[str, str]) -> str:
        """Answer."""
        return "6"


def with_model(model: str, inputs: dict[str, str]) -> str:
    """Answer with a model's name."""
    return model


@pytest.mark.parametrize("target", [Bot, Bot(), Bot().later, AsyncBot, AsyncBot(), functools.partial(with_model, "4")])
def test_objects_and_classes_are_called(target: Any) -> None:
    """A class is constructed; objects, methods and partial functions are called, awaited where they have to be."""
    assert value_of(run_of(target)) == 0.5


def test_what_an_object_holds_is_part_of_its_identity() -> None:
    """Two objects of a class with other values are two runs; what its methods change while it runs does not count."""
    first = Bot("4")
    run = run_of(first)
    assert first.n_called == 2
    assert run_of(first).id == run.id
    assert first.n_called == 2
    assert run_of(Bot("6")).id != run.id


def test_a_file_and_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`FILE.py:NAME` and `module:name` are imported; modules beside the file can be imported by it."""
    (tmp_path / "knowledge.py").write_text("ANSWERS = {'2+2?': '4', '3+3?': '6'}\n", encoding="utf-8")
    source = "from knowledge import ANSWERS\nclass App:\n    def answer(question):\n        return ANSWERS[question]\n"
    (tmp_path / "an_app.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    by_file, by_module = run_of("an_app.py:App.answer"), run_of("an_app:App.answer")
    assert value_of(by_file) == value_of(by_module) == 1.0
    assert by_file.id == by_module.id  # the same source
    assert by_file.row.model == "an_app.py:App.answer"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def answer(:", "cannot be imported: SyntaxError"),
        ("import no_such_module_at_all", "cannot be imported: ModuleNotFoundError"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit"),
        ("answer = 3", "is 3; expected a function"),
        ("class answer:\n    def __init__(self, x): pass", "is a class that needs arguments"),
        ("def answer(inputs):\n    yield 1", "is a generator; expected a function that returns its whole answer"),
    ],
)
def test_a_file_that_cannot_be_called_is_refused(tmp_path: Path, source: str, message: str) -> None:
    """The error says what is wrong with it, in one line."""
    path = tmp_path / "broken.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as raised:
        run_of(f"{path}:answer")
    assert "\n" not in str(raised.value)


def test_a_target_that_ends_the_process_is_named(tmp_path: Path) -> None:
    """`os._exit` ends the command without an exception; a process that the target forked may end so."""
    path = tmp_path / "ends.py"
    path.write_text(
        "import os\ndef answer(question):\n    if hasattr(os, 'fork'):\n        child = os.fork()\n"
        "        if not child:\n            os._exit(0)\n        os.waitpid(child, 0)\n    os._exit(0)\n"
    )
    (tmp_path / "q.jsonl").write_text('{"question": "Who?", "answer": "me"}\n')
    words = ["run", "--target", f"{path}:answer", "--tasks", str(tmp_path / "q.jsonl"), "--quiet"]
    command = [sys.executable, "-m", "assaymark", *words, "--store", str(tmp_path / "runs.sqlite")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count(f"target: {path} ended the process with os._exit(0)") == 1
    others = (
        "import os, sys; from pathlib import Path; from assaymark.applications.functions import load_named\n"
        "for n in range(1200):\n    Path('t.py').write_text(f'def f(): return {n}'); load_named('t.py:f')[0]()\n"
        "os._exit(0)"
    )
    ended = subprocess.run([sys.executable, "-c", others], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), "a program that has loaded files ends as it would"


def test_promptfoos_responses() -> None:
    """`call_api` returns an output with its cost and tokens, or an error, which is a failure."""

    def call_api(prompt: str, options: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        assert context["traceparent"].startswith("00-")
        if prompt == "3+3?":
            return {"error": "rate limit"}
        return {"output": "4", "cost": 0.5, "tokenUsage": {"total": 12, "prompt": 7, "completion": 5}, "custom": 1}

    run = run_of(call_api)
    assert (value_of(run), run.estimate("rows", "exact").n_failed) == (1.0, 1)
    assert (run.estimate("rows", "cost").value, run.estimate("rows", "n_tokens").value) == (0.5, 12)
    assert run.samples("rows")[1].outputs[0].error == "the target returned an error: rate limit"


# ------------------------------------------------------------------------------------------------------ commands


COMMAND = """
import json, os, sys, time
prompt, options, context = sys.argv[1:4]
assert prompt == sys.stdin.read()
assert os.environ["TRACEPARENT"] == json.loads(context)["traceparent"]
if prompt == "fail":
    sys.exit("it broke")
if prompt == "hang":
    time.sleep(60)
print({"2+2?": "4", "3+3?": "6"}.get(json.loads(context)["vars"]["question"], "?"))
"""


@pytest.mark.slow
def test_a_command(tmp_path: Path) -> None:
    """It gets the prompt as an argument and on standard input; a code other than 0 and a time-out are failures."""
    path = tmp_path / "answer.py"
    path.write_text(COMMAND, encoding="utf-8")
    rows = [*ROWS, *({"inputs": {"question": word}, "expected": "?"} for word in ("fail", "hang"))]
    began = time.monotonic()
    run = run_of(f"exec:{sys.executable} {path}", rows, timeout_s=5)
    assert time.monotonic() - began < 30
    assert (value_of(run), run.estimate("rows", "exact").n_failed) == (1.0, 2)
    failed = [sample.outputs[0].error or "" for sample in run.samples("rows")[2:]]
    assert failed[0].endswith("ended with exit code 1: it broke")
    assert "did not end within 5 s" in failed[1]


def test_a_command_that_is_none_is_refused() -> None:
    """Before the first row."""
    with pytest.raises(UsageError, match="no program 'no-such-program' is found"):
        run_of("exec:no-such-program --flag")


def test_a_changed_file_of_a_command_is_another_run(tmp_path: Path) -> None:
    """The files that a command names count into its identity."""
    path = tmp_path / "answer.sh"
    path.write_text("echo 4\n", encoding="utf-8")
    first = run_of(f"exec:sh {path}")
    assert run_of(f"exec:sh {path}").id == first.id
    path.write_text("echo 6\n", encoding="utf-8")
    assert run_of(f"exec:sh {path}").id != first.id


@pytest.mark.parametrize("words", ["answer.py", "-m answer"])
def test_the_modules_of_a_command_are_part_of_its_identity(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a program in Python imports: its answers of before were shown."""
    monkeypatch.chdir(tmp_path)
    Path("answer.py").write_text("import core; print(core.TEXT)", encoding="utf-8")
    target = CommandTarget(f"{sys.executable} {words}")
    hashes = set()
    for text in ("a", "b", "a"):
        Path("core.py").write_text(f"TEXT = {text!r}", encoding="utf-8")
        hashes.add(target.source_hash)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    "printed",
    [r"\033[1;32m4\033[0m", r"\033]0;busy\a4", r"\033(B\033[m4\033[K", r"\033]8;;http://x\033\\4\033]8;;\033\\",
     r'{"output": "\033[32m4\033[0m"}', r'\033[1m{"output": "4", "cost": 0}\033[0m'],
)  # fmt: skip
def test_a_commands_colours_are_no_part_of_its_answer(tmp_path: Path, printed: str) -> None:
    """What only a terminal obeys is removed before the answer is read, and the answers with it are counted."""
    (tmp_path / "answer.sh").write_text(f"printf '%b\\n' '{printed}'\n", encoding="utf-8")
    run = run_of(f"exec:sh {tmp_path / 'answer.sh'}", ROWS[:1])
    assert value_of(run) == 1.0
    assert "warning: 1 answer with colours or other codes of a terminal, which were removed" in run.remarks()


def test_a_command_that_prints_another_encoding_has_failed(tmp_path: Path) -> None:
    """A replaced letter would be graded as the program's."""
    (tmp_path / "answer.sh").write_text(r"printf 'caf\351\n'", encoding="utf-8")
    run = run_of(f"exec:sh {tmp_path / 'answer.sh'}", ROWS[:1])
    assert "printed text that is not UTF-8 (byte 0xe9 at 3)" in str(run.samples("rows")[0].outputs[0].error)


# ----------------------------------------------------------------------------------------------------- endpoints


class Application(JsonHandler):
    """An application behind HTTP, which fails in several ways."""

    bodies: list[Any] = []  # noqa: RUF012 - of one test's server
    headers_seen: list[dict[str, str]] = []  # noqa: RUF012
    n_busy = 0

    def do_POST(self) -> None:
        """Answer a question."""
        body = self.read_json()
        Application.bodies.append(body)
        Application.headers_seen.append(dict(self.headers))
        question = json.dumps(body)
        if self.path == "/busy" and Application.n_busy > 0:
            Application.n_busy -= 1
            self.send_json({"error": "busy"}, 503)
        elif self.path.startswith("/echoes"):
            self.send_json(f"you sent {self.headers['Authorization']}")
        elif self.path.startswith("/refuses"):
            self.send_json({"error": f"bad key {self.headers['Authorization']}"}, 401)
        elif self.path == "/lost":
            self.send_json({"choices": [{"text": "4", "finish_reason": "error"}]})
        elif self.path == "/latin":
            self.send_content('"caf\u00e9"'.encode("latin-1"))
        elif self.path == "/slow":
            time.sleep(30)
        elif self.path == "/moved":
            self.send_json({}, 302, {"Location": "http://127.0.0.1:9/"})
        elif self.path == "/huge":
            self.send_content(b'"' + b"x" * (40 << 20) + b'"')
        else:
            answer = "4" if "2+2" in question else "6"
            self.send_json({"choices": [{"text": answer}], "usage": {"total_tokens": 9}, "contexts": ["a sum"]})


@pytest.fixture
def url() -> Iterator[str]:
    """Return the address of an application."""
    Application.bodies, Application.headers_seen, Application.n_busy = [], [], 0
    with serving(LoopbackServer(Application)) as server:
        yield server.address


def test_an_endpoint(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent the body with the row's inputs; the answer, tokens and contexts are read from its response."""
    monkeypatch.setenv("TOKEN", "secret-token")
    options: dict[str, Any] = {
        "body": '{"messages": [{"role": "user", "content": "Q: {{question}}"}], "all": "{{inputs}}"}',
        "answer_path": "choices[0].text",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
    }
    run = run_of(f"{url}/answer", **options)
    assert value_of(run) == 1.0
    assert run.estimate("rows", "n_tokens").value == 9
    assert {json.dumps(body["all"]) for body in Application.bodies} == {'{"question": "2+2?"}', '{"question": "3+3?"}'}
    assert Application.bodies[0]["messages"][0]["content"].startswith("Q: ")
    assert Application.headers_seen[0]["Authorization"] == "Bearer secret-token"
    assert Application.headers_seen[0]["traceparent"].startswith("00-")
    assert run_of(f"{url}/answer", **options).id == run.id
    assert run_of(f"{url}/answer", **options, version="2").id != run.id
    stored = json.dumps([run.configuration(), run.attempts()])
    assert "secret-token" not in stored
    assert len(Application.bodies) == 4


def test_an_endpoint_without_a_body_gets_the_inputs(url: str) -> None:
    """Inputs by name are the body, a text is `input`; without a path the whole response is the answer."""
    run = run_of(f"{url}/answer", scorers=[])
    assert sorted(body["question"] for body in Application.bodies) == ["2+2?", "3+3?"]
    assert json.loads(run.samples("rows")[0].outputs[0].text or "")["choices"] == [{"text": "4"}]


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("/refuses", "RequestRefused", "status 401"),
        ("/moved", "RequestRefused", "status 302"),
        ("/huge", "Permanent", "32 MiB"),
        ("/lost", "ServerFailed", "broke off its answer (finish_reason error)"),
        ("/latin", "Permanent", "the answer is not UTF-8 (byte 0xe9 at 4)"),
        ("/slow", "TimedOut", "did not answer within 2 s"),
        ("/answer", "Permanent", "the response has no choices[1].text"),
    ],
)
def test_a_failing_endpoint_is_a_counted_failure(url: str, path: str, kind: str, message: str) -> None:
    """Each failure is stored with its reason; nothing is followed to another address."""
    run = run_of(f"{url}{path}", ROWS[:1], timeout_s=2, answer_path="choices[1].text", headers={"Authorization": "k"})
    output = run.samples("rows")[0].outputs[0]
    assert (output.error_kind, message in (output.error or "")) == (kind, True), output.error
    assert run.estimate("rows", "exact").n_failed == 1


def test_keys_are_never_stored(url: str) -> None:
    """A server that repeats a key, in an error or in an answer, is quoted without it."""
    headers = {"Authorization": "Bearer sk-very-secret"}
    refused = run_of(f"{url}/refuses?key=in-the-address", ROWS[:1], headers=headers)
    echoed = run_of(f"{url}/echoes?key=in-the-address", ROWS[:1], headers=headers)
    assert "bad key" in (refused.samples("rows")[0].outputs[0].error or "")
    assert echoed.samples("rows")[0].outputs[0].text == "you sent (key)"
    for run in (refused, echoed):
        everything = str([run.samples("rows"), run.configuration(), run.attempts()])
        assert "sk-very-secret" not in everything
        assert "in-the-address" not in everything


def test_a_busy_endpoint_is_asked_again(url: str) -> None:
    """A 503 is tried again as often as `retries` says."""
    Application.n_busy = 1
    run = run_of(f"{url}/busy", ROWS[:1], retries=2, answer_path="choices[0].text")
    assert value_of(run) == 1.0
    assert len(Application.bodies) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"body": {"q": "{{qestion}}"}}, r"has \{\{qestion\}\}, and the rows have no such input; expected .* question"),
        ({"body": "{broken"}, "is not valid JSON"),
        ({"answer_path": "a..[x]"}, "the path of the answer is"),
        ({"headers": {"Authorization": "Bearer ${NO_SUCH_VARIABLE}"}}, "NO_SUCH_VARIABLE, which is not set"),
    ],
)
def test_an_endpoint_that_does_not_fit_is_refused(url: str, options: dict[str, Any], message: str) -> None:
    """Before anything is sent."""
    with pytest.raises(UsageError, match=message):
        run_of(f"{url}/answer", **options)
    assert Application.bodies == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])
def test_an_endpoint_at_a_private_address_is_refused(url: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `public_only`, and always where the environment says so: before anything is sent."""
    inside = f"http://{host}:{url.rpartition(':')[2]}/answer"
    with pytest.raises(UsageError, match=r"may not be called: .* loopback address"):
        run_of(inside, public_only=True)
    monkeypatch.setenv("ASSAYMARK_PUBLIC_ONLY", "1")
    with pytest.raises(UsageError, match="ASSAYMARK_PUBLIC_ONLY"):
        run_of(inside)
    assert Application.bodies == []


def test_an_endpoint_that_moves_to_a_private_address_fails(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was public when it was checked, and is not when it is called, is a counted failure of each row."""
    answers = iter(["8.8.8.8"])

    def changing(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers, "127.0.0.1"), port))]

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    run = run_of(f"http://app.example:{url.rpartition(':')[2]}/answer", public_only=True)
    assert run.estimate("rows", "exact").n_failed == 2
    assert "may not be called: app.example (127.0.0.1) is a loopback" in (run.samples("rows")[0].outputs[0].error or "")
    assert Application.bodies == []


def test_calls_that_never_return_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more calls hang than may be left behind, the run stops and says why; what was answered is stored."""
    monkeypatch.setattr("assaymark.applications.calls.MOST_LEFT_BEHIND", 3)
    released = threading.Event()

    def hangs(question: str) -> str:
        if question != "0":
            released.wait(60)
        return question

    rows = [{"question": str(number), "expected": "0"} for number in range(40)]
    try:
        with pytest.raises(ModelUnavailable, match=r"calls of the target did not return within 0.2 s"):
            run_of(hangs, rows, timeout_s=0.2, concurrency=2, version="1")
    finally:
        released.set()
