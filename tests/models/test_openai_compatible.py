"""Models behind an OpenAI-compatible server, against a real one with a real model, in good and in bad moods."""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evalstone.api.demo import demo_model
from evalstone.api.evaluate import evaluate
from evalstone.api.planning import plan_run
from evalstone.api.run import Run
from evalstone.errors import ModelUnavailable, PlanError, UsageError
from evalstone.models.create import create_model
from evalstone.models.http_pace import RetryRules
from evalstone.models.local import LocalModel
from evalstone.models.openai_arguments import openai_arguments
from evalstone.models.openai_compatible import OpenAIModel
from evalstone.records import GenerateAsk, GenerationSettings, LoglikelihoodAsk, Output, Request, RollingAsk
from tests.conftest import ROOT

pytest.importorskip("torch")
from tests.models.openai_server import TestServer, serving

MODEL = demo_model("small")
QUICK = RetryRules(attempts=3, budget_s=5.0, first_wait_s=0.01, longest_wait_s=0.02)
TASK = "demo_letters_nature"


@pytest.fixture(scope="module")
def running() -> Iterator[TestServer]:
    """Serve the small demo model."""
    with serving(MODEL) as server:
        yield server


@pytest.fixture
def server(running: TestServer, monkeypatch: pytest.MonkeyPatch) -> TestServer:
    """Return the server in a good mood."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    running.reset()
    return running


def model_args(server: TestServer, **given: Any) -> dict[str, Any]:
    """Return the arguments that lead to the server."""
    args = {"model": MODEL.name, "base_url": server.url, "tokenizer": str(MODEL), "max_length": 1024, **given}
    return {name: value for name, value in args.items() if value is not None}


def behind(server: TestServer, rules: RetryRules = QUICK, kind: str = "local-completions", **given: Any) -> OpenAIModel:
    """Return the model behind the server."""
    return OpenAIModel(openai_arguments(kind, model_args(server, **given)), rules)


@cache
def local() -> LocalModel:
    """Return the same model by our engine, begun as lm-eval begins prompts to servers: without BOS."""
    model = create_model("hf", f"pretrained={MODEL},dtype=float32,device=cpu,add_bos_token=False")
    assert isinstance(model, LocalModel)
    return model


def choices(index: int, context: str = "The sky is", *texts: str) -> Request:
    """Return a request with choices."""
    asks = tuple(LoglikelihoodAsk(i, text) for i, text in enumerate(texts or (" blue", " green and red", " a", " ")))
    return Request("task", index, "", (context,), asks)


def writing(index: int, context: str = "One day", **settings: Any) -> Request:
    """Return a request for a text."""
    return Request("task", index, "", (context,), (GenerateAsk(0, GenerationSettings(max_tokens=8, **settings)),))


def many(n: int) -> list[Request]:
    """Return requests that differ."""
    return [choices(i, f"Number {i} is", " big", " small") for i in range(n)]


def answers(model: Any, requests: list[Request]) -> dict[tuple[str, int, int], Output]:
    """Return the outputs by request, ask and repeat."""
    return {(o.request_id, o.ask_index, o.repeat): o for o in model.answer(requests)}


def run_of(server: TestServer, kind: str = "local-completions", limit: int = 6, **given: Any) -> Run:
    """Return a run of a small task."""
    return evaluate(kind, TASK, model_args=model_args(server, **given), limit=limit)


# -------------------------------------------------------------------------------------------- in a good mood


@pytest.mark.parametrize("given", [{}, {"tokenized_requests": False}, {"num_concurrent": 4}], ids=str)
def test_scores_are_the_local_models(server: TestServer, given: dict[str, Any]) -> None:
    """Log-likelihoods, greediness and token counts equal our engine's on the same weights, sent as tokens or texts."""
    requests = [choices(0), choices(1, "A dog and a cat"), Request("task", 2, "", (), (RollingAsk(0, "A cat sat."),))]
    ours, theirs = answers(local(), requests), answers(behind(server, **given), requests)
    assert theirs.keys() == ours.keys()
    for key, output in ours.items():
        found = theirs[key]
        assert found.error is None
        assert found.total_nats == pytest.approx(output.total_nats, abs=1e-4)
        assert found.is_greedy == output.is_greedy
        assert (found.n_context_tokens, found.n_tokens) == (output.n_context_tokens, output.n_tokens)
        assert found.cache_key is None  # nobody knows the weights


