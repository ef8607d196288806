"""Models behind an OpenAI-compatible server give a real model's answers, as runs and from Python."""

from typing import Any

import pytest

from assaymark.errors import UsageError
from assaymark.models.create import create_model
from assaymark.records import Request, RollingQuery
from assaymark.records.json_values import object_at, object_of
from assaymark.runs.evaluate import evaluate
from assaymark.runs.planning import plan_run

pytest.importorskip("torch")
from tests.models.server.behind_server import (
    MODEL,
    TASK,
    answers,
    behind,
    choices,
    local,
    model_args,
    run_of,
    text_request,
)
from tests.models.server.openai_server import TestServer


@pytest.mark.parametrize("given", [{}, {"tokenized_requests": False}, {"num_concurrent": 4}], ids=str)
def test_scores_equal_the_local_models(server: TestServer, given: dict[str, Any]) -> None:
    """Log-likelihoods, greediness and token counts equal our engine's on the same weights, sent as tokens or texts."""
    requests = [choices(0), choices(1, "A dog and a cat"), Request("task", 2, "", (), (RollingQuery(0, "A cat sat."),))]
    ours, theirs = answers(local(), requests), answers(behind(server, **given), requests)
    assert theirs.keys() == ours.keys()
    for key, output in ours.items():
        result = theirs[key]
        assert result.error is None
        assert result.total_nats == pytest.approx(output.total_nats, abs=1e-4)
        assert result.is_greedy == output.is_greedy
        assert (result.n_context_tokens, result.n_tokens) == (output.n_context_tokens, output.n_tokens)
        assert result.cache_key is None  # the weights are unknown


@pytest.mark.parametrize("adds_bos", [False, True])
def test_without_a_tokenizer_the_server_shows_where_a_choice_begins(server: TestServer, adds_bos: bool) -> None:
    """Texts are sent and the last tokens that spell the choice are scored, also if the server adds BOS."""
    server.reset(adds_bos=adds_bos)
    requests = [choices(0, "The sky is", " blue", " green and red"), choices(1, "A dog and a cat", " sat")]
    result = answers(behind(server, tokenizer=None, tokenizer_backend="none"), requests)
    begun = create_model("hf", f"pretrained={MODEL},dtype=float32,device=cpu,add_bos_token={adds_bos}")
    for key, output in answers(begun, requests).items():
        assert result[key].total_nats == pytest.approx(output.total_nats, abs=1e-4)
        assert (result[key].n_context_tokens, result[key].n_tokens) == (output.n_context_tokens, output.n_tokens)


def test_texts_equal_the_local_models(server: TestServer) -> None:
    """Greedy texts, with and without stops, equal our engine's; truncated ones have finish reason length."""
    requests = [
        text_request(0),
        text_request(1, "The sun", stop=(" the",)),
        text_request(2, "A cat", stop=(".", "dog")),
    ]
    ours = answers(local(), requests)
    for each in ({}, {"tokenized_requests": False}, {"tokenizer": None, "tokenizer_backend": "none"}):
        theirs = answers(behind(server, **each), requests)
        assert {key: output.text for key, output in theirs.items()} == {key: o.text for key, o in ours.items()}
        assert {o.finish_reason for o in theirs.values()} <= {"stop", "length"}
        assert theirs["task/0/0", 0, 0].n_tokens == 8
    assert server.seen.bodies[0]["stop"] == ["</s>"]


def test_repeats_differ_and_are_reproducible(server: TestServer) -> None:
    """Repeats have their own seeds; greedy ones are requested once."""
    drawn = text_request(0, do_sample=True, temperature=1.0, repeats=3)
    first, again = (answers(behind(server), [drawn]) for _ in range(2))
    assert first == again
    assert len({output.text for output in first.values()}) == 3
    server.reset()
    greedy = answers(behind(server), [text_request(0, repeats=3)])
    assert (len(greedy), len(server.seen.bodies)) == (3, 1)


