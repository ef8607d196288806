"""Tools in chat requests: the template shows them, and calls that the model writes come back as `tool_calls`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.hosting.answer_bodies import spoken, tools_in
from assaymark.hosting.app import HostSettings
from assaymark.hosting.request_bodies import read_messages
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from tests.hosting.calling_model import calling_model
from tests.hosting.running import hosting, post
from tests.hosting.test_host import streamed

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "Weather in Oslo?"}], "temperature": 0}
CALL = ["I look. ", "<tool_call>", '{"name": "weather", ', '"arguments": {"city": ', '"Oslo"}}', "</tool_call>"]


def model_of(folder: Path) -> LocalModel:
    """Return the model of a folder, run by our engine in this process."""
    model = create_model("hf", {"pretrained": str(folder), "dtype": "float32", "device": "cpu", "n_slots": 4})
    assert isinstance(model, LocalModel)
    return model


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a host whose model always calls `weather`."""
    folder = calling_model(tmp_path_factory.mktemp("calling"), CALL)
    with hosting(model_of(folder), HostSettings()) as address:
        yield address


def test_a_call_is_returned_as_tool_calls(calling: str) -> None:
    """Name and arguments as JSON, an id, the text before it, the finish reason; the prompt has the tools."""
    body = post(calling, "/chat/completions", **ASKED, tools=[WEATHER]).json()
    (choice,) = body["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["id"].startswith("call_")
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("weather", {"city": "Oslo"})
    assert choice["message"]["content"] == "I look."
    assert choice["finish_reason"] == "tool_calls"
    plain = post(calling, "/chat/completions", **ASKED).json()
    assert body["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]  # the template shows the tools


def test_a_result_is_answered(tmp_path: Path) -> None:
    """A client sends the message back as it came, with the result: the template shows the call and its result."""
    template = (
        "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{% for message in messages %}"
        "{{ message.role }}{% if message.name %} {{ message.name }}{% endif %}: {{ message.content }}"
        "{% for call in message.tool_calls %}{{ call.function.name }} {{ call.function.arguments.city }}{% endfor %} | "
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    model = model_of(calling_model(tmp_path, CALL, template))
    with hosting(model, HostSettings()) as address:
        said = post(address, "/chat/completions", **ASKED, tools=[WEATHER]).json()["choices"][0]["message"]
        (call,) = said["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "rain"}
        messages = [*ASKED["messages"], said, result]
        answer = post(address, "/chat/completions", messages=messages, tools=[WEATHER], temperature=0)
    assert answer.status_code == 200, answer.text
    actual = model.render(read_messages(messages), tools=json.dumps([WEATHER]))
    assert actual == (
        "weather user: Weather in Oslo? | assistant: I look.weather Oslo | tool weather: rain | <|assistant|>"
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"tool_calls": 5}, "messages[1].tool_calls is 5; expected a list"),
        ({"tool_calls": [{"id": "1"}]}, "messages[1].tool_calls[0] is"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, "messages[1].tool_calls[0].id is null"),
        ({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "[]"}}]}, "the JSON text of an object"),
        ({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]}, "the JSON text of an object"),
        ({"tool_calls": [{"id": "1", "function": {"name": "f"}}]}, "the JSON text of an object"),
        ({"role": "tool", "content": "x", "tool_call_id": "2"}, 'tool_call_id is "2"; expected the id of a call'),
        ({"role": "tool", "content": "x", "tool_call_id": ["2"]}, 'tool_call_id is ["2"]; expected the id of a call'),
        ({"role": "user", "content": "x", "tool_calls": []}, "messages[1] has tool_calls"),
        ({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}, "ignores `tool_calls`"),
    ],
)
def test_wrong_messages_are_refused_with_one_line(calling: str, message: dict[str, Any], expected: str) -> None:
    """400, the message, and what is wrong; a template that does not show a call refuses it."""
    messages = [*ASKED["messages"], {"role": "assistant", **message}]
    response = post(calling, "/chat/completions", messages=messages)
    assert response.status_code == 400
    assert expected in response.json()["error"]["message"]