@pytest.mark.parametrize("adds_bos", [False, True])
def test_without_a_tokenizer_the_server_shows_where_a_choice_begins(server: TestServer, adds_bos: bool) -> None:
    """Texts are sent and the last tokens that spell the choice are scored, also where the server puts BOS before."""
    server.reset(adds_bos=adds_bos)
    requests = [choices(0, "The sky is", " blue", " green and red"), choices(1, "A dog and a cat", " sat")]
    found = answers(behind(server, tokenizer=None, tokenizer_backend="none"), requests)
    begun = create_model("hf", f"pretrained={MODEL},dtype=float32,device=cpu,add_bos_token={adds_bos}")
    for key, output in answers(begun, requests).items():
        assert found[key].total_nats == pytest.approx(output.total_nats, abs=1e-4)
        assert (found[key].n_context_tokens, found[key].n_tokens) == (output.n_context_tokens, output.n_tokens)


def test_texts_are_the_local_models(server: TestServer) -> None:
    """Greedy texts, with stops and without, equal our engine's; cut ones say length."""
    requests = [writing(0), writing(1, "The sun", stop=(" the",)), writing(2, "A cat", stop=(".", "dog"))]
    ours = answers(local(), requests)
    for given in ({}, {"tokenized_requests": False}, {"tokenizer": None, "tokenizer_backend": "none"}):
        theirs = answers(behind(server, **given), requests)
        assert {key: output.text for key, output in theirs.items()} == {key: o.text for key, o in ours.items()}
        assert {o.finish_reason for o in theirs.values()} <= {"stop", "length"}
        assert theirs["task/0/0", 0, 0].n_tokens == 8
    assert server.seen.bodies[0]["stop"] == ["</s>"]


def test_each_repeat_is_drawn_anew_and_the_same_next_time(server: TestServer) -> None:
    """Repeats have seeds of their own; greedy ones are asked once."""
    drawn = writing(0, do_sample=True, temperature=1.0, repeats=3)
    first, again = (answers(behind(server), [drawn]) for _ in range(2))
    assert first == again
    assert len({output.text for output in first.values()}) == 3
    server.reset()
    greedy = answers(behind(server), [writing(0, repeats=3)])
    assert (len(greedy), len(server.seen.bodies)) == (3, 1)


def test_chats_are_sent_as_messages(server: TestServer) -> None:
    """The server puts them into its template; system text and turns arrive as they are, and thoughts are kept."""
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


def test_a_thought_in_the_text_is_taken_off(server: TestServer) -> None:
    """With think_end_token what stands before it is kept as reasoning; no stop is sent, and stops hold after it."""
    request = Request("task", 0, "", (), writing(0, stop=(".",)).asks, messages=())
    plain = answers(behind(server), [writing(0)])["task/0/0", 0, 0].text or ""
    word = plain.split()[1]
    server.reset()
    output = answers(behind(server, think_end_token=word), [writing(0, stop=(".",))])["task/0/0", 0, 0]
    assert "stop" not in server.seen.bodies[0]
    assert output.reasoning is not None
    assert word not in (output.text or word)
    assert request.asks  # a chat endpoint refuses what has no messages
    with pytest.raises(UsageError, match="--apply_chat_template"):
        answers(behind(server, kind="local-chat-completions"), [request])


def test_a_run_goes_its_whole_way_and_knows_its_server(server: TestServer) -> None:
    """The picks are the local model's; the second time nothing is sent; the run says where its answers came from."""
    run = run_of(server, num_concurrent=3)
    args = {"pretrained": str(MODEL), "dtype": "float32", "add_bos_token": False}
    ours = evaluate("hf", TASK, model_args=args, limit=6)
    picked = [[score.detail for score in record.scores] for record in run.samples(TASK)]
    for mine, theirs in zip(picked, [[s.detail for s in r.scores] for r in ours.samples(TASK)], strict=True):
        assert [d["picked"] for d in mine if d] == [d["picked"] for d in theirs if d]
    assert dict(run.row.plan.model.options)["base_url"] == f"{server.url}/completions"
    assert run.attempts()[-1]["summary"]["model"]["num_concurrent"] == 3
    n_sent = len(server.seen.bodies)
    again = run_of(server, num_concurrent=3)
    assert again.result is not None
    assert again.result.was_stored
    assert len(server.seen.bodies) == n_sent


def test_a_plan_sends_nothing() -> None:
    """`plan` works without a server, and counts tokens where there is a tokenizer."""
    args: dict[str, Any] = {"model": "m", "base_url": "http://127.0.0.1:9", "tokenizer": str(MODEL)}
    work = plan_run("local-completions", TASK, model_args=args, limit=3).chunks[0].work
    assert work.n_tokens_asked is not None
    assert work.n_tokens_asked > 50
    bare = {**args, "tokenizer": None, "tokenizer_backend": "none"}
    assert plan_run("local-completions", TASK, model_args=bare, limit=3).chunks[0].work.n_tokens_asked is None


