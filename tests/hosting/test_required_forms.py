"""Answers of a required form, forced calls, penalties and biases, of the small demo model on a real host."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema
import pytest
import torch

from assaymark.engine.adjustments import Adjustment, adjust
from tests.hosting.running import post
from tests.hosting.test_host import streamed

pytest.importorskip("llguidance")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "town": {"type": "string", "maxLength": 10},
        "n": {"type": "integer", "minimum": 0, "maximum": 99},
        "kinds": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["town", "n", "kinds"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "Where does Berin live?"}]}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
TIDES: dict[str, Any] = {
    "type": "function",
    "function": {"name": "tides", "parameters": {"type": "object", "properties": {"day": {"enum": ["today"]}},
                                                 "required": ["day"], "additionalProperties": False}},
}  # fmt: skip


@pytest.fixture
def url(tool_host: str) -> str:
    """Return the address of a host."""
    return tool_host


def choices(url: str, **more: Any) -> list[dict[str, Any]]:
    """Return the choices of one chat."""
    response = post(url, "/chat/completions", **{**ASKED, "max_tokens": 80, **more})
    assert response.status_code == 200, response.text
    return list(response.json()["choices"])


def test_every_answer_that_ends_is_json_of_its_schema(url: str) -> None:
    """Whatever is drawn, for several repeats, greedy and sampled, beside requests without a form."""
    results = [
        choice
        for temperature in (0, 1.0, 3.0)
        for choice in choices(url, response_format=FORM, temperature=temperature, n=4, seed=5)
    ]
    assert all(each["finish_reason"] == "stop" for each in results)
    for result in results:
        jsonschema.validate(json.loads(result["message"]["content"]), SCHEMA)
    assert len({item["message"]["content"] for item in results}) > 4


def test_a_form_changes_no_other_request(url: str) -> None:
    """The text of a request without a form is the same alone and beside requests that have one."""
    plain = {"temperature": 0, "max_tokens": 40, "messages": [{"role": "user", "content": "One evening Berin had to"}]}
    alone = choices(url, **plain)[0]["message"]["content"]
    with ThreadPoolExecutor(6) as pool:
        formed = [pool.submit(choices, url, response_format=FORM, seed=n) for n in range(4)]
        beside = [pool.submit(choices, url, **plain) for _ in range(2)]
        assert {each.result()[0]["message"]["content"] for each in beside} == {alone}
        for item in formed:
            jsonschema.validate(json.loads(item.result()[0]["message"]["content"]), SCHEMA)


def test_a_stream_has_the_form_too(url: str) -> None:
    """The pieces together are JSON of the schema."""
    chunks = streamed(url, "/chat/completions", **ASKED, response_format=FORM, max_tokens=80, seed=3)
    text = "".join(each["delta"].get("content") or "" for chunk in chunks for each in chunk["choices"])
    jsonschema.validate(json.loads(text), SCHEMA)


def test_any_object_and_a_cut_one(url: str) -> None:
    """json_object is an object where it ends by itself; one that reaches max_tokens says so."""
    for choice in choices(url, response_format={"type": "json_object"}, n=8, seed=1, temperature=2.0, max_tokens=120):
        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["message"]["content"]), dict)
        else:
            assert choice["finish_reason"] == "length"
    (cut,) = choices(url, response_format=FORM, max_tokens=4)
    assert cut["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("choice", "names"),
    [("required", {"weather", "tides"}), ({"type": "function", "function": {"name": "tides"}}, {"tides"})],
)
def test_a_forced_call_is_a_call_of_its_schema(url: str, choice: Any, names: set[str]) -> None:
    """Required: of any of the tools; named: of that one. Its arguments fulfil the declared parameters."""
    tools = [WEATHER, TIDES]
    parameters = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for each in choices(url, tools=tools, tool_choice=choice, n=4, seed=2, temperature=1.5):
        assert each["finish_reason"] == "tool_calls", each
        (call,) = each["message"]["tool_calls"]
        assert call["function"]["name"] in names
        jsonschema.validate(json.loads(call["function"]["arguments"]), parameters[call["function"]["name"]])
    chunks = streamed(url, "/chat/completions", **ASKED, tools=tools, tool_choice=choice, max_tokens=80)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("more", "param", "said"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}},
         "response_format", '"not"'),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#"}}}},
         "response_format", "no answer can have the schema"),
        ({"response_format": {"type": "xml"}}, "response_format", "json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "schema"),
        ({"response_format": FORM, "stop": ["x"]}, "stop", "exclude"),
        ({"response_format": FORM, "ignore_eos": True}, "ignore_eos", "exclude"),
        ({"response_format": FORM, "tools": [WEATHER], "tool_choice": "required"}, "tool_choice", "exclude"),
        ({"tool_choice": "required"}, "tool_choice", "no tools"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice", "'x'"),
        ({"tools": [WEATHER], "tool_choice": "always"}, "tool_choice", "required"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias", "99999999"),
        ({"logit_bias": {"5": 101}}, "logit_bias", "-100 to 100"),
        ({"logit_bias": [5]}, "logit_bias", "object"),
        ({"frequency_penalty": 3}, "frequency_penalty", "-2 to 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_name(url: str, more: dict[str, Any], param: str, said: str) -> None:
    """400, the field, and one line with the keyword, the token or the bounds."""
    response = post(url, "/chat/completions", **ASKED, **more)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert said in error["message"]
    assert "\n" not in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_can_never_end_is_no_answer(url: str, *, stream: bool) -> None:
    """A schema that requires itself within itself has no finite text: the request fails and never says `stop`."""
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    response = post(url, "/chat/completions", **ASKED, response_format=form, max_tokens=20, stream=stream)
    assert "requires more without end" in response.text or '"finish_reason":"length"' in response.text.replace(" ", "")
    assert '"finish_reason":"stop"' not in response.text.replace(" ", "")


def test_biases_and_penalties_reach_the_text(url: str) -> None:
    """A token with +100 is all there is, and with -100 is not there; penalties leave no token twice where they can."""

    def tokens(**more: Any) -> list[str]:
        body = {"prompt": "5 and 7 are", "temperature": 0, "max_tokens": 12, "ignore_eos": True, "logprobs": 0, **more}
        return list(post(url, "/completions", **body).json()["choices"][0]["logprobs"]["tokens"])

    tokenize = httpx.post(f"{url}/completions", json={"prompt": " 12", "max_tokens": 1}, timeout=60)
    assert tokenize.status_code == 200
    plain = tokens()
    biased = tokens(logit_bias={"300": 100})
    assert len(set(biased)) == 1
    assert biased[0] not in tokens(logit_bias={"300": -100})
    assert len(set(plain)) < len(plain)
    assert len(set(tokens(frequency_penalty=2, presence_penalty=2))) > len(set(plain))


def test_the_adjustment_of_a_row_is_openais() -> None:
    """Bias added; c * frequency + presence taken from tokens that occurred c times; others than the mask's excluded."""
    logits = torch.zeros(40)
    words = torch.tensor([0b1011, 1 << 7], dtype=torch.int32).numpy()
    asked: list[tuple[int, list[int]]] = []

    def mask(repeat: int, so_far: Any) -> Any:
        asked.append((repeat, list(so_far)))
        return words

    adjust(logits, Adjustment({1: 2.5, 39: 1.0}, 0.5, 0.25, mask), 3, [0, 0, 1, 5])
    assert asked == [(3, [0, 0, 1, 5])]
    expected = torch.full((40,), -torch.inf)
    expected[0], expected[1], expected[3], expected[39] = -1.25, 2.5 - 0.75, 0.0, 1.0
    assert torch.equal(logits, expected)
