"""Streams of completions with `echo`: the prompt first, then what is generated; together they are the whole answer."""

from typing import Any

import pytest

from tests.hosting.running import post
from tests.hosting.test_host import streamed

PROMPT = "Harin took the rope. In the end"


def joined(chunks: list[dict[str, Any]], index: int = 0) -> dict[str, Any]:
    """Return a streamed choice as a whole one: texts and lists of log-probabilities one after the other."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    results: dict[str, Any] = {"text": "".join(choice["text"] for choice in choices)}
    results["finish_reason"] = choices[-1]["finish_reason"]
    assert all(choice["finish_reason"] is None for choice in choices[:-1])
    parts = [choice["logprobs"] for choice in choices if choice["logprobs"] is not None]
    results["logprobs"] = (
        {name: [each for part in parts for each in part[name]] for name in parts[0]} if parts else None
    )
    return results


@pytest.mark.parametrize(
    "body",
    [
        {"max_tokens": 12},
        {"max_tokens": 12, "logprobs": 2},
        {"max_tokens": 1, "logprobs": 0},
        {"max_tokens": 0, "logprobs": 3},
        {"max_tokens": 0},
        {"max_tokens": 6, "n": 3, "seed": 4, "temperature": 1.0, "logprobs": 1},
        {"max_tokens": 6, "prompt": [PROMPT, "Nanesh saw"], "logprobs": 1},
    ],
)
def test_a_stream_with_echo_is_the_whole_answer(url: str, body: dict[str, Any]) -> None:
    """Text, tokens, log-probabilities, offsets and finish reason of each choice; the usage too."""
    asked = {"prompt": PROMPT, "temperature": 0, "echo": True, **body}
    whole = post(url, "/completions", **asked).json()
    chunks = streamed(url, "/completions", **asked, stream_options={"include_usage": True})
    assert chunks[-1]["usage"] == whole["usage"]
    for choice in whole["choices"]:
        result = joined(chunks, choice["index"])
        assert result["text"] == choice["text"]
        assert result["finish_reason"] == choice["finish_reason"]
        if choice["logprobs"] is None:
            assert result["logprobs"] is None
            continue
        for name in ("tokens", "text_offset"):
            assert result["logprobs"][name] == choice["logprobs"][name]
        nats = choice["logprobs"]["token_logprobs"]
        assert result["logprobs"]["token_logprobs"][0] is nats[0] is None
        assert result["logprobs"]["token_logprobs"][1:] == pytest.approx(nats[1:], abs=1e-4)
        assert len(result["logprobs"]["top_logprobs"]) == len(choice["logprobs"]["top_logprobs"])


def test_the_prompt_comes_first(url: str) -> None:
    """The first chunk is the prompt, before anything is generated."""
    chunks = streamed(url, "/completions", prompt=PROMPT, max_tokens=4, temperature=0, echo=True)
    assert chunks[0]["choices"][0]["text"] == PROMPT
    assert len(chunks) > 1
