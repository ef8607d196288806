"""Letter choices scored by the first token's log-probabilities; our engine on the same weights is the oracle.

The server is `assaymark host`, which computes the log-probabilities of the demo's model really.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import PlanError, UsageError
from assaymark.models.server.failures import HttpFailure
from assaymark.models.server.first_token import FirstToken, FirstTokenTally, questions_of, read_first_token
from assaymark.records import BOUND, FIRST_TOKEN, LoglikelihoodQuery, Output, Request, RollingQuery
from assaymark.records.json_values import object_at
from assaymark.runs.evaluate import evaluate
from assaymark.runs.planning import plan_run
from assaymark.runs.run import Run

pytest.importorskip("torch")
from assaymark.hosting.app import HostSettings
from tests.hosting.running import MODEL, NAME, hosting, local_model

TASK = "demo_letters_nature"
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # kind -> model arguments, options
    "local-chat-completions": ({}, {"apply_chat_template": True}),
    "local-completions": ({"tokenizer_backend": "none"}, {}),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Host the demo's model."""
    with hosting(local_model(), HostSettings()) as result:
        yield result


def asked(url: str, kind: str, n_top: int | None, store: Path, **more: Any) -> Run:
    """Evaluate the hosted model."""
    arguments, options = KINDS[kind]
    model_args = {"model": NAME, "base_url": url, **arguments, **({} if n_top is None else {"top_logprobs": n_top})}
    return evaluate(kind, more.pop("tasks", TASK), model_args=model_args, limit=8, store=store, **options, **more)


def outputs_of(run: Run) -> dict[tuple[str, int], Output]:
    """Return the outputs of a run by request and query."""
    return {(each.request.id, output.ask_index): output for each in run.samples(TASK) for output in each.outputs}


@pytest.mark.parametrize("kind", KINDS)
def test_choices_equal_the_local_engines(url: str, kind: str, tmp_path: Path) -> None:
    """Log-probabilities of letters among the given tokens, and so the choices, are those of our engine.

    A letter that is outside has a bound above its own log-probability, and below every choice that is inside.
    """
    arguments = {"pretrained": str(MODEL), "dtype": "float32", "device": "cpu"}
    ours = evaluate("hf", TASK, model_args=arguments, limit=8, store=tmp_path / "local.sqlite", **KINDS[kind][1])
    for n_top in (20, 3):
        result = asked(url, kind, n_top, tmp_path / "server.sqlite")
        expected, outside = outputs_of(ours), 0
        for key, output in outputs_of(result).items():
            nats, true = output.total_nats, expected[key].total_nats
            assert nats is not None
            assert true is not None
            if output.finish_reason == FIRST_TOKEN:
                assert nats == pytest.approx(true, abs=1e-4)
            else:
                assert output.finish_reason == BOUND
                assert true <= nats + 1e-4
                outside += 1
        estimate, own = result.estimate(TASK, "acc"), ours.estimate(TASK, "acc")
        assert (estimate.value, estimate.n, estimate.n_failed) == (own.value, own.n, 0)
        assert estimate.details["n_first_token"] == estimate.n
        assert estimate.details["n_outside"] == outside
        assert (outside > 0) == (n_top == 3 or kind == "local-completions")
        assert ("brier" in estimate.details) == (outside == 0)  # undefined, not computed from bounds
        facts = dict(object_at(object_at(object_at(result.attempts()[-1], "summary"), "model"), "first_token"))
        assert isinstance(facts.pop("n_elsewhere"), int)
        assert facts == {"top_logprobs": n_top, "n_questions": 8, "n_choices_outside": outside, "n_undecided": 0}


def test_it_is_asked_for_and_recorded(url: str, tmp_path: Path) -> None:
    """Without top_logprobs a chat refuses multiple choice, and names it; with it the run's plan and key have it."""
    with pytest.raises(PlanError, match=r"top_logprobs=20 in --model_args"):
        asked(url, "local-chat-completions", None, tmp_path / "runs.sqlite")
    first, second = (asked(url, "local-chat-completions", n, tmp_path / "runs.sqlite") for n in (20, 10))
    assert ("top_logprobs", 20) in first.row.plan.model.options
    assert first.id != second.id
    assert "scored by the first generated token" in str(first)
    result = str(asked(url, "local-completions", 3, tmp_path / "runs.sqlite"))
    assert "not among the" in result


