"""Pages of traces: who may read them, what they show, and that nothing in a span acts on its reader."""

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceScore
from tests.applications.traces.sending import NOW, TRACE, Receiver, span
from tests.applications.traces.test_dialects import GENAI, OPENINFERENCE
from tests.cli.test_hostile_text import CORPUS

DOCUMENTS = {
    "openinference.span.kind": "RETRIEVER",
    "retrieval.documents.0.document.id": "d1",
    "retrieval.documents.0.document.content": "Rome is in Italy.",
    "retrieval.documents.0.document.score": 0.5,
    "input.value": "Rome",
}
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "weather",
    "gen_ai.tool.call.arguments": '{"city": "Rome"}',
    "gen_ai.tool.call.result": "sunny",
}
AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.usage.input_tokens": 2000,
    "gen_ai.usage.output_tokens": 200,
    "session.id": "s1",
    "user.id": "ada",
}


def conversation(trace: str = TRACE, start: float = 0) -> list[dict[str, Any]]:
    """Return the spans of an agent that searches, calls a tool that fails, and asks a model twice."""
    failed = {"code": 2, "message": "no station in Rome"}
    return [
        span(1, trace=trace, name="invoke_agent guide", start=start, seconds=4, attributes=AGENT),
        span(2, 1, trace=trace, name="search", start=start + 0.1, seconds=0.4, attributes=DOCUMENTS),
        span(3, 1, trace=trace, name="chat gpt-4o", start=start + 0.5, seconds=1.5, attributes=GENAI),
        span(4, 1, trace=trace, name="execute_tool weather", start=start + 2, attributes=TOOL, status=failed),
        span(5, 4, trace=trace, name="GET /weather", start=start + 2.1, seconds=0.8),
        span(6, 1, trace=trace, name="ChatCompletion", start=start + 3, seconds=0.9, attributes=OPENINFERENCE),
    ]


@pytest.fixture
def shown(receiver: Receiver) -> Receiver:
    """Return a receiver with a conversation and another trace."""
    assert receiver.send(*conversation()).json() == {}
    assert receiver.send(span(1, trace="02" * 16, name="other", start=-50)).json() == {}
    return receiver


@contextmanager
def signed_in(receiver: Receiver, token: str | None = None) -> Iterator[httpx.Client]:
    """Give a client that showed the token in the form, as a browser does."""
    with httpx.Client(base_url=receiver.url, timeout=30, follow_redirects=True) as client:
        page = client.get("/traces/sign-in")
        (form_token,) = set(re.findall(r'name="token" value="(\w+)"', page.text))
        client.post("/traces/sign-in", data={"token": form_token, "key": token or receiver.token, "back": "/traces"})
        yield client


def test_who_may_read(shown: Receiver) -> None:
    """Pages need a token of the project; one that only writes, a removed one and a forged cookie open nothing."""
    writing = TraceLog(shown.store).add_token("bot", "write")
    for path in ("/traces.json", f"/trace/{TRACE}.json", f"/trace/{TRACE}/otlp", "/traces/sessions.json"):
        assert httpx.get(shown.url + path).status_code == 401
        for token, status in ((shown.token, 200), (writing, 403), ("asm_wrong", 401)):
            headers = {"authorization": f"Bearer {token}"}
            assert httpx.get(shown.url + path, headers=headers).status_code == status, path
    assert httpx.get(f"{shown.url}/traces").headers["location"].startswith("/traces/sign-in")
    with signed_in(shown, writing) as client:
        assert client.get("/traces.json").status_code == 401
    with signed_in(shown) as client:
        assert client.get("/traces.json").status_code == 200
        kept = client.cookies["traces"]
    with signed_in(shown) as client:
        TraceLog(shown.store).add_token("bot", replacing=True)
        assert client.get("/traces.json").status_code == 401
    forged = httpx.get(f"{shown.url}/traces.json", headers={"cookie": f"traces={kept.partition('.')[0]}.{'0' * 64}"})
    assert forged.status_code == 401


