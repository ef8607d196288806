"""Feedback: what is accepted, from whom, once; the form that other sites embed, and what is refused."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import assaymark
from assaymark.applications.live.links import signed_link
from assaymark.applications.live.routes import checked_origins
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.cli.main import main
from assaymark.errors import ConnectionLost, RequestRefused, UsageError
from tests.applications.live.serving_live import serving_live
from tests.applications.traces.sending import TRACE, Receiver, span
from tests.cli.test_hostile_text import CORPUS
from tests.served import browser

__all__ = ["browser"]

API = "/v1/feedback"
GENAI = {"gen_ai.operation.name": "chat", "gen_ai.response.id": "resp-1", "session.id": "s1"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Receiver]:
    """Return a server with an empty project."""
    with serving_live(tmp_path / "live.sqlite") as result:
        yield result


def sent(served: Receiver, body: Any, token: str | None = None, **headers: str) -> httpx.Response:
    """Send feedback with a token."""
    headers = {"authorization": f"Bearer {token or served.token}", "content-type": "application/json", **headers}
    content = body if isinstance(body, bytes | str) else json.dumps(body)
    return httpx.post(served.url + API, content=content, headers=headers, timeout=30)


def scores(served: Receiver) -> list[dict[str, Any]]:
    """Return the scores that the trace's page shows."""
    with served.client as client:
        result: list[dict[str, Any]] = client.get(f"/trace/{TRACE}.json").json()["scores"]
        return result


def test_feedback_comes_before_its_trace_and_once(served: Receiver) -> None:
    """What is sent first is on the trace's page later; the same id replaces what it said, by a write-only token too."""
    writing = TraceLog(served.store).add_token("bot", "write")
    first = {"trace_id": TRACE, "id": "u1", "value": True, "comment": "fine", "completed": True, "user": "ada"}
    assert sent(served, first, writing).json() == {"accepted": 1, "new": 2, "rejected": []}
    assert sent(served, first, writing).json() == {"accepted": 1, "new": 0, "rejected": []}
    served.send(span(1))
    assert [(each["name"], each["value"], each["explanation"]) for each in scores(served)] == [
        ("thumbs", 1.0, "fine"),
        ("completed", 1.0, None),
    ]
    again = {"trace_id": TRACE, "id": "u1", "value": "down", "correction": {"answer": "Rome"}}
    assert sent(served, again).json()["accepted"] == 1
    (score,) = scores(served)
    assert (score["name"], score["value"], score["correction"], score["explanation"]) == (
        "thumbs",
        0.0,
        '{"answer": "Rome"}',
        None,
    )
    assert (score["source"], score["rater"]) == ("feedback", None)


def test_what_feedback_may_be_of(served: Receiver) -> None:
    """A trace, a step, a response by its id, and a session: each is on the trace's page and counted for lists."""
    served.send(span(1, attributes=GENAI), span(2, 1))
    served.send(span(1, trace="0a" * 16))
    of = [{"trace_id": TRACE}, {"span_id": f"{2:016x}"}, {"response_id": "resp-1"}, {"session_id": "s1"}]
    body = {"feedback": [{**each, "name": f"n{at}", "score": at + 0.5} for at, each in enumerate(of)]}
    assert sent(served, body).json()["accepted"] == 4
    assert {each["name"]: each["value"] for each in scores(served)} == {"n0": 0.5, "n1": 1.5, "n2": 2.5, "n3": 3.5}
    with served.client as client:
        for condition, n in {
            "n0>=0.5": 1, "n0>0.5": 0, "n0=0.5": 1, "n1=1.5": 1, "n1>1.5": 0, "n2<9": 1, "n3<=3.5": 1, "n0<0": 0,
        }.items():  # fmt: skip
            result = client.get("/traces.json", params={"score": condition}).json()["traces"]
            assert [each["trace_id"] for each in result] == [TRACE] * n, condition
        for condition in ("n0", "n0>=x", ">=1", "n0>=nan", "n0>=1>=2"):
            assert client.get("/traces.json", params={"score": condition}).status_code == 400, condition