def test_without_tools_it_is_a_text(calling: str) -> None:
    """Without tools, and with tool_choice none, nothing is parsed; so with another function than the model calls."""
    other = {"type": "function", "function": {"name": "time"}}
    inputs: list[dict[str, Any]] = [
        {}, {"tools": []}, {"tools": [WEATHER], "tool_choice": "none"}, {"tools": [other]},
    ]  # fmt: skip
    for more in inputs:
        (choice,) = post(calling, "/chat/completions", **ASKED, **more).json()["choices"]
        assert choice["message"]["content"] == "".join(CALL)
        assert "tool_calls" not in choice["message"]
        assert choice["finish_reason"] == "stop"


def test_streams_end_with_the_call(calling: str) -> None:
    """The call is one piece, since it is known when it is complete; a text without call is the same text."""
    chunks = streamed(calling, "/chat/completions", **ASKED, tools=[WEATHER])
    last = chunks[-1]["choices"][0]
    assert last["finish_reason"] == "tool_calls"
    assert last["delta"]["content"] == "I look."
    (call,) = last["delta"]["tool_calls"]
    assert (call["index"], call["function"]["name"]) == (0, "weather")
    assert not any(chunk["choices"][0]["delta"].get("content") for chunk in chunks[:-1])
    other = {"type": "function", "function": {"name": "time"}}
    chunks = streamed(calling, "/chat/completions", **ASKED, tools=[other])
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "".join(CALL)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_truncated_call_is_a_text(calling: str) -> None:
    """What ends in the middle of a call cannot be read; it stays as the model wrote it."""
    (choice,) = post(calling, "/chat/completions", **ASKED, tools=[WEATHER], max_tokens=4).json()["choices"]
    assert choice["message"]["content"] == "".join(CALL[:4])
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"tools": [WEATHER], "tool_choice": "always"}, 'tool_choice="always"; expected auto, none, required'),
        ({"tools": {"name": "f"}}, "tools are no list"),
        ({"tools": [WEATHER, WEATHER]}, "two tools are called weather"),
        ({"tools": [{"type": "web_search"}]}, "tool 1"),
        ({"tools": [WEATHER] * 200}, "at most 128 declarations"),
    ],
)
def test_wrong_tools_are_refused_with_one_line(calling: str, more: dict[str, Any], expected: str) -> None:
    """400, the field, and what is wrong."""
    response = post(calling, "/chat/completions", **ASKED, **more)
    error = response.json()["error"]
    assert response.status_code == 400
    assert expected in error["message"]
    assert "\n" not in error["message"]
    assert error["param"] in ("tools", "tool_choice")


def test_a_template_without_tools_refuses_them(url: str) -> None:
    """The demo model's template ignores them: 400 with one line; completions have no tools."""
    response = post(url, "/chat/completions", **ASKED, tools=[WEATHER])
    assert response.status_code == 400
    assert "ignores tools" in response.json()["error"]["message"]
    assert response.json()["error"]["param"] == "tools"
    response = httpx.post(url + "/completions", json={"prompt": "x", "tools": [WEATHER]}, timeout=60)
    assert response.status_code == 400


@pytest.mark.parametrize(
    ("text", "n_calls"),
    [
        ('{"name": "weather", "parameters": {"city": "Oslo"}}', 1),  # Llama 3
        ('[{"name": "weather", "arguments": {"city": "Oslo"}}, {"name": "weather", "arguments": {}}]', 2),
        ('[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Oslo"}}]', 1),
        ('{"name": "other", "arguments": {}}', 0),
        ('{"name": "weather", "arguments"', 0),
        ("It is cold in Oslo.", 0),
    ],
)
def test_calls_in_other_syntaxes(text: str, n_calls: int) -> None:
    """Calls of declared functions are read in every syntax; all else stays the text that it is."""
    tools = tools_in([WEATHER], "auto")
    assert tools is not None
    result = spoken(text, tools)
    assert len(result.calls) == n_calls
    assert result.content == (None if n_calls else text)