def test_another_projects_token_reads_nothing(shown: Receiver) -> None:
    """With another project's token lists are empty and a trace's id is unknown, page and JSON alike."""
    other = TraceLog(shown.store).add_project("other")
    with httpx.Client(base_url=shown.url, headers={"authorization": f"Bearer {other}"}) as client:
        assert client.get("/traces.json").json()["traces"] == []
        assert client.get("/traces.json?q=Rome").json()["traces"] == []
        assert client.get("/traces/sessions.json").json()["sessions"] == []
        for path in (f"/trace/{TRACE}", f"/trace/{TRACE}.json", f"/trace/{TRACE}/otlp"):
            assert client.get(path).status_code == 404


def test_the_list(shown: Receiver) -> None:
    """Each filter narrows the list, and an unreadable one is refused."""
    with shown.client as client:
        for query, names in {
            "": ["invoke_agent guide", "other"],
            "?q=%22in+Italy%22": ["invoke_agent guide"],
            "?errors=yes": ["invoke_agent guide"],
            "?errors=no": ["other"],
            "?model=gpt-4o-2024-11-20": ["invoke_agent guide"],
            "?model=gpt-4o": [],
            "?session=s1&user=ada": ["invoke_agent guide"],
            "?slower=3": ["invoke_agent guide"],
            "?dearer=0.001": ["invoke_agent guide"],
            "?version=1.2&service=bot&hours=1": ["invoke_agent guide", "other"],
            f"?end={time.strftime('%Y-%m-%d', time.gmtime(NOW / 1e9 - 5 * 86_400))}": [],
            "?live=1": ["invoke_agent guide", "other"],
        }.items():
            result = client.get(f"/traces.json{query}").json()["traces"]
            assert [trace["name"] for trace in result] == names, query
        for query in ("?slower=x", "?start=yesterday", "?before=5", "?errors=maybe", "?hours=-1", "?dearer=nan"):
            assert client.get(f"/traces{query}").status_code == 400, query
        assert client.get("/traces/sessions.json").json()["sessions"][0]["session"] == "s1"


def test_a_session_names_how_many_users_took_part(receiver: Receiver) -> None:
    """Two of its three traces are of others than the first user by name."""
    for number, user in enumerate(("cy", "ada", "bob", "ada"), 1):
        attributes = {"session.id": "s", "user.id": user}
        receiver.send(span(1, trace=f"{number:032x}", start=number, attributes=attributes))
    with receiver.client as client:
        (session,) = client.get("/traces/sessions.json").json()["sessions"]
        page = client.get("/traces/sessions").text
    assert (session["user"], session["users"], session["traces"]) == ("ada", 3, 4)
    assert "<td>ada and 2 more</td>" in page


def test_a_list_shows_what_was_asked_answered_and_scored(shown: Receiver) -> None:
    """Beginnings of input and output, the latest score of each name, the number of hits; empty filters go."""
    given = {"input.value": "What  is\nRome?", "output.value": "A capital. " * 40}
    shown.send(span(1, trace="03" * 16, name="asked", start=-100, seconds=9, attributes=given))
    asked_id, span_id = bytes.fromhex("03" * 16), bytes.fromhex(f"{1:016x}")
    for observed, name, value in ((1, "tone", 0.0), (2, "tone", 0.5), (3, "delay", 1.490161)):
        digest = f"{observed:016d}".encode()
        score = TraceScore(digest, asked_id, span_id, None, name, value, None, "slow", None, observed, "event")
        TraceLog(shown.store).add_scores(shown.project, [score])
    with shown.client as client:
        content = client.get("/traces.json").json()
        (asked,) = [each for each in content["traces"] if each["name"] == "asked"]
        page = client.get("/traces?q=&hours=&errors=&model=", follow_redirects=False)
        live = client.get("/traces?q=&live=1", follow_redirects=False)
        html = client.get("/traces").text
        of_trace = client.get(f"/trace/{asked_id.hex()}").text
    assert (content["n_matching"], "<b>3</b> traces" in html) == (3, True)
    assert asked["input"] == "What is Rome?"
    assert (len(asked["output"]), asked["output"][-1]) == (160, "…")
    assert asked["scores"] == {"tone": 0.5, "delay": 1.490161}
    assert "<div>delay <b>1.49</b></div><div>tone <b>0.5</b></div>" in html  # by name, as short as people read them
    assert f'span={span_id.hex()}">asked</a>' in of_trace
    assert '<td class="snippet">slow</td>' in of_trace
    assert '<span class="badge bad">1 failed</span>' in html
    assert (page.status_code, page.headers["location"]) == (303, "/traces")
    assert live.headers["location"] == "/traces?live=1"