@pytest.mark.parametrize(
    ("sent_one", "reason"),
    [
        ({"trace_id": TRACE}, "says nothing"),
        ({"value": 1}, "of nothing"),
        ({"trace_id": TRACE[:-2], "value": 1}, "32 hexadecimal digits"),
        ({"trace_id": "0" * 32, "value": 1}, "not all 0"),
        ({"trace_id": "g" * 32, "value": 1}, "hexadecimal"),
        ({"trace_id": [TRACE], "value": 1}, "expected a text"),
        ({"trace_id": f"{TRACE}' OR 1=1 --", "value": 1}, "hexadecimal"),
        ({"span_id": TRACE, "value": 1}, "16 hexadecimal"),
        ({"trace_id": TRACE, "value": "good"}, "expected a number, true, false, up or down"),
        ({"trace_id": TRACE, "value": 1e300}, "expected a number"),
        ({"trace_id": TRACE, "value": [1]}, "expected a number"),
        ({"trace_id": TRACE, "value": 10**400}, "expected a number"),
        ({"trace_id": TRACE, "value": float("nan")}, "expected a number"),
        ({"trace_id": TRACE, "value": float("-inf")}, "expected a number"),
        ({"trace_id": TRACE, "correction": {"a": float("nan")}}, "not finite"),
        ({"trace_id": TRACE, "value": 1, "score": 1}, "the same"),
        ({"trace_id": TRACE, "coment": "x"}, "nearest: comment"),
        ({"trace_id": TRACE, "comment": "x" * 10_001}, "at most 10,000"),
        ({"trace_id": TRACE, "comment": "a\x00b"}, "NUL"),
        ({"trace_id": TRACE, "comment": "\ud800"}, "surrogate"),
        ({"trace_id": TRACE, "correction": "x" * 100_001}, "at most 100,000"),
        ({"trace_id": TRACE, "completed": "yes"}, "true or false"),
        ({"trace_id": TRACE, "value": 1, "name": "n" * 129}, "at most 128"),
        ({"trace_id": TRACE, "value": 1, "id": "i" * 201}, "at most 200"),
        ("text", "expected an object"),
        (None, "expected an object"),
    ],
)
def test_each_is_rejected_alone(served: Receiver, sent_one: Any, reason: str) -> None:
    """What is wrong is said with its position, and what stands beside it is stored."""
    answer = sent(served, {"feedback": [{"trace_id": TRACE, "value": 0.25, "id": "good"}, sent_one]})
    assert answer.status_code == 200
    (rejected,) = answer.json()["rejected"]
    assert (answer.json()["accepted"], rejected["index"]) == (1, 1)
    assert reason in rejected["reason"]
    assert "\n" not in rejected["reason"]
    assert len(rejected["reason"]) < 300
    assert sent(served, [sent_one]).status_code == 400
    assert len(TraceLog(served.store).scores(served.project, bytes.fromhex(TRACE))) == 1


def test_bodies_that_are_refused(served: Receiver) -> None:
    """No token, a wrong one, another type, too much, no JSON: each has its status and a reason."""
    good = {"trace_id": TRACE, "value": 1}
    for status, answer in (
        (401, httpx.post(served.url + API, json=good)),
        (401, sent(served, good, "asm_wrong")),
        (415, sent(served, good, **{"content-type": "text/plain"})),
        (400, sent(served, "{")),
        (400, sent(served, "[" * 10_000)),
        (400, sent(served, '{"correction": ' + "[" * 50 + "]" * 50 + "}")),
        (400, sent(served, b"\xff\xfe")),
        (400, sent(served, [])),
        (400, sent(served, "3")),
        (400, sent(served, {"feedback": "x"})),
        (400, sent(served, [good] * 1001)),
        (413, sent(served, b"x" * (2 << 20))),
    ):
        assert answer.status_code == status, answer.text
    assert TraceLog(served.store).scores(served.project, bytes.fromhex(TRACE)) == []
    removed = served.token
    TraceLog(served.store).add_token("bot", replacing=True)
    assert sent(served, good, removed).status_code == 401


