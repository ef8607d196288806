"""Whatever is sent, the answer is a text or an error in OpenAI's form, never a traceback."""

import json
import random
from typing import Any

import httpx
import pytest

from assaymark.hosting.bad_request import BadRequest
from assaymark.hosting.request_bodies import parse_body, read_ask

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "temperature": 0}
COMPLETION = {"prompt": "Hi", "max_tokens": 2, "temperature": 0}
STRANGE: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e308, 10**30, "", "x", "\x00\ud83d", [], [[]], [1, "a"], [[1], "a"], {}, {"a": 1}, [None],
    [-1], [2**40], [10**9], [[[1]]], ["a"] * 65, "a" * 5000,
)  # fmt: skip
JSON = {"Content-Type": "application/json"}
FIELDS = (
    "model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop", "n",
    "stream", "stream_options", "logprobs", "user", "ignore_eos", "messages", "prompt", "echo", "top_logprobs", "tools",
    "suffix", "response_format", "logit_bias", "best_of", "continue_final_message", "nonsense", "max_completion_tokens",
)  # fmt: skip
MESSAGES: tuple[Any, ...] = (
    [{}], [{"role": "user"}], [{"role": "king", "content": "x"}], [{"role": "user", "content": None}], ["Hi"],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}],
    [{"role": "user", "content": [{"type": "text"}]}], [{"role": ["user"], "content": "x"}],
    [{"role": "assistant", "content": "x", "tool_calls": [{}]}], [{"role": "tool", "content": "x"}], "Hi",
    {"role": "user"}, [[]],
)  # fmt: skip


def is_error(answer: httpx.Response) -> bool:
    """Return whether an answer is an error in OpenAI's form."""
    error = answer.json().get("error", {})
    return {"message", "type", "param", "code"} == error.keys() and bool(error["message"]) and "Trace" not in str(error)


@pytest.mark.slow
def test_malformed_bodies_get_one_clear_error(url: str) -> None:
    """Each field with each strange value, and bodies that are no JSON objects: 200 or 4xx, never 5xx."""
    draw = random.Random(1)
    n_refused = 0
    with httpx.Client(timeout=60) as http:
        for path, good in (("/chat/completions", CHAT), ("/completions", COMPLETION)):
            pairs = [(name, value) for name in FIELDS for value in STRANGE]
            for name, value in draw.sample(pairs, 150):
                answer = http.post(url + path, content=json.dumps({**good, name: value}), headers=JSON)
                assert answer.status_code == 200 or (400 <= answer.status_code < 500 and is_error(answer)), (
                    name,
                    value,
                )
                n_refused += answer.status_code != 200
            for content in (b"", b"{", b"[]", b"\xff", b"null", b"1", b"[" * 1000, b'{"a":' * 30 + b"1" + b"}" * 30):
                answer = http.post(url + path, content=content, headers=JSON)
                assert answer.status_code == 400
                assert is_error(answer)
        for messages in MESSAGES:
            answer = http.post(url + "/chat/completions", json={**CHAT, "messages": messages})
            assert answer.status_code == 400
            assert is_error(answer)
        answer = http.post(url + "/completions", json={**COMPLETION, "prompt": "a" * (17 << 20)})
        assert answer.status_code == 413
        for method, path in (("GET", "/completions"), ("DELETE", "/models"), ("POST", "/embeddings")):
            answer = http.request(method, url + path)
            assert answer.status_code in (404, 405)
            assert is_error(answer)
    assert n_refused > 100


def test_too_long_prompts_are_refused_with_openais_code(url: str) -> None:
    """A prompt beyond the model's positions is refused, never truncated."""
    answer = httpx.post(url + "/completions", json={"prompt": [5] * 1020, "max_tokens": 10}, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("name", ["temprature", "max_token", "top_logprob"])
def test_a_misspelled_field_is_refused_with_the_nearest(name: str) -> None:
    """A setting that would be ignored is refused, with the field that was probably meant."""
    with pytest.raises(BadRequest, match="nearest: "):
        read_ask("chat", {**CHAT, name: 1})


def test_neutral_values_are_accepted() -> None:
    """Fields that this host does not support are accepted with the values that change nothing."""
    neutral = {
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "logit_bias": {},
        "tools": [],
        "suffix": None,
        "store": True,
    }
    assert read_ask("completion", {**COMPLETION, **neutral}).settings.max_tokens == 2
    with pytest.raises(BadRequest, match="best_of"):
        read_ask("completion", {**COMPLETION, "best_of": 2})


def test_deep_json_is_refused() -> None:
    """Nesting is bounded before the body is parsed."""
    with pytest.raises(BadRequest, match="nested deeper"):
        parse_body(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}")
