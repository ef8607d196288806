"""Spans of one's own code arrive with what it was given and returned, and tie rows of experiments to their traces."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import httpx
import pytest

import assaymark
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceFilter
from assaymark.errors import UsageError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.applications.traces.sending import Receiver
from tests.served import running


def run(source: str, tmp_path: Path, **environment: str) -> str:
    """Run a program with these variables; return what it printed."""
    file = tmp_path / "app.py"
    file.write_text(textwrap.dedent(source))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command, variables = [sys.executable, str(file)], {**kept, **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def steps(receiver: Receiver, name: str) -> list[dict[str, Any]]:
    """Return the steps of the trace whose first step has a name."""
    page = TraceLog(receiver.store).traces(receiver.project, TraceFilter())
    (result,) = [trace for trace in page.traces if trace.name == name]
    with receiver.client as client:
        tree = client.get(f"/trace/{result.trace_id.hex()}.json").json()["tree"]
        made = []
        for row in tree:
            address = f"/trace/{result.trace_id.hex()}.json?span={row['span_id']}"
            made.append({**client.get(address).json()["step"], "depth": row["depth"]})
        return made


def settings(receiver: Receiver) -> dict[str, str]:
    """Return OpenTelemetry's own variables for a receiver."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{receiver.token}",
        "OTEL_SERVICE_NAME": "guide",
    }


APPLICATION = """
    import asyncio
    import assaymark

    @assaymark.trace(kind="retriever")
    def search(query, most=2):
        with assaymark.span("rank", kind="reranker", input=query) as step:
            step.documents(["Rome is in Italy.", {"id": "d2", "content": "So is Milan.", "score": 0.5}])
        return ["Rome is in Italy."]

    @assaymark.trace(kind="llm")
    def stream(prompt):
        yield "Ro"
        yield "me"

    class Guide:
        @assaymark.trace(name="guide", kind="agent", session__id="s1")
        async def answer(self, question):
            search(question)
            with assaymark.span("ask", kind="llm", user__id="ada") as step:
                step.model("gpt-4o", 1000, 100)
                call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
                step.messages([{"role": "user", "content": question}],
                              [{"role": "assistant", "content": None, "tool_calls": [call]}])
            try:
                await self.check(question)
            except ValueError:
                pass
            return "".join(stream(question))

        @assaymark.trace
        async def check(self, question):
            raise ValueError("no such city")

    print(asyncio.run(Guide().answer("Capital?")))
"""


def test_spans_of_an_application(receiver: Receiver, tmp_path: Path) -> None:
    """Functions, coroutines, generators and blocks make one tree, with inputs, outputs, errors and usage."""
    assert run(APPLICATION, tmp_path, **settings(receiver)) == "Rome\n"
    made = {step["name"]: step for step in steps(receiver, "guide")}
    assert [(name, step["kind"], step["depth"]) for name, step in made.items()] == [
        ("guide", "agent", 0),
        ("search", "retriever", 1),
        ("rank", "reranker", 2),
        ("ask", "llm", 1),
        ("check", "chain", 1),
        ("stream", "llm", 1),
    ]
    assert json.loads(made["guide"]["input"]) == {"question": "Capital?"}
    assert (made["guide"]["output"], made["guide"]["session"]) == ("Rome", "s1")
    assert json.loads(made["search"]["output"]) == ["Rome is in Italy."]
    assert [document["text"] for document in made["rank"]["documents"]] == ["Rome is in Italy.", "So is Milan."]
    assert (made["ask"]["input_tokens"], made["ask"]["cost"], made["ask"]["user"]) == (1000, 0.0035, "ada")
    assert made["ask"]["output_messages"][0]["parts"][0]["name"] == "look"
    assert (made["check"]["is_error"], made["check"]["error"]) == (True, "ValueError: no such city")
    assert made["stream"]["output"] == "Rome"
    assert made["guide"]["resource"]["service.name"] == "guide"


def test_no_value_ends_the_program_or_loses_its_spans(receiver: Receiver, tmp_path: Path) -> None:
    """What cannot be shown or sent as it is has a note or a text in its place; a text may stand for messages."""
    source = r"""
    import assaymark

    class Closed:
        def __repr__(self):
            raise RuntimeError("the session is closed")

    @assaymark.trace
    def look(thing):
        return thing

    with assaymark.span("odd \ud800", kind="llm") as step:
        step.set(large=2**70, half="a\ud800b")
        step.messages("How many?", "Two.")
        step.messages([{"role": "user", "content": "Look", "tool_calls": ["none"]}])
        look(Closed())
        try:
            with assaymark.span("fails"):
                raise ValueError("\udcff")
        except ValueError:
            print("went on")
    """
    assert run(source, tmp_path, **settings(receiver)) == "went on\n"
    odd, look, fails = steps(receiver, "odd \ufffd")
    assert (odd["attributes"]["large"], odd["attributes"]["half"]) == (str(2**70), "a\ufffdb")
    assert [message["parts"][0]["text"] for message in odd["output_messages"]] == ["Two."]
    assert "whose __repr__ raised RuntimeError" in look["output"]
    assert fails["error"] == "ValueError: \ufffd"