def test_questions_that_nothing_decides_fail(url: str, tmp_path: Path) -> None:
    """With one token no letter is certain to be the best: every question fails, is counted, and none is wrong."""
    result = asked(url, "local-chat-completions", 1, tmp_path / "runs.sqlite")
    estimate = result.estimate(TASK, "acc")
    assert (estimate.value, estimate.n, estimate.n_failed) == (None, 0, 8)
    assert "undecided: 3 of 4 choices are not among the 1 most probable" in estimate.details["first_error"]


def test_other_choices_are_refused_before_anything_is_sent(url: str, tmp_path: Path) -> None:
    """Choices that are words are refused by the plan too, with the prompt style that makes letters of them."""
    model_args = {"model": NAME, "base_url": url, "tokenizer_backend": "none", "top_logprobs": 5}
    with pytest.raises(UsageError, match=r"is not a single letter.*--prompt_style letter"):
        plan_run("local-completions", "demo_facts", model_args=model_args)
    done = asked(url, "local-completions", 20, tmp_path / "runs.sqlite", tasks="demo_facts", prompt_style="letter")
    estimate = done.estimate("demo_facts", "acc")
    assert estimate.n + estimate.n_failed == 8


def question(*letters: str) -> Request:
    """Return a request with these choices."""
    return Request("t", 0, "", ("Q",), tuple(LoglikelihoodQuery(i, text) for i, text in enumerate(letters)))


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        ({"A": -0.5, " B": -1.0, "x": -2.0}, [(-0.5, FIRST_TOKEN), (-1.0, FIRST_TOKEN)]),
        ({"A": -0.5, " A": -0.2, "B": -0.3}, [(-0.2, FIRST_TOKEN), (-0.3, FIRST_TOKEN)]),  # the better spelling
        ({"A": -0.5, "x": -2.0}, [(-0.5, FIRST_TOKEN), (-2.0, BOUND)]),
        ({"x": -0.1, "A": -0.5, "y": -2.0}, [(-0.5, FIRST_TOKEN), (-2.0, BOUND)]),  # it would say x
        ({"x": -0.5, "A": -2.0}, None),  # B may be as probable as A
        ({"x": -0.5, "y": -2.0}, None),
        ({"A": -0.5}, None),
        ({"b": -0.1, "A": -3.0, "B": -6.0}, None),  # it says B, in another spelling
        ({"(B": -0.1, "A": -3.0, "B": -6.0}, None),
        ({"b": -0.1, "B": -3.0, "A": -6.0}, [(-6.0, FIRST_TOKEN), (-3.0, FIRST_TOKEN)]),
    ],
)
def test_what_is_outside_is_bounded(top: dict[str, float], expected: list[tuple[float, str]] | None) -> None:
    """A letter that is not given has the lowest given log-probability as its bound; without a sure winner all fail."""
    (asked,) = questions_of([question(" A", " B")], is_chat=False)
    tally = FirstTokenTally()
    result = tally.outputs(asked, FirstToken(top, min(top.values()), 7))
    if expected is None:
        assert all(output.error is not None and "undecided" in output.error for output in result)
        assert tally.n_undecided == 1
    else:
        assert [(output.total_nats, output.finish_reason) for output in result] == expected
        assert [output.is_greedy for output in result] == [nats == max(top.values()) for nats, _ in expected]
        assert tally.n_elsewhere == (max(nats for nats, _ in expected) < max(top.values()))
    assert all(output.n_context_tokens == 7 for output in result)


CHAT = {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [
    {"token": "A", "logprob": -0.1, "bytes": [65]}, {"token": "B", "logprob": -2.5, "bytes": [66]},
    {"token": "A", "logprob": -7.0, "bytes": [200]}]}]}}], "usage": {"prompt_tokens": 9}}  # fmt: skip


def test_both_forms_are_read() -> None:
    """A chat has a list of tokens, a completion a mapping; of two tokens with one text the more probable one counts."""
    assert read_first_token(CHAT) == FirstToken({"A": -0.1, "B": -2.5}, -2.5, 9)
    completion = {"choices": [{"text": "A", "logprobs": {"top_logprobs": [{" A": -0.1, " B": -2}]}}]}
    assert read_first_token(completion) == FirstToken({" A": -0.1, " B": -2.0}, -2.0, 0)


def of_chat(token: str, nats: float, top: dict[str, float]) -> dict[str, Any]:
    """Return the log-probabilities of a chat's first token."""
    listed = [{"token": text, "logprob": own} for text, own in top.items()]
    return {"content": [{"token": token, "logprob": nats, "top_logprobs": listed}]}


def of_completion(token: str, nats: float, top: dict[str, float]) -> dict[str, Any]:
    """Return the log-probabilities of a completion's first token."""
    return {"tokens": [token], "token_logprobs": [nats], "top_logprobs": [top]}