def test_a_list_is_sorted_by_time_duration_tokens_and_cost(shown: Receiver) -> None:
    """The largest first, what is not known last; pages of such a list have each trace once."""
    for number in range(1, 61):
        shown.send(span(1, trace=f"{number:032x}", name=f"t{number}", start=-number, seconds=number))
    with shown.client as client:
        for sort, first in (
            ("took", "t60"),
            ("tokens", "invoke_agent guide"),
            ("cost", "invoke_agent guide"),
            ("", "invoke_agent"),
        ):
            page = client.get("/traces.json", params={"sort": sort}).json()
            names = [trace["name"] for trace in page["traces"]]
            assert names[0].startswith(first), sort
            names += [trace["name"] for trace in client.get(page["next"]).json()["traces"]]
            assert (len(names), len(set(names))) == (62, 62), sort
        html = client.get("/traces?sort=took").text
        assert re.search(r'aria-sort="descending"><a href="/traces\?sort=took">Took', html)
        assert (
            client.get("/traces?sort=colour").status_code == client.get("/traces?sort=took&page=x").status_code == 400
        )


def test_texts_are_rendered_and_json_is_indented(receiver: Receiver) -> None:
    """Markdown and code as they read, with the raw text beside; JSON on lines of its own, long ones folded."""
    long = json.dumps({"rows": list(range(100))})
    receiver.send(
        span(1, attributes={"input.value": '{"a": [1]}', "output.value": "**Rome**\n\n```python\nx = 1\n```"})
    )
    receiver.send(span(1, trace="02" * 16, attributes={"input.value": long, "output.value": "[not json"}))
    with receiver.client as client:
        first, second = (client.get(f"/trace/{trace}").text for trace in (TRACE, "02" * 16))
    assert "{\n  &#34;a&#34;: [\n    1\n  ]\n}</pre>" in first
    assert '<div class="rendered"><p><strong>Rome</strong></p>' in first
    assert '<div class="raw">**Rome**' in first
    assert 'id="raw-text"' in first
    assert "<details><summary>JSON, 104 lines</summary>" in second
    assert '<div class="raw">[not json</div>' in second


def test_older_traces_are_on_the_next_page(receiver: Receiver) -> None:
    """Every trace is on exactly one page."""
    receiver.send(*(span(1, trace=f"{number:032x}", name=f"t{number}", start=number) for number in range(1, 121)))
    path, names = "/traces.json", []
    with receiver.client as client:
        while path:
            page = client.get(path).json()
            names += [trace["name"] for trace in page["traces"]]
            path = page["next"]
    assert names == [f"t{number}" for number in range(120, 0, -1)]


