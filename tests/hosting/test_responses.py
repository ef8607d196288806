"""`/v1/responses` on a real host: texts as of chats, calls and their results, forms, streams, refusals by field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from assaymark.hosting.app import HostSettings
from tests.hosting.calling_model import calling_model
from tests.hosting.running import hosting, post
from tests.hosting.test_required_forms import SCHEMA, WEATHER
from tests.hosting.test_tools import CALL, model_of

QUESTION = "Where does Berin live?"
FLAT: dict[str, Any] = {"type": "function", **WEATHER["function"]}
FORMAT: dict[str, Any] = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}


@pytest.fixture
def url(tool_host: str) -> str:
    """Return the address of a host."""
    return tool_host


def respond(url: str, **body: Any) -> dict[str, Any]:
    """Return a response."""
    answer = post(url, "/responses", **{"input": QUESTION, "max_output_tokens": 40, **body})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def streamed(url: str, **body: Any) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response; each event's name is its type."""
    asked = {"input": QUESTION, "max_output_tokens": 40, "stream": True, **body}
    with httpx.stream("POST", url + "/responses", json=asked, timeout=60) as answer:
        assert answer.status_code == 200
        name = ""
        for line in answer.iter_lines():
            key, _, value = line.partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                event = json.loads(value)
                assert event["type"] == name
                yield event


def chat(url: str, messages: list[dict[str, Any]], **body: Any) -> dict[str, Any]:
    """Return the one choice of a chat."""
    answer = post(url, "/chat/completions", messages=messages, **{"max_tokens": 40, **body})
    assert answer.status_code == 200, answer.text
    return {**answer.json()["choices"][0], "usage": answer.json()["usage"]}


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        (QUESTION, [{"role": "user", "content": QUESTION}]),
        (
            [
                {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "In a town."}]},
                {"role": "user", "content": "Which?"},
            ],
            [
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": "In a town."},
                {"role": "user", "content": "Which?"},
            ],
        ),
    ],
)
def test_the_text_is_that_of_the_chat(url: str, items: Any, messages: list[dict[str, Any]]) -> None:
    """Instructions are the system message; seed, limits and usage are the same."""
    response = respond(url, input=items, instructions="Be brief.", seed=7, temperature=1.0)
    same = chat(url, [{"role": "system", "content": "Be brief."}, *messages], seed=7, temperature=1.0)
    (item,) = response["output"]
    assert (item["type"], item["role"]) == ("message", "assistant")
    assert item["content"][0]["text"] == same["message"]["content"]
    is_cut = same["finish_reason"] == "length"
    assert response["status"] == item["status"] == ("incomplete" if is_cut else "completed")
    assert response["incomplete_details"] == ({"reason": "max_output_tokens"} if is_cut else None)
    assert response["usage"]["input_tokens"] == same["usage"]["prompt_tokens"]
    assert response["usage"]["output_tokens"] == same["usage"]["completion_tokens"]
    assert (response["object"], response["store"], response["model"]) == ("response", False, "small")


@pytest.mark.parametrize("ignore_eos", [True, False])
def test_a_stream_says_what_the_whole_response_says(url: str, ignore_eos: bool) -> None:
    """Numbers count from 0, pieces join to the text (with this seed an empty one), the last event has the whole."""
    whole = respond(url, seed=3, temperature=1.0, ignore_eos=ignore_eos)
    events = list(streamed(url, seed=3, temperature=1.0, ignore_eos=ignore_eos))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"].removeprefix("response.") for event in events]
    pieces = [kind for kind in kinds if kind == "output_text.delta"]
    assert [kind for kind in kinds if kind != "output_text.delta"] == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.done", "content_part.done", "output_item.done", whole["status"]),
    ]
    assert len(pieces) > 3 or not ignore_eos
    text = whole["output"][0]["content"][0]["text"]
    assert "".join(event["delta"] for event in events if event["type"].endswith("text.delta")) == text
    last = events[-1]["response"]
    assert last["output"][0]["content"][0]["text"] == text
    assert (last["usage"], last["status"]) == (whole["usage"], whole["status"])
    assert last["id"] == events[0]["response"]["id"]