def test_one_project_changes_nothing_of_another(served: Receiver) -> None:
    """The same id and trace under another project's token is another feedback."""
    other = TraceLog(served.store).add_project("other")
    served.send(span(1))
    sent(served, {"trace_id": TRACE, "value": True, "id": "u1", "comment": "mine"})
    assert sent(served, {"trace_id": TRACE, "value": False, "id": "u1"}, other).json()["new"] == 1
    assert [(each["value"], each["explanation"]) for each in scores(served)] == [(1.0, "mine")]


def test_who_it_is_is_a_keyed_hash(served: Receiver) -> None:
    """The user's id is stored nowhere; the same user has the same hash within a project only."""
    TraceLog(served.store).add_project("other")
    served.send(span(1))
    for number, user in enumerate(("ada@example.org", "ada@example.org", "bob")):
        sent(served, {"trace_id": TRACE, "value": 1, "id": str(number), "user": user})
    raters = [each["rater"] for each in scores(served)]
    assert raters[0] == raters[1] != raters[2]
    assert len(raters[0]) == 32
    plain = hashlib.sha256(b"ada@example.org").hexdigest()
    assert raters[0] not in plain
    path = Path(urlsplit(str(served.store.url)).path or str(served.store.url))
    stored = b"".join(file.read_bytes() for file in path.parent.glob("live.sqlite*"))
    assert b"ada@example.org" not in stored


def test_secrets_in_comments_are_removed(served: Receiver) -> None:
    """Keys of providers go before anything is stored, as in spans."""
    served.send(span(1))
    sent(served, {"trace_id": TRACE, "comment": "my key is sk-abcdefghijklmnopqrstuvwxyz", "value": 1})
    assert [each["explanation"] for each in scores(served)] == ["my key is [redacted: provider's key]"]


def test_hostile_comments_do_nothing_on_the_page(served: Receiver) -> None:
    """HTML and control characters of a comment, a label, a name and a correction are shown as text."""
    served.send(span(1))
    nasty = [*CORPUS.values(), "<script>alert(1)</script>", "\x1b[31mred", "a\u202eb"]
    for number, text in enumerate(nasty):
        body = {"trace_id": TRACE, "id": str(number), "comment": text, "correction": text, "name": text[:100] or "n",
                "label": text[:100], "value": 1}  # fmt: skip
        assert sent(served, body).status_code in {200, 400}
    with served.client as client:
        page = client.get(f"/trace/{TRACE}").text
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_busy_store_is_tried_again(served: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another writer holds the store the answer is 503 with Retry-After, and nothing is stored."""
    monkeypatch.setattr("assaymark.applications.live.feedback_log.WAIT_SECONDS", 0.1)
    with served.store._database.writing():
        answer = sent(served, {"trace_id": TRACE, "value": 1})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert sent(served, {"trace_id": TRACE, "value": 1}).status_code == 200


def test_too_many_requests_are_slowed_down(served: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong tokens from one network are counted: after twenty a minute the answer is 429."""
    answers = [sent(served, {"value": 1}, "asm_wrong") for _ in range(25)]
    assert [answer.status_code for answer in answers[:20]] == [401] * 20
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) > 0


# --------------------------------------------------------------------------------------------- the form


def link_for(served: Receiver, days: float = 1.0, token: str | None = None) -> str:
    """Return a link to the form of the trace."""
    return signed_link(served.url, TRACE, hashlib.sha256((token or served.token).encode()).digest(), days)


def test_the_form(served: Receiver) -> None:
    """A signed link opens a form without a cookie; what is sent is stored, and sent again it replaces itself."""
    served.send(span(1))
    link = link_for(served, token=TraceLog(served.store).add_token("bot", "write"))
    with httpx.Client(timeout=30) as client:
        page = client.get(link)
        assert (page.status_code, page.headers.get("set-cookie")) == (200, None)
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert "<script" not in page.text
        action = re.findall(r'action="([^"]+)"', page.text)[0].replace("&amp;", "&")
        fields = {"thumbs": "no", "completed": "yes", "comment": "so\r\nso", "correction": "Rome"}
        answer = client.post(served.url + action, data=fields)
        assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)
        assert "Thank you" in answer.text
        results = {each["name"]: each for each in scores(served)}
        assert (results["thumbs"]["value"], results["completed"]["value"]) == (0.0, 1.0)
        assert (results["thumbs"]["explanation"], results["thumbs"]["correction"]) == ("so\nso", "Rome")
        assert client.post(served.url + action, data={"thumbs": "yes"}).status_code == 200
        assert [(each["name"], each["value"]) for each in scores(served)] == [("thumbs", 1.0)]
        assert client.post(served.url + action, data={"comment": " "}).status_code == 400
        assert client.post(served.url + action, data={"thumbs": "maybe"}).status_code == 400
        assert client.post(served.url + action, data={"comment": "x" * 10_001}).status_code == 400
        assert client.post(served.url + action, data={"comment": "x" * 300_000}).status_code == 413
        assert client.post(served.url + action, json={"thumbs": ["yes", 1], "comment": 3}).status_code == 400


