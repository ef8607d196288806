"""Tools go to a chat server as OpenAI's `tools`; its answers with calls are stored whole, scored, and shown.

The answers have the shapes that servers send: OpenAI (content null, arguments as JSON text), vLLM (an empty list beside
plain text, content beside calls), Ollama's and older servers' arguments as an object, and `function_call`, which came
before `tool_calls`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.documents.document import document
from assaymark.documents.terminal import as_text
from assaymark.interop.export_tables import wrong_rows
from assaymark.records.json_values import object_of
from assaymark.results.views.samples import sample_example, sample_to_json
from assaymark.runs.evaluate import evaluate
from assaymark.runs.rescoring import RescoreOptions, rescore_run
from assaymark.runs.run import Run
from assaymark.store import Store
from tests.http_servers import JsonHandler, LoopbackServer, serving

Json = dict[str, Any]
ADD = {
    "name": "math.add",
    "description": "Add numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}
RIGHT = {"name": "math_add", "arguments": '{"a": 1, "b": 2}'}


def called(*functions: Json, **more: Any) -> Json:
    """Return a message with calls, as OpenAI sends it."""
    calls = [{"id": f"call_{i}", "type": "function", "function": each} for i, each in enumerate(functions)]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


ANSWERS: dict[str, tuple[Json, float, str | None]] = {
    "openai": (called(RIGHT), 1.0, None),
    "vllm with text": (called(RIGHT, content="I will add.", reasoning_content="1 + 2", refusal=None), 1.0, None),
    "object as arguments": (called({"name": "math_add", "arguments": {"a": 1, "b": 2}}), 1.0, None),
    "older": ({"role": "assistant", "content": None, "function_call": RIGHT}, 1.0, None),
    "as text": ({"role": "assistant", "content": f"<tool_call>{json.dumps(RIGHT)}</tool_call>"}, 1.0, None),
    "words": ({"role": "assistant", "content": "It is 3.", "tool_calls": []}, 0.0, "no_call"),
    "nothing": ({"role": "assistant", "content": ""}, 0.0, "no_call"),
    "twice": (called(RIGHT, RIGHT), 0.0, "wrong_count"),
    "other name": (called({**RIGHT, "name": "math.add"}), 0.0, "wrong_function"),
    "text for number": (called({**RIGHT, "arguments": '{"a": "1", "b": 2}'}), 0.0, "wrong_type"),
    "other value": (called({**RIGHT, "arguments": '{"a": 1, "b": 3}'}), 0.0, "wrong_value"),
    "too few": (called({**RIGHT, "arguments": '{"a": 1}'}), 0.0, "missing_parameter"),
    "too many": (called({**RIGHT, "arguments": '{"a": 1, "b": 2, "c": 3}'}), 0.0, "unexpected_parameter"),
    "no JSON": (called({**RIGHT, "arguments": "{a: 1}"}), 0.0, "not_parsed"),
    "unwanted": (called(RIGHT), 0.0, "unwanted_call"),
    "rightly silent": ({"role": "assistant", "content": "Hello!"}, 1.0, None),
    "rightly null": ({"role": "assistant", "content": None, "tool_calls": []}, 1.0, None),
    "rightly nothing": ({"role": "assistant", "content": None}, 1.0, None),
    "wrongly null": ({"role": "assistant", "content": None, "tool_calls": []}, 0.0, "no_call"),
    "unwanted and no JSON": (called({**RIGHT, "arguments": "{a: 1}"}), 0.0, "not_parsed"),
    "unwanted and no function": (
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        0.0,
        "not_parsed",
    ),
    "unwanted as text": ({"role": "assistant", "content": f"Well: {json.dumps(RIGHT)}"}, 0.0, "unwanted_call"),
    "unwanted and cut off": ({"role": "assistant", "content": '<tool_call>{"name": "math'}, 0.0, "not_parsed"),
}
SILENT = ("unwanted", "rightly")


class _Handler(JsonHandler):
    """Answers each question with the message recorded for it."""

    server: "ToolServer"

    def do_GET(self) -> None:
        """List the only model."""
        self.send_json({"data": [{"id": "m"}]})

    def do_POST(self) -> None:
        """Answer the last message; without tools every request is refused."""
        body = self.read_json()
        self.server.bodies.append(body)
        if self.server.refuses or "tools" not in body:
            self.send_json({"error": {"message": "this model does not support tools"}}, 400)
            return
        message = ANSWERS[body["messages"][-1]["content"]][0]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 9, "completion_tokens": 4}
        self.send_json({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})


class ToolServer(LoopbackServer):
    """A chat server on a free port of this machine."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.bodies: list[Json] = []
        self.refuses = False

    @property
    def url(self) -> str:
        """The address of its chat endpoint."""
        return f"{self.address}/v1/chat/completions"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Return a file with one question for each answer."""
    path = tmp_path / "sums.jsonl"
    expected = [{"name": "math.add", "arguments": {"a": 1, "b": 2}}]
    lines = [
        {
            "question": name,
            "tools": [{"type": "function", "function": ADD}],
            "calls": [] if name.startswith(SILENT) else expected,
        }
        for name in ANSWERS
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def run_of(server: ToolServer, rows: Path, **options: Any) -> Run:
    """Return a run of the questions."""
    args = {"model": "m", "base_url": server.url, "max_retries": 1}
    return evaluate("local-chat-completions", [str(rows)], model_args=args, **options)


def test_every_shape_of_answer_is_read_and_scored(rows: Path) -> None:
    """Each answer gets its verdict and reason; the calls are stored as they came, and the text beside them."""
    with serving(ToolServer()) as server:
        run = run_of(server, rows)
    records = list(run.samples("sums"))
    assert len(records) == len(ANSWERS)
    for record in records:
        message, value, reason = ANSWERS[record.request.messages[-1].text]
        (score,), (output,) = record.scores, record.outputs
        detail = object_of(score.detail or {}, "detail")
        assert (score.value, detail.get("reason")) == (value, reason), record.request.messages
        calls = message.get("tool_calls") or ([{"type": "function", "function": message["function_call"]}]
                                              if "function_call" in message else None)  # fmt: skip
        assert (None if output.tool_calls is None else json.loads(output.tool_calls)) == (calls or None)
        assert output.text == (message.get("content") or "")
        assert output.reasoning == message.get("reasoning_content")
        result = as_text(document(sample_example([record])), width=200)
        assert (f"{reason}: " in result) == (reason is not None)
        assert ("tool_calls: [" in result) == bool(calls)
        assert sample_to_json(record)["tools"] == record.request.tools
    estimate = next(iter(run.estimates))
    n_right = sum(value for _, value, _ in ANSWERS.values())
    n_unread = sum(reason == "not_parsed" for _, _, reason in ANSWERS.values())
    assert (estimate.metric, estimate.value, estimate.n_unparsed) == ("call_match", n_right / len(ANSWERS), n_unread)


def test_the_server_gets_openais_tools(rows: Path) -> None:
    """The body has the declarations, with a name that OpenAI accepts, without --apply_chat_template too."""
    with serving(ToolServer()) as server:
        run_of(server, rows, limit=1)
    (body,) = server.bodies
    assert body["tools"] == [{"type": "function", "function": {**ADD, "name": "math_add"}}]
    assert body["messages"] == [{"role": "user", "content": "openai"}]
    assert "stop" not in body


@pytest.mark.slow
def test_a_stored_run_is_read_back_and_not_sent_again(rows: Path, tmp_path: Path) -> None:
    """Tools are part of the stored request: the same plan is the same run, rescoring gives the same scores."""
    store = str(tmp_path / "runs.sqlite")
    with serving(ToolServer()) as server:
        first = run_of(server, rows, store=store)
        again = run_of(server, rows, store=store)
        assert len(server.bodies) == len(ANSWERS)
    assert first.id == again.id
    opened = Store.open(store)
    requests = [record.request for record in opened.samples(first.id, "sums")]
    assert {json.loads(request.tools or "")[0]["function"]["name"] for request in requests} == {"math_add"}
    assert opened.unanswered(first.id, requests) == []
    scores = {record.request.id: record.scores[0].value for record in first.samples("sums")}
    rescore_run(first, RescoreOptions(task_files=(str(rows),)))
    assert {record.request.id: record.scores[0].value for record in first.samples("sums")} == scores


def test_a_server_that_refuses_tools_fails_and_is_never_wrong(rows: Path) -> None:
    """A refused request is a failure with the server's words, not a wrong answer."""
    with serving(ToolServer()) as server:
        server.refuses = True
        run = run_of(server, rows, limit=2)
    estimate = next(iter(run.estimates))
    assert (estimate.value, estimate.n_failed) == (None, 2)
    assert all("does not support tools" in (r.outputs[0].error or "") for r in run.samples("sums"))


def test_exports_have_the_calls(rows: Path, tmp_path: Path) -> None:
    """A file of wrong answers shows what was called, though its format has only a text."""
    with serving(ToolServer()) as server:
        run = run_of(server, rows)
    wrong = list(wrong_rows(run.store, run.id))
    answers = {row["prompt"]: row["answer"] for row in wrong}
    assert answers["words"] == "It is 3."
    assert str(answers["twice"]).startswith('tool_calls: [{"id": "call_0"')