def test_a_forced_call_is_an_item(url: str) -> None:
    """With its name and arguments; a stream has it whole."""
    pytest.importorskip("llguidance")
    forced: dict[str, Any] = {"tools": [FLAT], "tool_choice": {"type": "function", "name": "weather"}, "seed": 1}
    response = respond(url, max_output_tokens=80, **forced)
    (call,) = response["output"]
    assert (call["type"], call["name"], call["status"]) == ("function_call", "weather", "completed")
    assert set(json.loads(call["arguments"])) == {"city"}
    events = {event["type"]: event for event in streamed(url, max_output_tokens=80, **forced)}
    assert events["response.function_call_arguments.done"]["arguments"] == call["arguments"]
    assert events["response.completed"]["response"]["output"][0]["arguments"] == call["arguments"]


def test_calls_and_their_results_are_sent_back(tmp_path: Path) -> None:
    """A call after a text, both items; with its output the model goes on as in a chat."""
    template = (
        "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{% for message in messages %}"
        "{{ message.role }}{% if message.name %} {{ message.name }}{% endif %}: {{ message.content }}"
        "{% for call in message.tool_calls %}{{ call.function.name }} {{ call.function.arguments.city }}{% endfor %} | "
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    with hosting(model_of(calling_model(tmp_path, CALL, template)), HostSettings()) as calling:
        response = respond(calling, tools=[FLAT], temperature=0)
        message, call = response["output"]
        assert (message["type"], message["content"][0]["text"]) == ("message", "I look.")
        assert (call["type"], json.loads(call["arguments"])) == ("function_call", {"city": "Oslo"})
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
        items = [{"role": "user", "content": QUESTION}, message, call, result]
        after = respond(calling, input=items, tools=[FLAT], temperature=0)
        sent = {
            "id": call["call_id"],
            "type": "function",
            "function": {name: call[name] for name in ("name", "arguments")},
        }
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": "I look.", "tool_calls": [sent]},
            {"role": "tool", "tool_call_id": call["call_id"], "content": "rain"},
        ]
        same = chat(calling, messages, tools=[WEATHER], temperature=0)
        assert after["usage"]["input_tokens"] == same["usage"]["prompt_tokens"]
        kinds = [event["type"] for event in streamed(calling, tools=[FLAT], temperature=0)]
        assert kinds.index("response.output_text.done") < kinds.index("response.function_call_arguments.done")


def test_a_required_form_is_kept(url: str) -> None:
    """`text.format` with a schema: a completed response is JSON of it."""
    pytest.importorskip("llguidance")
    response = respond(url, text=FORMAT, max_output_tokens=200, seed=1)
    assert response["status"] == "completed"
    jsonschema.validate(json.loads(response["output"][0]["content"][0]["text"]), SCHEMA)
    assert response["text"] == FORMAT


@pytest.mark.parametrize(
    ("changes", "param", "words"),
    [
        ({"store": True}, "store", "stores nothing"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the whole conversation as input"),
        ({"background": True}, "background", "not supported"),
        ({"conversation": "conv_1"}, "conversation", "send the whole conversation"),
        ({"tools": [{"type": "web_search"}]}, "tools", "expected type function"),
        ({"tool_choice": {"type": "file_search"}, "tools": [FLAT]}, "tool_choice", "expected auto"),
        ({"input": []}, "input", "a text, or a list of items"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input", "function_call_output"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input", "texts only"),
        ({"input": [{"role": "nobody", "content": "x"}]}, "input", "a role"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, "input", "x"),
        ({"max_output_tokens": -1}, "max_output_tokens", "max_output_tokens is -1"),
        ({"text": {"format": {"type": "xml"}}}, "text.format", "json_schema"),
        ({"max_tokens": 3}, "max_tokens", "nearest: max_output_tokens"),
        ({"instructions": 3}, "instructions", "a text"),
        ({"model": "other"}, "model", "offers 'small'"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_field(url: str, changes: dict[str, Any], param: str, words: str) -> None:
    """With the field that the request has, and what to do instead."""
    answer = post(url, "/responses", **{"input": QUESTION, **changes})
    assert answer.status_code in {400, 404}, answer.text
    error = answer.json()["error"]
    assert error["param"] == param, error
    assert words in error["message"], error
    assert "messages" not in error["message"]