def test_links_that_are_not_good(served: Receiver) -> None:
    """A forged, changed or expired link, and that of a removed token, opens no form and stores nothing."""
    link = link_for(served)
    query = {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}
    wrong: list[dict[str, str]] = [
        {**query, "trace": "0a" * 16},
        {**query, "until": str(int(query["until"]) + 1)},
        {**query, "signature": "0" * 64},
        {**query, "signature": "é" * 64},
        {**query, "key": "0" * 16},
        {**query, "key": "zz" * 8},
        {**query, "until": "-1"},
        {**query, "until": "9" * 5000},
        {name: value for name, value in query.items() if name != "signature"},
        {},
    ]
    place = f"{served.url}/feedback/form"
    for each in wrong:
        assert httpx.get(place, params=each).status_code == 403, each
        assert httpx.post(place, params=each, data={"thumbs": "yes"}).status_code == 403, each
    expired = link_for(served, days=1e-9)
    time.sleep(1.1)
    assert httpx.get(expired).status_code == 403
    other = TraceLog(served.store).add_project("other")
    assert httpx.post(link_for(served, token=other), data={"thumbs": "yes"}).status_code == 200  # its own project's
    assert TraceLog(served.store).scores(served.project, bytes.fromhex(TRACE)) == []
    TraceLog(served.store).add_token("bot", replacing=True)
    assert httpx.get(link).status_code == 403


def test_another_site_cannot_send_the_form(served: Receiver) -> None:
    """A request that a page of another site makes through a visitor's browser is refused, link or not."""
    link = link_for(served)
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert httpx.post(link, data={"thumbs": "yes"}, headers=headers).status_code == 403
    assert httpx.post(link, content=b"thumbs=yes", headers={"content-type": "text/plain"}).status_code == 415
    own = {"sec-fetch-site": "same-origin", "origin": served.url}
    assert httpx.post(link, data={"thumbs": "yes"}, headers=own).status_code == 200


def test_forms_from_one_network_are_limited(served: Receiver) -> None:
    """After thirty forms in a minute from one network the answer is 429."""
    link = link_for(served)
    with httpx.Client() as client:
        answers = [client.post(link, data={"thumbs": "yes"}).status_code for _ in range(80)]  # some return meanwhile
    assert answers[:30] == [200] * 30
    assert 429 in answers


@pytest.mark.parametrize(
    "origin",
    ["*", "app.example.org", "https://*", "https://a.example/x", "https://a.example; script-src *", "javascript:1"],
)
def test_a_site_that_is_none(origin: str) -> None:
    """What could widen the policy is refused at the start."""
    with pytest.raises(UsageError, match="feedback_origins"):
        checked_origins([origin])


