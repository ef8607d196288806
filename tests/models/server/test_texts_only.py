"""A server that takes texts only is asked with texts, and what any server says of an error is shown."""

import json
from typing import Any

import pytest

from evalstone.models.server.failures import failure_of_answer

pytest.importorskip("torch")
from tests.models.server.behind_server import answers, behind, choices, local, many, run_of, writing
from tests.models.server.openai_server import TestServer


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_takes_texts_only_is_sent_texts(server: TestServer, status: int) -> None:
    """After one refusal all prompts are texts, the answers are those of tokens, and the attempt says so."""
    requests = [*many(6), *(writing(i, f"Number {i} is") for i in range(10, 13))]
    expected = answers(behind(server, num_concurrent=4), requests)
    server.reset(texts_only=status)
    model = behind(server, num_concurrent=4)
    found = answers(model, requests)
    assert all(output.error is None for output in found.values())
    for key, output in found.items():
        assert output.text == expected[key].text
        assert output.total_nats == pytest.approx(expected[key].total_nats, abs=1e-4)
    refused = [body for body in server.seen.bodies if not isinstance(body["prompt"], str)]
    assert len(refused) == 1
    told: Any = model.describe()
    assert told["tokenized_requests"] is False
    assert "the server takes texts only" in told["notes"][0]
    assert "'prompt' must be a string" in told["notes"][0]


def test_scores_of_texts_are_our_engines(server: TestServer) -> None:
    """What such a server says of a text's tokens is what our own engine says of the same tokens."""
    server.reset(texts_only=400)
    found, expected = answers(behind(server), [choices(0)]), answers(local(), [choices(0)])
    for key, output in found.items():
        assert output.total_nats == pytest.approx(expected[key].total_nats, abs=1e-3)
        assert output.is_greedy == expected[key].is_greedy


def test_a_run_on_such_a_server_is_whole(server: TestServer) -> None:
    """The run is finished, and says in its attempt what was sent."""
    server.reset(texts_only=400)
    run = run_of(server)
    assert run.row.status == "finished"
    summary: Any = run.attempts()[0]["summary"]
    assert "the server takes texts only" in summary["model"]["notes"][0]


def test_a_refusal_for_another_reason_changes_nothing(server: TestServer) -> None:
    """A request that is refused as a text too has failed with the server's words about the tokens that were sent."""
    server.reset(refused=2)
    found = answers(behind(server), [choices(0, "The sky is", " blue"), choices(1, "The sky is", " red")])
    assert sorted(output.error is None for output in found.values()) == [False, True]
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
            "not a string; too long",
        ),
        ({"object": "error", "message": "out of memory"}, "out of memory"),
        ({"code": 7}, "{'code': 7}"),
        ("out of memory", "out of memory"),
        ('{"error": ' * 100 + "7" + "}" * 100, "7"),
        ('{"error": ' * 5000, '{"error": ' * 30),
    ],
)
def test_a_500_is_told_in_the_servers_words(body: Any, words: str) -> None:
    """OpenAI's, FastAPI's and vLLM's forms of an error give their words, plain text too."""
    text = body if isinstance(body, str) else json.dumps(body)
    found = failure_of_answer(500, {}, text).message
    assert found.startswith("500 Internal Server Error: ")
    assert words.strip() in found
