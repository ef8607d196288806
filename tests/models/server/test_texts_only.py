"""A server that accepts only texts is sent texts, and every server's error messages are shown."""

import json
from typing import Any

import pytest

from assaymark.models.server.failures import failure_of_answer

pytest.importorskip("torch")
from tests.models.server.behind_server import answers, behind, choices, local, many, run_of, text_request
from tests.models.server.openai_server import TestServer


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_server_that_accepts_only_texts_is_sent_texts(server: TestServer, status: int) -> None:
    """After one refusal all prompts are texts, the answers equal those of tokens, and the attempt records it."""
    requests = [*many(6), *(text_request(i, f"Number {i} is") for i in range(10, 13))]
    expected = answers(behind(server, num_concurrent=4), requests)
    server.reset(texts_only=status)
    model = behind(server, num_concurrent=4)
    result = answers(model, requests)
    assert all(output.error is None for output in result.values())
    for key, output in result.items():
        assert output.text == expected[key].text
        assert output.total_nats == pytest.approx(expected[key].total_nats, abs=1e-4)
    refused = [body for body in server.seen.bodies if not isinstance(body["prompt"], str)]
    assert len(refused) == (1 if status < 500 else 6)  # llama.cpp's 500 is tried again, before and after a text
    described: Any = model.describe()
    assert described["tokenized_requests"] is False
    assert "the server accepts texts only" in described["notes"][0]
    assert "'prompt' must be a string" in described["notes"][0]


def test_scores_of_texts_equal_our_engines(server: TestServer) -> None:
    """Such a server's scores of a text's tokens equal our own engine's for the same tokens."""
    server.reset(texts_only=400)
    result, expected = answers(behind(server), [choices(0)]), answers(local(), [choices(0)])
    for key, output in result.items():
        assert output.total_nats == pytest.approx(expected[key].total_nats, abs=1e-3)
        assert output.is_greedy == expected[key].is_greedy


def test_a_run_on_such_a_server_is_complete(server: TestServer) -> None:
    """The run is finished, and records in its attempt what was sent."""
    server.reset(texts_only=400)
    run = run_of(server)
    assert run.row.status == "finished"
    summary: Any = run.attempts()[0]["summary"]
    assert "the server accepts texts only" in summary["model"]["notes"][0]


def test_a_failing_server_is_not_taken_for_one_of_texts(server: TestServer) -> None:
    """If tokens are accepted once the server works again, prompts stay tokens."""
    server.reset(failing=3)
    result = answers(behind(server), many(2))
    assert all(output.error is None for output in result.values())
    assert isinstance(server.seen.bodies[-1]["prompt"], list)


def test_a_refusal_for_another_reason_changes_nothing(server: TestServer) -> None:
    """If the text is refused too, the request fails with the server's message about the tokens."""
    server.reset(refused=2)
    result = answers(behind(server), [choices(0, "The sky is", " blue"), choices(1, "The sky is", " red")])
    assert sorted(output.error is None for output in result.values()) == [False, True]
    assert isinstance(server.seen.bodies[-1]["prompt"], list)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "out of memory", "code": 500}}, "out of memory"),
        ({"error": "out of memory"}, "out of memory"),
        ({"error": None, "message": "out of memory"}, "out of memory"),
        ({"detail": "out of memory"}, "out of memory"),
        (
            {"detail": [{"loc": ["body", "prompt"], "msg": "not a string"}, {"msg": "too long"}]},
            "body.prompt: not a string; too long",
        ),
        ({"object": "error", "message": "out of memory"}, "out of memory"),
        ({"code": 7}, "{'code': 7}"),
        ("out of memory", "out of memory"),
        ('{"error": ' * 100 + "7" + "}" * 100, "7"),
        ('{"error": ' * 5000, '{"error": ' * 30),
    ],
)
def test_a_500_is_reported_with_the_servers_message(body: Any, words: str) -> None:
    """The messages in OpenAI's, FastAPI's and vLLM's errors are shown, and plain text too."""
    text = body if isinstance(body, str) else json.dumps(body)
    result = failure_of_answer(500, {}, text).message
    assert result.startswith("500 Internal Server Error: ")
    assert words.strip() in result