@pytest.mark.slow
def test_the_form_inside_another_site(browser: Any, tmp_path: Path) -> None:
    """In a page of a named site the form works inside a frame, without scripts; in any other it is not shown."""

    class Page(BaseHTTPRequestHandler):
        link = ""

        def do_GET(self) -> None:
            """Send a page that embeds the form."""
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f'<iframe src="{Page.link}" width="500" height="500"></iframe>'.encode())

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    pages = [HTTPServer(("127.0.0.1", 0), Page) for _ in range(2)]
    for each in pages:
        threading.Thread(target=each.serve_forever, daemon=True).start()
    named, other = (f"http://127.0.0.1:{each.server_port}" for each in pages)
    try:
        with serving_live(tmp_path / "live.sqlite", [named]) as served:
            Page.link = link_for(served).replace("127.0.0.1", "localhost")
            context = browser.new_context(java_script_enabled=False)
            page = context.new_page()
            page.goto(other)
            page.wait_for_timeout(500)
            frame = page.frames[1]
            assert frame.url.startswith("chrome-error") or "feedback" not in frame.content()
            page.goto(named)
            frame = page.frame_locator("iframe")
            frame.get_by_label("bad").check()
            frame.get_by_label("Comment").fill("not <b>good</b>")
            page.screenshot(path=tmp_path / "form.png")
            frame.get_by_role("button", name="Send").click()
            frame.get_by_text("Thank you").wait_for()
            assert context.cookies() == []
            context.close()
            (score,) = TraceLog(served.store).scores(served.project, bytes.fromhex(TRACE))
            assert (score.name, score.value, score.explanation) == ("thumbs", 0.0, "not <b>good</b>")
    finally:
        for each in pages:
            each.shutdown()
            each.server_close()


# --------------------------------------------------------------------------------- in programs and commands


def test_in_python(served: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """`assaymark.feedback` goes where spans go; without a destination it does nothing, and refusals are raised."""
    monkeypatch.setattr("assaymark.applications.traces.spans._sent_to", [])
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    assert assaymark.feedback(True, trace_id=TRACE) is False
    with pytest.raises(UsageError, match="nothing says where"):
        assaymark.feedback_link(TRACE)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", served.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{served.token}")
    assert assaymark.feedback(True, trace_id=TRACE, comment="fine", completed=False, id="1") is True
    assert assaymark.feedback(0.5, session_id="s1", name="stars") is True
    result = TraceLog(served.store).scores(served.project, bytes.fromhex(TRACE))
    assert {(each.name, each.value) for each in result} == {("thumbs", 1.0), ("completed", 0.0)}
    assert httpx.get(assaymark.feedback_link(TRACE)).status_code == 200
    with pytest.raises(RequestRefused, match="hexadecimal"):
        assaymark.feedback(1, trace_id="xyz")
    with pytest.raises(RequestRefused, match="401"):
        assaymark.feedback(1, trace_id=TRACE, token="asm_wrong")
    with pytest.raises(UsageError, match="no present one"):
        assaymark.feedback(1)
    with pytest.raises(ConnectionLost):
        assaymark.feedback(1, trace_id=TRACE, endpoint="http://127.0.0.1:9", token="x")


def test_the_command_makes_a_link(served: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    """The command's link opens the form; its mistakes are one line."""
    served.send(span(1))
    store = ["--store", str(served.store.url)]
    assert main(["traces", "feedback-link", TRACE[:8], "--url", served.url, *store]) == 0
    assert httpx.get(capsys.readouterr().out.strip()).status_code == 200
    for more, problem in (([], "http://HOST"), (["--days", "0"], "days")):
        url = served.url if more else "example.org"
        assert main(["traces", "feedback-link", TRACE, "--url", url, *more, *store]) == 2
        error = capsys.readouterr().err
        assert problem in error
        assert error.count("\n") == 1


def test_the_command_lists_by_score(served: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    """`traces ls --score` finds what feedback says."""
    served.send(span(1))
    served.send(span(1, trace="0a" * 16))
    sent(served, {"trace_id": TRACE, "value": False})
    store = ["--store", str(served.store.url)]
    assert main(["traces", "ls", "--score", "thumbs<1", "--json", *store]) == 0
    assert [each["trace_id"] for each in json.loads(capsys.readouterr().out)] == [TRACE]
    assert main(["traces", "ls", "--score", "thumbs", *store]) == 2
    assert "faithfulness>=0.5" in capsys.readouterr().err


def test_the_same_id_at_once(served: Receiver) -> None:
    """Many senders of one id at the same time leave one feedback, and none is refused."""
    served.send(span(1))
    answers: list[int] = []

    def send(number: int) -> None:
        answers.append(sent(served, {"trace_id": TRACE, "id": "u1", "value": number}).status_code)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [200] * 16
    assert len(scores(served)) == 1
