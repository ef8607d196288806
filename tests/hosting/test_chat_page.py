"""The chat's page on a real server, over endpoints on loopback: whole answers, streams, failures, hostile models."""

import io
import json
import re
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.hosting.chat_routes import chat_feature
from assaymark.hosting.endpoints import read_endpoints
from assaymark.web.app import create_app
from assaymark.web.serve import ServerLimits
from tests import http_servers
from tests.http_servers import JsonHandler, LoopbackServer
from tests.served import running

HOSTILE = "<script>alert(1)</script>\x1b[2J**x** "


class _Endpoint(JsonHandler):
    """Streams an answer that quotes the number of messages; the model's name says how it behaves."""

    gone: "list[str]" = []  # noqa: RUF012 - shared by all requests of a test
    users: "list[str]" = []  # noqa: RUF012 - as `gone`

    def do_GET(self) -> None:
        """List two models."""
        self.send_json({"data": [{"id": "echo"}, {"id": "slow"}]})

    def do_POST(self) -> None:
        """Stream."""
        asked = self.read_json()
        model, messages = asked["model"], asked["messages"]
        self.users.append(str(asked.get("user")))
        status = {"busy": 503, "secret": 500}.get(model, 200)
        if status != 200:
            self.send_json({"error": {"message": "key sk-secret at 10.0.0.1"}}, status, {"Connection": "close"})
            return
        self.begin_events()
        pieces = [f"{len(messages)} ", HOSTILE, *(f"word{i} " for i in range(5 if model != "slow" else 60))]
        try:
            for piece in pieces:
                self.send_event({"choices": [{"delta": {"content": piece}, "finish_reason": None}]})
                time.sleep(0.05 if model == "slow" else 0)
                if model == "torn" and piece == HOSTILE:
                    return
            self.send_event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
            self.send_event("[DONE]")
        except OSError:
            self.gone.append(model)


@contextmanager
def serving(*endpoints: str, limits: ServerLimits) -> Iterator[str]:
    """Serve a site with the chat over these endpoints."""
    app = create_app([chat_feature(read_endpoints(endpoints))])
    with running(app, limits) as result:
        yield result


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """The address of the endpoint."""
    with http_servers.serving(LoopbackServer(_Endpoint)) as server:
        yield server.url


@pytest.fixture
def url(upstream: str) -> Iterator[str]:
    """The address of a site whose requests must be complete within a second, with every kind of endpoint."""
    names = [f"{name}={upstream}#{name}" for name in ("echo", "torn", "busy", "secret", "slow")]
    with serving(
        f"first={upstream}", *names, "away=http://127.0.0.1:9", limits=ServerLimits(request_seconds=1)
    ) as address:
        yield address


def token_of(client: httpx.Client) -> str:
    """Load the page and return its form's token."""
    result = re.search(r'name="token" value="([^"]+)"', client.get("/chat").text)
    assert result is not None
    return result[1]