def test_a_trace(shown: Receiver) -> None:
    """The tree has every step once; usage is counted once; the first failed step is shown, or the one asked for."""
    with shown.client as client:
        page = client.get(f"/trace/{TRACE}.json").json()
        names = [(step["name"], step["depth"]) for step in page["tree"]]
        assert names == [
            ("invoke_agent guide", 0),
            ("search", 1),
            ("chat gpt-4o", 1),
            ("execute_tool weather", 1),
            ("GET /weather", 2),
            ("ChatCompletion", 1),
        ]
        assert (page["trace"]["input_tokens"], page["trace"]["output_tokens"]) == (2000, 200)
        assert page["trace"]["cost"] == pytest.approx(2 * (1000 * 2.5e-6 + 100 * 10e-6))
        assert [step["counted"] for step in page["tree"]] == [False, False, True, False, False, True]
        assert (page["step"]["name"], page["step"]["error"]) == ("execute_tool weather", "no station in Rome")
        html = client.get(f"/trace/{TRACE}?span={3:016x}").text
        assert all(text in html for text in ("Weather in Rome?", "calls weather", "One moment."))
        assert "Rome is in Italy." in client.get(f"/trace/{TRACE}?span={2:016x}").text
        assert "sunny" in client.get(f"/trace/{TRACE}?span={4:016x}").text
        for wrong in ("/trace/xyz", f"/trace/{'f' * 32}", f"/trace/{TRACE}?span=1", f"/trace/{TRACE}?span={99:016x}"):
            assert client.get(wrong).status_code == 404


def test_hostile_spans_are_texts(receiver: Receiver) -> None:
    """Names, values and messages of every kind of odd text are stored, listed and shown as texts."""
    for number, text in enumerate(CORPUS.values(), 1):
        clean = text.encode("utf-8", "replace").decode()
        attributes = {
            "openinference.span.kind": "LLM",
            "llm.model_name": clean,
            "session.id": clean,
            "user.id": clean,
            "input.value": clean,
            "llm.output_messages.0.message.role": clean,
            "llm.output_messages.0.message.content": clean,
            f"x{clean}": clean,
        }
        status = {"code": 2, "message": clean}
        made = span(1, trace=f"{number:032x}", name=clean, attributes=attributes, status=status)
        answer = receiver.send(made, resource={"service.version": clean})
        assert answer.json() == {}, text
    with receiver.client as client:
        pages = [client.get("/traces"), client.get("/traces/sessions")]
        pages += [client.get(f"/trace/{number:032x}") for number in range(1, len(CORPUS) + 1)]
        for page in pages:
            assert page.status_code == 200
            assert "<script>alert" not in page.text
            assert "\x1b" not in page.text
            assert chr(0x202E) not in page.text  # which would reverse what follows
        assert len(client.get("/traces.json").json()["traces"]) == min(50, len(CORPUS))


def test_hostile_trees(receiver: Receiver) -> None:
    """Circles of parents, a span that is its own parent, and a chain of 3,000 are shown, each span once."""
    circle = [span(1, 2), span(2, 3), span(3, 1), span(4, 3), span(5, 5)]
    receiver.send(*circle)
    chain = [span(number, number - 1 or None, trace="0c" * 16) for number in range(1, 3001)]
    receiver.send(*reversed(chain))
    with receiver.client as client:
        page = client.get(f"/trace/{TRACE}.json").json()
        assert sorted(step["span_id"] for step in page["tree"]) == [f"{number:016x}" for number in range(1, 6)]
        notes = [note for step in page["tree"] for note in step["notes"]]
        assert notes.count("its parent is below it") == 2
        page = client.get(f"/trace/{'0c' * 16}.json").json()
        assert [step["depth"] for step in page["tree"]] == list(range(3000))
        assert client.get(f"/trace/{'0c' * 16}").status_code == 200


def test_hostile_sizes_and_nesting(receiver: Receiver) -> None:
    """A span of many megabytes is refused; deep values, many attributes and long names are kept and shown."""
    deep: dict[str, Any] = {"stringValue": "end"}
    for _ in range(28):
        deep = {"arrayValue": {"values": [deep]}}
    many = [{"key": f"k{number}", "value": {"stringValue": "v"}} for number in range(5000)]
    assert receiver.send(span(2, 1, attributes={"input.value": "x" * (9 << 20)})).status_code == 413
    answer = receiver.send(
        {**span(1, name="n" * 100_000), "attributes": [{"key": "deep", "value": deep}, *many]},
        {**span(3, 1), "attributes": [{"key": "tokens", "value": {"doubleValue": "NaN"}}, {"key": "empty"}]},
    )
    assert answer.json() == {}
    with receiver.client as client:
        page = client.get(f"/trace/{TRACE}?span={1:016x}")
        assert (page.status_code, len(page.content) < 5 << 20) == (200, True)
        assert client.get(f"/trace/{TRACE}.json?span={3:016x}").json()["step"]["attributes"]["tokens"] == "nan"


