"""Models behind an OpenAI-compatible server with faults, and users' mistakes: nothing is lost or wrong."""

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import ModelUnavailable, PlanError
from assaymark.models.server.openai_compatible import OpenAIModel
from assaymark.models.server.pace import RetryRules
from assaymark.records.json_values import int_at, object_at
from assaymark.runs.evaluate import evaluate
from tests.conftest import ROOT

pytest.importorskip("torch")
from tests.models.server.behind_server import (
    QUICK,
    TASK,
    answers,
    behind,
    choices,
    many,
    model_args,
    run_of,
    text_request,
)
from tests.models.server.openai_server import TestServer


def test_a_429_storm_ends_within_the_retry_budget(server: TestServer) -> None:
    """If a server only returns 429, sending stops after the budget: all queries fail retryably, none permanently."""
    server.reset(limited=-1)
    rules = RetryRules(attempts=3, budget_s=0.5, first_wait_s=0.05, longest_wait_s=0.1)
    started = time.monotonic()
    result = answers(behind(server, rules, num_concurrent=8), many(200))
    assert time.monotonic() - started < 20 * rules.budget_s  # a busy machine; if each query waited: 400 * budget / 8
    assert len(result) == 400
    assert {output.error_kind for output in result.values()} <= {"RateLimited", "Retryable"}
    assert len(server.seen.bodies) < 100


def test_a_storm_that_passes_costs_time_only(server: TestServer) -> None:
    """With 429 for a while, with and without Retry-After, everything is answered, at lower and then higher pace."""
    server.reset(limited=12, retry_after=0.01)
    model = behind(server, num_concurrent=8)
    result = answers(model, many(30))
    assert all(output.error is None for output in result.values())
    described = model.describe()
    assert int_at(described, "lowest_concurrency") < 8
    assert object_at(described, "tried_again")["RateLimited"] == 12


def test_the_pace_settles_at_what_the_server_accepts(server: TestServer) -> None:
    """A server that accepts two at once gets them: rejected requests are repeated, and num_concurrent is a ceiling."""
    server.reset(most_at_once=2)
    result = answers(behind(server, num_concurrent=6), many(20))
    assert all(output.error is None for output in result.values())
    assert server.seen.most_at_once <= 6


@pytest.mark.parametrize("fault", ["failing", "dropped", "torn", "without_logprobs"])
def test_a_passing_fault_costs_an_attempt(server: TestServer, fault: str) -> None:
    """500, a closed connection, half of the JSON, missing log-probabilities: retried, with a correct result."""
    model = behind(server)
    whole = answers(model, [choices(0)])
    server.reset(**{fault: 2})
    result = answers(model, [choices(0)])
    assert result == whole
    tried_again = object_at(model.describe(), "tried_again")
    assert sum(int_at(tried_again, reason) for reason in tried_again) == 2


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("failing", "ServerFailed"), ("dropped", "ConnectionLost"), ("torn", "MalformedAnswer")],
)
def test_a_request_that_fails_three_times_fails_retryably(server: TestServer, fault: str, kind: str) -> None:
    """Its output states the failure and the number of attempts; the others are answered."""
    model = behind(server)
    answers(model, [choices(9)])
    server.reset(**{fault: 3})
    result = answers(model, [choices(0, "The sky is", " blue"), choices(1, "The sky is", " red")])
    failed = [output for output in result.values() if output.error is not None]
    assert [output.error_kind for output in failed] == [kind]
    assert "tried 3 times" in (failed[0].error or "")
    assert failed[0].total_nats is None


def test_the_wait_for_a_slow_server_is_limited(server: TestServer) -> None:
    """timeout= applies to the whole request, for each of three attempts."""
    server.reset(slow=-1, slow_s=60.0)
    started = time.monotonic()
    output = answers(behind(server, timeout=0.3), [choices(0, "The sky is", " blue")])["task/0/0", 0, 0]
    assert (output.error_kind, len(server.seen.bodies)) == ("TimedOut", 3)
    assert time.monotonic() - started < 30


def test_a_refused_request_and_a_withheld_answer_fail(server: TestServer) -> None:
    """Neither is a wrong answer; a refused one is not sent again, a withheld one is, as another draw may pass."""
    model = behind(server)
    answers(model, [choices(9)])
    server.reset(refused=1)
    output = answers(model, [choices(0, "The sky is", " blue")])["task/0/0", 0, 0]
    assert (output.error_kind, len(server.seen.bodies)) == ("RequestRefused", 1)
    server.reset(filtered=QUICK.attempts)
    output = answers(model, [text_request(0)])["task/0/0", 0, 0]
    assert (output.error_kind, output.text) == ("AnswerWithheld", None)
    server.reset(filtered=1)
    assert answers(model, [text_request(1)])["task/1/0", 0, 0].text