def test_answers_are_shared_between_runs_only_where_the_weights_are_vouched_for(server: TestServer) -> None:
    """Another run asks anew; with weights= it takes what an earlier one got, whatever the port."""
    run_of(server, limit=2)
    n_first = len(server.seen.bodies)
    run_of(server, limit=3)
    assert len(server.seen.bodies) > 2 * n_first - 1
    run_of(server, limit=2, weights="demo@1")
    n_before = len(server.seen.bodies)
    run_of(server, limit=3, weights="demo@1")
    assert len(server.seen.bodies) - n_before < n_first


# --------------------------------------------------------------------------------------------- in bad moods


def test_trap_17_a_429_storm_ends_within_the_retry_budget(server: TestServer) -> None:
    """Trap 17: a server that only says 429 is left alone after the budget: all asks fail for now, none for good."""
    server.reset(limited=-1)
    rules = RetryRules(attempts=3, budget_s=0.5, first_wait_s=0.05, longest_wait_s=0.1)
    started = time.monotonic()
    found = answers(behind(server, rules, num_concurrent=8), many(200))
    assert time.monotonic() - started < 20 * rules.budget_s  # a busy machine; if each ask waited: 400 * budget / 8
    assert len(found) == 400
    assert {output.error_kind for output in found.values()} <= {"RateLimited", "Retryable"}
    assert len(server.seen.bodies) < 100


def test_a_storm_that_passes_costs_time_only(server: TestServer) -> None:
    """429 for a while, with and without Retry-After: everything is answered, fewer were asked at once, more again."""
    server.reset(limited=12, retry_after=0.01)
    model = behind(server, num_concurrent=8)
    found = answers(model, many(30))
    assert all(output.error is None for output in found.values())
    told = model.describe()
    assert told["lowest_concurrency"] < 8
    assert told["tried_again"]["RateLimited"] == 12


def test_the_pace_settles_at_what_the_server_takes(server: TestServer) -> None:
    """A server that takes two at once gets them: what it turns away is asked again, and num_concurrent is a ceiling."""
    server.reset(most_at_once=2)
    found = answers(behind(server, num_concurrent=6), many(20))
    assert all(output.error is None for output in found.values())
    assert server.seen.most_at_once <= 6


@pytest.mark.parametrize("mood", ["failing", "dropped", "torn", "without_logprobs"])
def test_a_passing_fault_costs_an_attempt(server: TestServer, mood: str) -> None:
    """500, a connection cut in the middle, half of the JSON, log-probabilities left out: tried again, and right."""
    model = behind(server)
    whole = answers(model, [choices(0)])
    server.reset(**{mood: 2})
    found = answers(model, [choices(0)])
    assert found == whole
    assert sum(model.describe()["tried_again"].values()) == 2


@pytest.mark.parametrize(
    ("mood", "kind"),
    [("failing", "ServerFailed"), ("dropped", "ConnectionLost"), ("torn", "MalformedAnswer")],
)
def test_a_request_that_fails_three_times_is_failed_for_now(server: TestServer, mood: str, kind: str) -> None:
    """Its output says what happened and how often it was tried; the others are answered."""
    model = behind(server)
    answers(model, [choices(9)])
    server.reset(**{mood: 3})
    found = answers(model, [choices(0, "The sky is", " blue"), choices(1, "The sky is", " red")])
    failed = [output for output in found.values() if output.error is not None]
    assert [output.error_kind for output in failed] == [kind]
    assert "tried 3 times" in (failed[0].error or "")
    assert failed[0].total_nats is None


def test_a_slow_server_is_not_waited_for_longer_than_said(server: TestServer) -> None:
    """timeout= holds for the whole request, each of its three times."""
    server.reset(slow=-1, slow_s=60.0)
    started = time.monotonic()
    output = answers(behind(server, timeout=0.3), [choices(0, "The sky is", " blue")])["task/0/0", 0, 0]
    assert (output.error_kind, len(server.seen.bodies)) == ("TimedOut", 3)
    assert time.monotonic() - started < 30


def test_a_refused_request_and_a_withheld_answer_are_failed_for_good(server: TestServer) -> None:
    """Neither is tried again, and neither is a wrong answer."""
    model = behind(server)
    answers(model, [choices(9)])
    server.reset(refused=1)
    output = answers(model, [choices(0, "The sky is", " blue")])["task/0/0", 0, 0]
    assert (output.error_kind, len(server.seen.bodies)) == ("RequestRefused", 1)
    server.reset(filtered=1)
    output = answers(model, [writing(0)])["task/0/0", 0, 0]
    assert (output.error_kind, output.text) == ("AnswerWithheld", None)