def events_of(lines: Iterator[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a stream."""
    kinds = [line.split(": ", 1) for line in lines if line and not line.startswith(":")]
    names = [value for name, value in kinds if name == "event"]
    return list(zip(names, [json.loads(value) for name, value in kinds if name == "data"], strict=True))


def test_without_javascript_the_page_comes_back_with_both_answers(url: str) -> None:
    """Two models answer side by side; the second question is sent with each one's own history; output is text."""
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {
            "token": token_of(client),
            "first": "first",
            "second": "echo",
            "text": "Hi <i>",
            "system": "Be brief.",
        }
        page = client.post("/chat", data=fields).text
        assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J**x** word0") == 2
        assert "<script>alert" not in page
        assert "Hi &lt;i&gt;" in page
        history = re.search(r'name="history" value="([^"]*)"', page)
        assert history is not None
        again = client.post("/chat", data={**fields, "history": history[1].replace("&#34;", '"').replace("&lt;", "<")
                                           .replace("&gt;", ">").replace("&amp;", "&"), "text": "More"})  # fmt: skip
        assert again.status_code == 200
        assert again.text.count('class="round"') == 2
        assert again.text.count('<div class="raw">4 ') == 2  # system, question, answer, question
        assert again.text.count("<strong>x</strong>") == 4  # an answer is Markdown


def test_a_broken_answer_keeps_its_text_and_can_be_asked_again(url: str) -> None:
    """Beside a whole answer there is a button, with which the last question goes to both models once more."""
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {"token": token_of(client), "first": "torn", "second": "echo", "text": "Hi"}
        page = client.post("/chat", data=fields).text
        assert page.count("\\x1b[2J**x**") == 2
        assert page.count('class="problems">') == 1
        assert 'name="again"' in page
        history = json.dumps([["Before", {"echo": "2"}], ["Hi", {"echo": "2 all"}]])
        again = client.post("/chat", data={**fields, "text": "not this", "history": history, "again": "1"}).text
        assert again.count('<p class="question">Hi</p>') == 1
        assert '<div class="raw">3 ' in again  # Before, 2, Hi
        alone = client.post("/chat", data={**fields, "second": ""}).text
        assert "Hi</textarea>" in alone
        assert 'class="round"' in alone
        assert 'name="history" value="[]"' in alone


def test_a_conversation_becomes_a_task_that_can_be_read(url: str, tmp_path: Path) -> None:
    """The archive has a task file and its rows: the questions, and the answers of one model as references."""
    history = json.dumps([["First?", {"echo": "Oné", "torn": "x"}], ["Then?", {"echo": "Two"}]])
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {"token": token_of(client), "first": "echo", "system": "Be brief.", "history": history, "of": "echo"}
        answer = client.post("/chat/task", data=fields)
        assert answer.headers["content-disposition"] == 'attachment; filename="chat_echo.zip"'
        assert client.post("/chat/task", data={**fields, "of": "slow"}).status_code == 400
        assert client.post("/chat/task", data={**fields, "token": "x"}).status_code == 403
    zipfile.ZipFile(io.BytesIO(answer.content)).extractall(tmp_path)
    row = json.loads((tmp_path / "chat_echo.jsonl").read_text("utf-8"))
    assert row == {"turns": ["First?", "Then?"], "answers": ["Oné", "Two"]}
    words = ["--model", "fake", "--apply_chat_template", "--store", str(tmp_path / "s.sqlite")]
    assert main(["run", "--tasks", str(tmp_path / "chat_echo.yaml"), *words]) == 0


def test_an_endpoint_is_not_told_who_asks(url: str) -> None:
    """Its `user` is a keyed hash of the visitor's network: equal for both kinds of form, and no address."""
    _Endpoint.users.clear()
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {"token": token_of(client), "first": "first", "text": "Hi"}
        assert client.post("/chat", data=fields).status_code == 200
        assert client.post("/chat/stream", data=fields).status_code == 200
    assert len(_Endpoint.users) == 2
    assert len(set(_Endpoint.users)) == 1
    assert re.fullmatch("[0-9a-f]{16}", _Endpoint.users[0])


def test_a_stream_outlives_the_limit_of_requests(url: str) -> None:
    """Pieces arrive while they are generated, for longer than a request may take to be sent."""
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {"token": token_of(client), "first": "slow", "second": "echo", "text": "Hi"}
        started = time.monotonic()
        with client.stream("POST", "/chat/stream", data=fields) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            assert next(lines) == "event: piece"
            first = time.monotonic() - started
            result = events_of(lines) if next(lines) else []
        assert time.monotonic() - started > 2 > first
        texts = [
            "".join(data["text"] for kind, data in result if kind == "piece" and data["side"] == i) for i in (0, 1)
        ]
        assert texts[0].endswith("word59 ")
        assert "word4 " in texts[1]
        assert "\\x1b[2J" in texts[1]
        assert [data["side"] for kind, data in result if kind == "end"] == [1, 0]


@pytest.mark.parametrize(
    ("name", "said"),
    [("torn", "broke off"), ("busy", "is busy"), ("secret", "failed (500)"), ("away", "cannot be reached")],
)
def test_failures_are_said_without_the_endpoints_words(url: str, name: str, said: str) -> None:
    """A failed answer is a problem on the page, never in the history, and shows no address or key."""
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {"token": token_of(client), "first": name, "text": "Hi there"}
        page = client.post("/chat", data=fields).text
        assert said in page
        assert ('class="round"' in page) == (name == "torn")  # what came is shown
        assert 'name="history" value="[]"' in page
        assert "Hi there</textarea>" in page
        assert "sk-secret" not in page
        assert "127.0.0.1" not in page
        with client.stream("POST", "/chat/stream", data=fields) as answer:
            last = events_of(answer.iter_lines())[-1]
        assert last[0] == "problem"
        assert said in last[1]["text"]


def test_leaving_a_stream_stops_the_endpoint(url: str) -> None:
    """A visitor who leaves ends the request to the endpoint."""
    _Endpoint.gone.clear()
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {"token": token_of(client), "first": "slow", "text": "Hi"}
        with client.stream("POST", "/chat/stream", data=fields) as answer:
            lines = answer.iter_lines()
            next(lines)
    until = time.monotonic() + 10
    while not _Endpoint.gone:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_wrong_forms_are_refused_in_one_line(url: str) -> None:
    """No token, an unknown model, no question, a long one, or a forged history: 4xx and a reason."""
    with httpx.Client(base_url=url, timeout=30) as client:
        good = {"token": token_of(client), "first": "echo", "text": "Hi"}
        assert client.post("/chat", data={**good, "token": "x"}).status_code == 403
        for wrong, said in (
            ({"first": "nope"}, "no model"), ({"text": ""}, "question"), ({"text": "x" * 9000}, "characters"),
            ({"history": "{"}, "cannot be read"), ({"history": "[[1,2]]"}, "cannot be read"),
            ({"history": '[["q", {"nope": "a"}]]'}, "not here"),
            ({"history": json.dumps([["q", {}]] * 101)}, "too long"),
        ):  # fmt: skip
            answer = client.post("/chat", data={**good, **wrong})
            assert answer.status_code == 400
            assert said in answer.text
            assert client.post("/chat/stream", data={**good, **wrong}).status_code == 400
        assert client.get("/chat.json").json()["models"][:2] == ["first", "echo"]


def test_questions_are_limited(url: str) -> None:
    """A visitor who asks too often is told when to ask again."""
    with httpx.Client(base_url=url, timeout=30) as client:
        fields = {"token": token_of(client), "first": "busy", "text": "Hi"}
        answers = [client.post("/chat", data=fields) for _ in range(40)]
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 429
    assert "retry-after" in answers[-1].headers


@pytest.mark.parametrize(
    "given", ["small", "=http://x", "a=ftp://x/v1", "a=http://u:p@x/v1", "a b=http://x", "a=http://"]
)
def test_a_malformed_endpoint_is_refused(given: str) -> None:
    """What is no NAME=URL is a usage error."""
    with pytest.raises(UsageError):
        read_endpoints([given])


def test_endpoints_are_completed() -> None:
    """A bare address gets /v1; a model may be named after a #; two of one name are refused."""
    first, two = read_endpoints(["a=http://127.0.0.1:7600", "b=https://x.org/api/v1/chat/completions#big/model"])
    assert (first.url, first.model) == ("http://127.0.0.1:7600/v1", None)
    assert (two.url, two.model) == ("https://x.org/api/v1", "big/model")
    with pytest.raises(UsageError, match="two endpoints"):
        read_endpoints(["a=http://x", "a=http://y"])


@pytest.mark.slow
def test_in_a_browser(url: str, browser: Any) -> None:
    """Answers appear piece by piece as text, Stop keeps what came, and nothing violates the page's policy."""
    complaints: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(url + "/chat")
    page.select_option("select[name=second]", "slow")
    page.fill("#text", "Hi")
    page.press("#text", "Enter")
    page.wait_for_selector(".answer.open .text:has-text('word3')")  # while it is generated
    page.click(".stop")
    page.wait_for_selector(".stop", state="hidden")
    assert HOSTILE.partition("\x1b")[0] in page.inner_text(".answer >> nth=0")
    page.fill("#text", "Again")
    page.press("#text", "Enter")
    page.wait_for_selector(".round:nth-child(2) .answer:not(.open) .text:has-text('3 ')", timeout=20_000)
    page.locator(".round:nth-child(2) .answer .rendered strong").nth(1).wait_for(timeout=20_000)
    assert page.locator(".round:nth-child(2) .raw").first.is_visible() is False
    page.locator("#raw-text").check()
    assert page.locator(".round:nth-child(2) .raw").first.is_visible()
    with page.expect_download() as download:
        page.locator("details.task summary").click()
        page.get_by_role("button", name="Answers of slow").click()
    assert download.value.suggested_filename == "chat_slow.zip"
    page.select_option("select[name=first]", "torn")
    page.fill("#text", "Broken")
    page.press("#text", "Enter")
    page.get_by_role("button", name="Ask again").wait_for(timeout=20_000)
    broken = page.locator(".round:nth-child(3) .answer").first
    assert "alert(1)" in broken.inner_text()  # what came stays
    assert broken.locator(".problems").count() == 1
    page.get_by_role("button", name="Ask again").click()
    page.wait_for_selector(".round:nth-child(3) .answer.open")
    page.get_by_role("button", name="Ask again").wait_for(timeout=20_000)
    assert page.locator(".round").count() == 3
    assert len(json.loads(page.input_value("[name=history]"))) == 3
    torn = 'event: piece\ndata: {"side": 0, "text": "half"}\n\n'  # the server or a proxy ends in the middle
    page.route("**/chat/stream", lambda route: route.fulfill(content_type="text/event-stream", body=torn))
    page.fill("#text", "Torn")
    page.press("#text", "Enter")
    page.locator(".round:nth-child(4)").get_by_role("button", name="Ask again").wait_for()
    assert "half\n\nthe answer broke off" in page.inner_text(".round:nth-child(4)")
    assert len(json.loads(page.input_value("[name=history]"))) == 3
    page.close()
    assert complaints == []