@pytest.mark.parametrize("form", [of_chat, of_completion])
@pytest.mark.parametrize(
    ("token", "nats", "top", "expected"),
    [
        ("B", -0.1, {"A": -9.8, "x": -13.0}, [(-9.8, FIRST_TOKEN), (-0.1, FIRST_TOKEN)]),
        ("B", -0.1, {"x": -9.8, "y": -13.0}, [(-13.0, BOUND), (-0.1, FIRST_TOKEN)]),
        ("\u0120B", -0.1, {"\u0120B": -0.1, "\u0120A": -2.8, "A": -6.0}, [(-2.8, FIRST_TOKEN), (-0.1, FIRST_TOKEN)]),
        ("\u2581B", -0.1, {"\u2581B": -0.1, "\u2581A": -2.8}, [(-2.8, FIRST_TOKEN), (-0.1, FIRST_TOKEN)]),
        ("<0x42>", -0.1, {"<0x42>": -0.1, "\u010aA": -2.8}, [(-2.8, FIRST_TOKEN), (-0.1, FIRST_TOKEN)]),
        ("x", -20.0, {"A": -0.1, "y": -3.0, "x": -20.0}, [(-0.1, FIRST_TOKEN), (-3.0, BOUND)]),  # B: below -3, not -20
        ("B", -20.0, {"A": -0.1, "y": -3.0}, [(-0.1, FIRST_TOKEN), (-3.0, BOUND)]),
    ],
)
def test_the_generated_token_counts_and_bounds_nothing(
    form: Any, token: str, nats: float, top: dict[str, float], expected: list[tuple[float, str]]
) -> None:
    """It may be absent from its alternatives, or be one that was drawn; a piece is the text after its marks."""
    first = read_first_token({"choices": [{"logprobs": form(token, nats, top)}]})
    (asked,) = questions_of([question(" A", " B")], is_chat=False)
    outputs = FirstTokenTally().outputs(asked, first)
    assert [(output.total_nats, output.finish_reason) for output in outputs] == expected


def test_a_tokens_id_is_read_by_its_bytes() -> None:
    """A server may name tokens by their ids (vLLM), with the bytes beside them."""
    token = {"token": "token_id:33", "logprob": -0.1, "bytes": [32, 66]}
    answer = {"choices": [{"logprobs": {"content": [{**token, "top_logprobs": [token]}]}}]}
    assert read_first_token(answer).top == {" B": -0.1}


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": []},
        {"content": [{"token": "A", "logprob": -1.0}]},
        {"content": [{"top_logprobs": []}]},
        {"content": [{"top_logprobs": [{"token": "A", "logprob": "-1"}]}]},
        {"content": [{"top_logprobs": [{"token": 3, "logprob": -1.0}]}]},
        {"content": [{"top_logprobs": [{"token": "A", "logprob": float("nan")}]}]},
    ],
    ids=str,
)
def test_a_malformed_answer_is_a_failure(logprobs: Any) -> None:
    """An answer without usable log-probabilities fails; it never scores a choice."""
    with pytest.raises(HttpFailure):
        read_first_token({"choices": [{"logprobs": logprobs}]})


@pytest.mark.parametrize(
    ("request_", "is_chat", "says"),
    [
        (question(" A", " B or C"), False, "'B or C' is not a single letter"),
        (question(" A", "A"), False, "two choices have the same letter: A, A"),
        (Request("t", 0, "", (), (RollingQuery(0, "text"),)), False, "a whole text"),
        (Request("t", 0, "", (), (LoglikelihoodQuery(0, "A", ("own",)),)), True, "context of its own"),
    ],
)
def test_what_a_first_token_cannot_decide_is_refused(request_: Request, is_chat: bool, says: str) -> None:
    """Texts, equal letters, and contexts that are no conversation are refused with the request's id."""
    with pytest.raises(UsageError, match=f"^t/0/0.*{says}"):
        questions_of([request_], is_chat=is_chat)


def test_a_question_is_charged_once(url: str, tmp_path: Path) -> None:
    """One request answers all choices of a question: its prompt is read once, and one token is generated."""
    result = asked(url, "local-chat-completions", 20, tmp_path / "runs.sqlite", price="1,1")
    contexts = {output.request_id: output.n_context_tokens for output in outputs_of(result).values()}
    assert result.cost is not None
    assert (result.cost["n_read"], result.cost["n_generated"]) == (sum(contexts.values()), len(contexts))
    assert (result.cost["n_outputs"], result.cost["n_estimated"]) == (8, 0)