def test_without_a_destination_nothing_changes(tmp_path: Path) -> None:
    """Decorated code runs as plain code, and the SDK is not even imported."""
    check = "\n    import sys\n    print('opentelemetry' in sys.modules)\n"
    assert run(APPLICATION + check, tmp_path) == "Rome\nFalse\n"


def test_a_destination_in_code(receiver: Receiver, tmp_path: Path) -> None:
    """`send_traces` names endpoint, token and version; what is wrong with them is said."""
    source = f"""
        import assaymark
        assaymark.send_traces({receiver.url!r}, {receiver.token!r}, service="bot", version="3.1")
        with assaymark.span("hello") as step:
            step.output({{"a": 1}})
        try:
            assaymark.send_traces({receiver.url!r})
        except assaymark.errors.UsageError as error:
            print(error)
    """
    assert "a tracer provider already" in run(source, tmp_path)
    (row,) = TraceLog(receiver.store).traces(receiver.project, TraceFilter(version="3.1")).traces
    assert (row.name, row.service) == ("hello", "bot")
    with pytest.raises(UsageError, match="expected http"):
        assaymark.send_traces("localhost:7500")
    with pytest.raises(UsageError, match="the kind of step"):
        assaymark.trace(kind="thing")


def test_a_trace_is_continued_from_the_environment(receiver: Receiver, tmp_path: Path) -> None:
    """A program that finds TRACEPARENT is a part of that trace."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = f"00-{trace}-b7ad6b7169203331-01"
    run("import assaymark\nwith assaymark.span('inner'): pass", tmp_path, TRACEPARENT=parent, **settings(receiver))
    (row,) = TraceLog(receiver.store).spans(receiver.project, bytes.fromhex(trace))
    assert (row.name, row.parent_id) == ("inner", bytes.fromhex("b7ad6b7169203331"))


EXPERIMENT = """
    import asyncio, sys
    import assaymark

    @assaymark.trace
    def plain(question):
        with assaymark.span("inside"):
            return question.upper()

    @assaymark.trace
    async def waiting(question):
        with assaymark.span("inside"):
            await asyncio.sleep(0)
        return question.upper()

    rows = [{"question": f"q{number}", "expected": f"Q{number}"} for number in range(3)]
    for target in (plain, waiting):
        run = assaymark.evaluate(target, rows, scorers=["exact"], store=sys.argv[1] if sys.argv[1:] else None)
        print(run.id)
"""


@pytest.mark.slow
def test_a_row_of_an_experiment_shows_its_trace(receiver: Receiver, tmp_path: Path) -> None:
    """Spans of a target are in the trace of their row, in threads and in the event loop, and its page links to it."""
    place = str(tmp_path / "traces.sqlite")
    printed = run(EXPERIMENT, tmp_path, ASSAYMARK_STORE=place, **settings(receiver))
    run_ids = printed.split()[-2:]
    ids = []
    with Store.open_to_read(place) as store:
        for run_id in run_ids:
            for sample in store.samples(run_id, "rows"):
                ids += [json.loads(output.call or "{}")["trace_id"] for output in sample.outputs]
    assert len(set(ids)) == 6
    for trace in ids:
        rows = TraceLog(receiver.store).spans(receiver.project, bytes.fromhex(trace))
        assert [row.name for row in rows] == [rows[0].name, "inside"]
        assert rows[1].parent_id == rows[0].span_id
    (tmp_path / "board.yaml").write_text("title: Apps\nname: apps\ntasks:\n- {task: rows, column: Rows}\n")
    boards = board_feature(Site([read_board(tmp_path / "board.yaml")], StoredRuns(Store.open_to_read(place))))
    from assaymark.applications.traces.redaction import Redaction
    from assaymark.applications.traces.routes import trace_feature

    app = create_app([boards, trace_feature(receiver.store, Redaction())])
    with running(app) as url:
        page = httpx.get(f"{url}/run/{run_ids[0]}/samples/rows/0", timeout=30).text
        (trace,) = [trace for trace in ids if f'href="/trace/{trace}"' in page]
        headers = {"authorization": f"Bearer {receiver.token}"}
        assert httpx.get(f"{url}/trace/{trace}.json", headers=headers).json()["trace"]["spans"] == 2
    with running(create_app([boards])) as url:
        page = httpx.get(f"{url}/run/{run_ids[0]}/samples/rows/0", timeout=30).text
        assert (f'href="/trace/{trace}"' in page, trace in page) == (False, True)