def test_a_run_with_failures_is_incomplete_and_asks_only_those_again(server: TestServer) -> None:
    """What failed is missing, not wrong; the same run asks it again, nothing else, and is whole then."""
    server.reset(failing=4)
    run = run_of(server, max_retries=1)
    assert run.row.status == "incomplete"
    assert run.estimates[0].n_failed >= 1
    assert run.estimates[0].n + run.estimates[0].n_failed == 6
    server.reset()
    again = run_of(server, max_retries=1)
    assert (again.id, again.row.status, again.estimates[0].n_failed) == (run.id, "finished", 0)
    assert len(server.seen.bodies) == 4


@pytest.mark.parametrize(
    ("moods", "given", "message"),
    [
        ({}, {"model": "gpt-9"}, "does not exist.*the server lists small, not gpt-9"),
        ({"without_logprobs": -1}, {}, "echo and logprobs together"),
        ({"refused": -1}, {}, "not to my taste"),
        ({}, {"base_url": "http://127.0.0.1:9/v1"}, "no server answers at http://127.0.0.1:9/v1"),
    ],
)
def test_what_fails_every_request_is_one_error(
    server: TestServer, moods: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    """A wrong name, a server without log-probabilities or one that takes nothing ends the run at once and says why."""
    server.reset(**moods)
    with pytest.raises(ModelUnavailable, match=message):
        run_of(server, **given)
    assert len(server.seen.bodies) <= 10


def test_nothing_is_stored_where_nobody_answers(server: TestServer, own_home: Path) -> None:
    """A host that cannot be reached is told before the run is stored; a finished run needs no host."""
    done = run_of(server, limit=1)
    gone = model_args(server, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match="start it, or correct base_url"):
        evaluate("local-completions", TASK, model_args=gone, limit=1)
    assert [row.run_id for row in done.store.runs()] == [done.id]
    vouched = run_of(server, limit=1, weights="demo@1")
    stored = evaluate("local-completions", TASK, model_args={**gone, "weights": "demo@1"}, limit=1)
    assert stored.id == vouched.id
    assert own_home.is_dir()


def test_a_key_is_sent_and_never_kept(
    server: TestServer, own_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The key reaches the server; neither store, log nor error holds it, even where the server repeats it."""
    caplog.set_level("DEBUG")
    server.reset(key="sk-right")
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY is not set"):
        run_of(server, limit=1)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with pytest.raises(ModelUnavailable, match=r"is not taken; it says: .*Bearer \(key\)") as caught:
        run_of(server, limit=1)
    assert "sk-wrong" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
    run = run_of(server, limit=1)
    assert run.row.status == "finished"
    server.moods.key = "sk-new"
    with pytest.raises(ModelUnavailable, match=r"401 Unauthorized: .*\(key\)"):
        list(behind_checked(server).answer([choices(0)]))
    run.store.close()
    database = sqlite3.connect(own_home / "store.sqlite")
    assert not any("sk-" in line for line in database.iterdump())
    assert "sk-" not in caplog.text


def behind_checked(server: TestServer) -> OpenAIModel:
    """Return a model whose server took the key when it was looked at, and does no longer."""
    key, server.moods.key = server.moods.key, None
    model = behind(server)
    model.check()
    server.moods.key = key
    return model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "local-completions"),
        ({"tasks": "demo_sums"}, "--apply_chat_template"),
        ({"tasks": "demo_sums", "apply_chat_template": "default"}, "template of its own"),
        ({"tasks": "demo_sums", "prompt_preset": "chatml"}, "--prompt_preset"),
    ],
)
def test_what_a_chat_endpoint_cannot_do_is_refused(server: TestServer, options: dict[str, Any], message: str) -> None:
    """Choices, plain text and templates of ours are refused with what to do, before anything is sent or stored."""
    tasks = options.pop("tasks", TASK) if "tasks" in options else TASK
    with pytest.raises(PlanError, match=message):
        evaluate("local-chat-completions", tasks, model_args=model_args(server, tokenizer=None), **options)
    assert server.seen.bodies == []


def test_a_run_that_is_interrupted_leaves_at_once_and_goes_on(server: TestServer, tmp_path: Path) -> None:
    """Ctrl-C cuts slow requests; what was answered is kept, and the same command asks only the rest."""
    server.reset(slow=-1, slow_s=0.4)
    arguments = ",".join(f"{name}={value}" for name, value in model_args(server, num_concurrent=2).items())
    store = tmp_path / "store.sqlite"
    command = [sys.executable, "-m", "evalstone", "run", "--model", "local-completions", "--model_args", arguments,
               "--tasks", TASK, "--limit", "20", "--store", str(store), "--json"]  # fmt: skip
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(server.seen.bodies) < 9:
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(2)
    running.communicate(timeout=60)
    n_first = len(server.seen.bodies)
    server.reset()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["status"] == "finished"
    assert len(server.seen.bodies) <= 20 * 4 - n_first + 2  # four choices each, and two requests were cut