def test_a_damaged_root_leaves_the_list(shown: Receiver, tmp_path: Path) -> None:
    """Of a trace whose root's bytes have changed the list shows the facts without texts; the other one is whole."""
    with closing(sqlite3.connect(tmp_path / "traces.sqlite")) as connection, connection:
        (body,) = connection.execute("SELECT body FROM spans WHERE name = 'other'").fetchone()
        connection.execute("UPDATE spans SET body = ? WHERE name = 'other'", (body[:-1] + bytes([body[-1] ^ 1]),))
    with shown.client as client:
        listed = client.get("/traces.json").json()["traces"]
    assert [(each["name"], bool(each["input"] or each["output"])) for each in listed][-1] == ("other", False)
    assert len(listed) == 2


@pytest.mark.slow
def test_a_large_tree_is_quick(receiver: Receiver) -> None:
    """A tree of 5,000 spans is divided into pages, that with the chosen step is shown, and the JSON twin is whole."""
    for first in range(1, 5001, 500):
        numbers = range(first, first + 500)
        spans = (span(number, number // 10 if number > 1 else None, start=number) for number in numbers)
        assert receiver.send(*spans).json() == {}
    with receiver.client as client:
        began = time.monotonic()
        page = client.get(f"/trace/{TRACE}").text
        assert time.monotonic() - began < 30  # one query for each span would take minutes
        assert (page.count('<rect class="bar'), "page 1 of 10" in page) == (500, True)
        tree = client.get(f"/trace/{TRACE}.json").json()["tree"]
        assert len({step["span_id"] for step in tree}) == len(tree) == 5000
        for at in (0, 499, 500, 4999):
            page = client.get(f"/trace/{TRACE}?span={tree[at]['span_id']}").text
            assert (f"page {at // 500 + 1} of 10" in page, 'class="chosen"' in page) == (True, True), at
        assert "page 10 of 10" in client.get(f"/trace/{TRACE}?page=10").text
        assert "page 10 of 10" in client.get(f"/trace/{TRACE}?page=99").text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(shown: Receiver, browser: Any, scheme: str, width: int, tmp_path: Path) -> None:
    """A browser signs in, opens a trace and a step, and watches a new trace arrive; nothing overflows."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(f"{shown.url}/traces")
    page.fill("input[name=key]", shown.token)
    page.click("text=Read >> nth=-1")
    page.wait_for_selector("table.traces")
    page.screenshot(path=tmp_path / f"list-{scheme}-{width}.png", full_page=True)
    page.click("text=invoke_agent guide")
    page.wait_for_selector("section.step")
    page.click("text=chat gpt-4o")
    page.wait_for_selector("text=Weather in Rome?")
    page.screenshot(path=tmp_path / f"trace-{scheme}-{width}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.goto(f"{shown.url}/traces?live=1")
    shown.send(span(1, trace="07" * 16, name="just now", start=1))
    page.wait_for_selector("text=just now", timeout=15_000)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert problems == []
    context.close()


def test_the_otlp_of_a_trace_can_be_sent_again(shown: Receiver) -> None:
    """The export of a trace's page is a request that changes nothing when it is received."""
    with shown.client as client:
        body = client.get(f"/trace/{TRACE}/otlp").text
        assert len(json.loads(body)["resourceSpans"]) == 1
        answer = client.post("/v1/traces", content=body, headers={"content-type": "application/json"})
    assert answer.json() == {}
    assert TraceLog(shown.store).trace(shown.project, bytes.fromhex(TRACE)).n_spans == 6