def test_a_run_with_failures_is_incomplete_and_repeats_only_those(server: TestServer) -> None:
    """Failed queries are missing, not wrong; the same run sends them again, nothing else, and is then complete."""
    server.reset(failing=4)
    run = run_of(server, max_retries=1)
    assert run.row.status == "incomplete"
    assert run.estimates[0].n_failed >= 1
    assert run.estimates[0].n + run.estimates[0].n_failed == 6
    server.reset()
    again = run_of(server, max_retries=1)
    assert (again.id, again.row.status, again.estimates[0].n_failed) == (run.id, "finished", 0)
    assert len(server.seen.bodies) == 3  # the fourth failure was that of a text, tried in case tokens are refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "given", "message"),
    [
        ({}, {"model": "gpt-9"}, "does not exist.*the server lists small, not gpt-9"),
        ({"without_logprobs": -1}, {}, "echo together with logprobs"),
        ({"refused": -1}, {}, "not to my taste"),
        ({}, {"base_url": "http://127.0.0.1:9/v1"}, "no server answers at http://127.0.0.1:9/v1"),
    ],
)
def test_a_failure_of_every_request_is_one_error(
    server: TestServer, faults: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    """A wrong name, a server without log-probabilities or one that refuses everything ends the run with one error."""
    server.reset(**faults)
    with pytest.raises(ModelUnavailable, match=message):
        run_of(server, **given)
    assert len(server.seen.bodies) <= 10


def test_nothing_is_stored_if_no_server_answers(server: TestServer, own_home: Path) -> None:
    """An unreachable host is reported before the run is stored; a finished run needs no host."""
    done = run_of(server, limit=1)
    gone = model_args(server, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match="start it, or correct base_url"):
        evaluate("local-completions", TASK, model_args=gone, limit=1)
    assert [row.run_id for row in done.store.runs()] == [done.id]
    vouched = run_of(server, limit=1, weights="demo@1")
    stored = evaluate("local-completions", TASK, model_args={**gone, "weights": "demo@1"}, limit=1)
    assert stored.id == vouched.id
    assert own_home.is_dir()


def test_a_key_is_sent_and_never_stored(
    server: TestServer, own_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The key reaches the server; neither store, log nor error contains it, even if the server repeats it."""
    caplog.set_level("DEBUG")
    server.reset(key="sk-right")
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY is not set"):
        run_of(server, limit=1)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with pytest.raises(ModelUnavailable, match=r"is not accepted; its message: .*Bearer \(key\)") as caught:
        run_of(server, limit=1)
    assert "sk-wrong" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
    run = run_of(server, limit=1)
    assert run.row.status == "finished"
    server.faults.key = "sk-new"
    with pytest.raises(ModelUnavailable, match=r"401 Unauthorized: .*\(key\)"):
        list(behind_checked(server).answer([choices(0)]))
    run.store.close()
    database = sqlite3.connect(own_home / "store.sqlite")
    assert not any("sk-" in line for line in database.iterdump())
    assert "sk-" not in caplog.text


def behind_checked(server: TestServer) -> OpenAIModel:
    """Return a model whose server accepted the key when checked, and no longer does."""
    key, server.faults.key = server.faults.key, None
    model = behind(server)
    model.check()
    server.faults.key = key
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
def test_tasks_that_a_chat_endpoint_does_not_support_are_refused(
    server: TestServer, options: dict[str, Any], message: str
) -> None:
    """Choices, plain text and our templates are refused with the remedy, before anything is sent or stored."""
    tasks = options.pop("tasks", TASK) if "tasks" in options else TASK
    with pytest.raises(PlanError, match=message):
        evaluate("local-chat-completions", tasks, model_args=model_args(server, tokenizer=None), **options)
    assert server.seen.bodies == []


@pytest.mark.slow
def test_an_interrupted_run_ends_at_once_and_resumes(server: TestServer, tmp_path: Path) -> None:
    """Ctrl-C closes slow requests; answers received are stored, and the same command sends only the rest."""
    server.reset(slow=-1, slow_s=0.4)
    arguments = ",".join(f"{name}={value}" for name, value in model_args(server, num_concurrent=2).items())
    store = tmp_path / "store.sqlite"
    command = [sys.executable, "-m", "assaymark", "run", "--model", "local-completions", "--model_args", arguments,
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
    assert len(server.seen.bodies) <= 20 * 4 - n_first + 2  # four choices each, and two requests were closed