def test_chats_are_sent_as_messages(server: TestServer) -> None:
    """The server applies its template; system text and turns arrive unchanged, and reasoning is stored."""
    server.reset(thinks=True)
    run = evaluate(
        "local-chat-completions",
        "demo_sums",
        model_args=model_args(server, tokenizer=None),
        limit=2,
        num_fewshot=1,
        apply_chat_template=True,
        system_instruction="Be brief.",
        gen_kwargs={"max_gen_toks": 4},
    )
    roles = [message["role"] for message in server.seen.bodies[0]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    record = run.samples("demo_sums")[0]
    assert record.request.segments == ()
    assert record.outputs[0].reasoning == "let me see"
    assert run.answers[0].ends["length"] > 0


def test_reasoning_in_the_text_is_separated(server: TestServer) -> None:
    """With think_end_token the text before it is stored as reasoning; no stop is sent, and stops apply after it."""
    request = Request("task", 0, "", (), text_request(0, stop=(".",)).queries, messages=())
    plain = answers(behind(server), [text_request(0)])["task/0/0", 0, 0].text or ""
    word = plain.split()[1]
    server.reset()
    output = answers(behind(server, think_end_token=word), [text_request(0, stop=(".",))])["task/0/0", 0, 0]
    assert "stop" not in server.seen.bodies[0]
    assert output.reasoning is not None
    assert word not in (output.text or word)
    assert request.queries  # a chat endpoint refuses requests without messages
    with pytest.raises(UsageError, match="--apply_chat_template"):
        answers(behind(server, kind="local-chat-completions"), [request])


def picked_of(detail: object) -> object:
    """Return the choice that a score's detail names."""
    return object_of(detail, "detail")["picked"]


def test_a_run_is_complete_and_records_its_server(server: TestServer) -> None:
    """The picks equal the local model's; the second time nothing is sent; the run records its server."""
    run = run_of(server, num_concurrent=3)
    args = {"pretrained": str(MODEL), "dtype": "float32", "add_bos_token": False}
    ours = evaluate("hf", TASK, model_args=args, limit=6)
    picked = [[score.detail for score in record.scores] for record in run.samples(TASK)]
    for mine, theirs in zip(picked, [[s.detail for s in r.scores] for r in ours.samples(TASK)], strict=True):
        assert [picked_of(d) for d in mine if d] == [picked_of(d) for d in theirs if d]
    assert dict(run.row.plan.model.options)["base_url"] == f"{server.url}/completions"
    assert object_at(object_at(run.attempts()[-1], "summary"), "model")["num_concurrent"] == 3
    n_sent = len(server.seen.bodies)
    again = run_of(server, num_concurrent=3)
    assert again.result is not None
    assert again.result.was_stored
    assert len(server.seen.bodies) == n_sent


def test_a_plan_sends_nothing() -> None:
    """`plan` works without a server, and counts tokens if there is a tokenizer."""
    args: dict[str, Any] = {"model": "m", "base_url": "http://127.0.0.1:9", "tokenizer": str(MODEL)}
    work = plan_run("local-completions", TASK, model_args=args, limit=3).chunks[0].work
    assert work.n_tokens_asked is not None
    assert work.n_tokens_asked > 50
    bare = {**args, "tokenizer": None, "tokenizer_backend": "none"}
    assert plan_run("local-completions", TASK, model_args=bare, limit=3).chunks[0].work.n_tokens_asked is None


@pytest.mark.slow
def test_outputs_are_shared_between_runs_only_if_the_weights_are_named(server: TestServer) -> None:
    """Another run sends all requests again; with weights= it uses an earlier run's outputs, whatever the port."""
    run_of(server, limit=2)
    n_first = len(server.seen.bodies)
    run_of(server, limit=3)
    assert len(server.seen.bodies) > 2 * n_first - 1
    run_of(server, limit=2, weights="demo@1")
    n_before = len(server.seen.bodies)
    run_of(server, limit=3, weights="demo@1")
    assert len(server.seen.bodies) - n_before < n_first


def test_the_bill_of_choices_is_what_was_sent(server: TestServer) -> None:
    """Each scored choice costs the tokens of its prompt and one that is generated, as the server received them."""
    server.reset()
    run = evaluate("local-completions", TASK, model_args=model_args(server, seed=77), limit=3, price="3,5")
    sent = [len(body["prompt"][0]) for body in server.seen.bodies]
    assert run.cost is not None
    assert (run.cost["n_read"], run.cost["n_generated"]) == (sum(sent), len(sent))
    assert run.cost["spent"] == pytest.approx((3 * sum(sent) + 5 * len(sent)) / 1e6)
    assert run.cost["n_estimated"] == 0
