"""BFCL's multi-turn categories: prompts, conversations and verdicts are BFCL's own, through a server and after a kill.

The rows are the real ones beside the repository; a scripted chat server answers with right calls to some of them and
with damaged ones to others.
"""

import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from assaymark.documents.document import document
from assaymark.documents.terminal import as_text
from assaymark.errors import DataError, PlanError
from assaymark.interop.lm_eval_files import write_lm_eval_files
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.records import Message, Output, Request, ResultPart, Sample, ScoreStatus
from assaymark.results.views.samples import conversations, sample_example
from assaymark.runs.demo import demo_model
from assaymark.runs.evaluate import evaluate
from assaymark.runs.rescoring import RescoreOptions, rescore_run
from assaymark.runs.run import Run
from assaymark.scoring.simulated_calls import OVER_LIMIT, find_machines
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.simulated_conversations import MOST_STEPS, SimulatedScoring
from assaymark.web.app import create_app
from tests.applications.oracles.locked import needs_oracle, oracle, oracle_packages
from tests.conftest import ROOT
from tests.http_servers import JsonHandler, LoopbackServer, serving
from tests.scoring.test_simulated_calls import CATEGORIES, EACH, REASONS, rows_of, variants
from tests.served import running

Json = dict[str, Any]
Mode = Literal["calls", "text"]
Script = list[list[list[str]]]  # calls of each step of each turn
DONE = "Done."


@pytest.fixture(autouse=True)
def bfcl_installed(monkeypatch: pytest.MonkeyPatch, shared_dir: Path) -> Iterator[None]:
    """Let BFCL's package be found where the oracle has it, and the data beside the repository."""
    monkeypatch.syspath_prepend(oracle_packages("bfcl"))
    monkeypatch.setenv("ASSAYMARK_DATA", str(shared_dir / "data"))
    find_machines.cache_clear()
    yield
    find_machines.cache_clear()


def bound(name: str, shared_dir: Path, **options: Any) -> BoundTask:
    """Return a task of the library with its rows."""
    task = Catalog.open(lm_eval=False).select([name]).tasks[0]
    return bind(task, BindOptions(data_dir=shared_dir / "data", apply_chat_template=True, **options))


def named_task(category: str, mode: Mode) -> str:
    """Return the name of a category's task."""
    return f"bfcl_{'prompted_' if mode == 'text' else ''}multi_turn_{category}"


def tool_call(call: str, number: int, parameters: dict[str, list[str]]) -> Json:
    """Return a call in source as OpenAI's `tool_calls` have it; positional arguments get their names."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    name = ast.unparse(node.func)
    arguments = {key: ast.literal_eval(value) for key, value in zip(parameters.get(name, []), node.args, strict=False)}
    arguments |= {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def parameters_of(row: Json) -> dict[str, list[str]]:
    """Return the parameters of each of a row's functions."""
    declared = [*row["function"], *(each for come in row["later_function"].values() for each in come)]
    return {each["name"]: list(each["parameters"]["properties"]) for each in declared}


def messages_of(script: Script, mode: Mode, row: Json) -> list[Json]:
    """Return what a model answers, request by request, where it makes these calls."""
    parameters, answers = parameters_of(row), list[Json]()
    for turn in script:
        for step in turn:
            calls = [tool_call(call, 100 * len(answers) + at, parameters) for at, call in enumerate(step)]
            if mode == "calls":
                answers.append({"role": "assistant", "content": None, "tool_calls": calls})
            else:
                texts = (each["function"] for each in calls)
                listed = (
                    f"{each['name']}({', '.join(f'{k}={v!r}' for k, v in json.loads(each['arguments']).items())})"
                    for each in texts
                )
                answers.append({"role": "assistant", "content": f"[{', '.join(listed)}]"})
        answers.append({"role": "assistant", "content": DONE})
    return answers


def output_of(message: Json, request: Request) -> Output:
    """Return an answer as a server's client stores it."""
    calls = message.get("tool_calls")
    text = message["content"] or ""
    return Output(request.id, 0, text=text, tool_calls=None if calls is None else json.dumps(calls))


def held(task: BoundTask, sample: Sample, answers: Sequence[Json]) -> list[tuple[Request, Output]]:
    """Hold a conversation in which a model gives these answers; return all requests and outputs."""
    pairs = []
    request: Request | None = task.request(sample)
    for message in answers:
        if request is None:
            break
        output = output_of(message, request)
        pairs.append((request, output))
        request = task.next(request, sample, [output])
    assert request is None
    return pairs


def sent(message: Message) -> Json:
    """Return a message as BFCL's client sends it."""
    made: Json = {"role": message.role, "content": message.text or (None if message.calls else "")}
    if message.calls:
        made["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.role == "tool":
        made["tool_call_id"] = message.parts[0].call_id  # type: ignore[union-attr]
    return made


# --------------------------------------------------------------------------------------------- beside BFCL's own loop


@needs_oracle("bfcl")
@pytest.mark.parametrize("mode", ["calls", "text"])
@pytest.mark.parametrize("category", CATEGORIES)
def test_conversations_are_bfcls(category: str, mode: Mode, shared_dir: Path) -> None:
    """Of every tenth row each request's messages and tools are those of BFCL's own loop, with the same answers."""
    task = bound(named_task(category, mode), shared_dir)
    scripts, ours = [], []
    samples = list(task.samples())
    numbers = list(range(0, len(samples), EACH))
    for sample in samples[::EACH]:
        gold = sample.row["ground_truth"]
        script = dict(variants(gold, random.Random(sample.row["id"])))["a wrong argument"]
        answers = messages_of(script, mode, dict(sample.row))
        scripts.append([(each["content"], each.get("tool_calls")) for each in answers])
        ours.append([
            {"messages": [sent(each) for each in request.messages],
             "tools": None if request.tools is None else json.loads(request.tools)}
            for request, _ in held(task, sample, answers)
        ])  # fmt: skip
    assert len(samples) == 200
    for start in range(0, len(numbers), 50):
        asked = {
            "task": "conversation",
            "category": f"multi_turn_{category}",
            "mode": mode,
            "numbers": numbers[start : start + 50],
            "answers": scripts[start : start + 50],
        }
        for at, theirs in enumerate(oracle("bfcl", asked), start):
            assert ours[at] == theirs, numbers[at]


TEXTS = [
    "[cd(folder='a'), ls()]",
    "cd(folder='a')",
    "`[cd(folder='a')]`",
    "```python\n[cd(folder='a')]\n```",
    "[]",
    "",
    "I am done.",
    "[cd('a')]",
    "[f(a={'x': {'y': 1}})]",
    "[f(a={'x': 1, 'y': [1, (2, 3)]})]",
    "[f(a={})]",
    "[f(a=g(b=1))]",
    "[f(a=g(1))]",
    "[f(a=-1.5, b=None, c=True, d=name)]",
    "[f(a=1), 2]",
    "[f(a='it\\'s')]",
    "'[f(a=1)]'",
    "[a.b.c(x=2**3)]",
    "[f(a=x[1])]",
    "[f(a=1)",
    "f(a=1); g()",
]


@needs_oracle("bfcl")
def test_answers_are_read_as_by_bfcl(shared_dir: Path) -> None:
    """Calls in texts, and a server's, become the same source; what BFCL cannot read has no call here."""
    servers = [
        [{"cd": '{"folder": "a"}'}, {"ls": "{}"}],
        [{"f": '{"x": [1, 2.5, null, true], "y": {"z": "it\'s"}}'}],
        [{"f": "{a: 1}"}],
        [{"f": "[1]"}],
        [{"f": '{"x": NaN}'}],
    ]
    asked = [["text", text] for text in TEXTS] + [["calls", each] for each in servers]
    theirs = oracle("bfcl", {"task": "decoded", "answers": asked})
    in_text = SimulatedScoring(*_task_and_sandbox(bound("bfcl_prompted_multi_turn_base", shared_dir)))
    by_server = SimulatedScoring(*_task_and_sandbox(bound("bfcl_multi_turn_base", shared_dir)))
    for text, expected in zip(TEXTS, theirs, strict=False):
        message = in_text._message_of(Output("x/0/0", 0, text=text), 0)
        assert list(in_text._calls_in(message)) == (expected or []), text
    for calls, expected in zip(servers, theirs[len(TEXTS) :], strict=True):
        listed = [
            {"id": "1", "function": {"name": name, "arguments": text}} for each in calls for name, text in each.items()
        ]
        message = by_server._message_of(Output("x/0/0", 0, text="", tool_calls=json.dumps(listed)), 0)
        assert list(by_server._calls_in(message)) == (expected or []), calls


def _task_and_sandbox(task: BoundTask) -> tuple[Any, Any]:
    return task.task, task.sandbox


# --------------------------------------------------------------------------------------------------- through a server


class _Handler(JsonHandler):
    """Answers a request by the script of its conversation, which its first message of the user names."""

    server: "ScriptedServer"

    def do_GET(self) -> None:
        """List the only model."""
        self.send_json({"data": [{"id": "m"}]})

    def do_POST(self) -> None:
        """Send the answer that follows the conversation's last one."""
        time.sleep(self.server.delay_s)
        body = self.read_json()
        first = next(each["content"] for each in body["messages"] if each["role"] == "user")
        at = sum(each["role"] == "assistant" for each in body["messages"])
        self.server.n_requests += 1
        message = self.server.scripts[first][at]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 9, "completion_tokens": 3}
        self.send_json({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})


class ScriptedServer(LoopbackServer):
    """A chat server that answers from scripts."""

    def __init__(self, scripts: dict[str, list[Json]]) -> None:
        super().__init__(_Handler)
        self.scripts, self.n_requests, self.delay_s = scripts, 0, 0.0

    @property
    def model_args(self) -> Json:
        """The arguments of a model behind this server."""
        return {"model": "m", "base_url": f"{self.url}/chat/completions", "num_concurrent": 4}


KINDS = ("right", "one call a step", "a call is missing", "a wrong argument", "a turn is empty", "an extra call")


def scripts_for(task: BoundTask, mode: Mode, n: int) -> tuple[dict[str, list[Json]], list[Script]]:
    """Return the answers of a model to the first rows, by their first message, and the calls in them."""
    answers, scripts = {}, []
    for sample in task.samples()[:n]:
        made = dict(variants(sample.row["ground_truth"], random.Random(sample.row["id"])))
        script = made[KINDS[sample.index % len(KINDS)]]
        answers[sample.row["question"][0][0]["content"]] = messages_of(script, mode, dict(sample.row))
        scripts.append(script)
    return answers, scripts


def verdicts(run: Run, name: str) -> dict[int, tuple[float | None, str | None]]:
    """Return score and reason of each conversation; each has one score, of its last answer."""
    found = {}
    for records in conversations(list(run.samples(name))):
        assert [len(record.scores) for record in records] == [0] * (len(records) - 1) + [1]
        (score,) = records[-1].scores
        assert isinstance(score.detail, dict)
        found[records[-1].request.sample_index] = (score.value, score.detail.get("reason"))
    return found


@needs_oracle("bfcl")
@pytest.mark.parametrize(("category", "mode"), [("base", "calls"), ("miss_func", "calls"), ("miss_func", "text")])
def test_a_run_through_a_server_scores_as_bfcl(category: str, mode: Mode, shared_dir: Path, tmp_path: Path) -> None:
    """Right and damaged answers over HTTP have BFCL's verdicts, which rescoring and the views keep."""
    name, n = named_task(category, mode), 18
    answers, scripts = scripts_for(bound(name, shared_dir), mode, n)
    assert len(answers) == n
    rows = rows_of(shared_dir, category)[:n]
    cases = [[entry, script, gold] for (entry, gold), script in zip(rows, scripts, strict=True)]
    expected = oracle("bfcl", {"task": "verdicts", "cases": cases})
    with serving(ScriptedServer(answers)) as server:
        run = evaluate(
            "local-chat-completions", name, model_args=server.model_args, limit=n, apply_chat_template=True,
            store=str(tmp_path / "s.sqlite"),
        )  # fmt: skip
        n_requests = server.n_requests
    found = verdicts(run, name)
    assert found == {
        at: (float(error is None), None if error is None else REASONS[error]) for at, error in enumerate(expected)
    }
    assert n_requests == sum(map(len, answers.values()))
    (estimate,) = run.estimates
    assert (estimate.metric, estimate.n) == ("state_match", n)
    assert estimate.value == sum(error is None for error in expected) / n
    assert 0 < estimate.value < 1
    rescored = rescore_run(run, RescoreOptions())
    assert [task.n_scored for task in rescored.tasks] == [n]
    assert verdicts(rescored.run, name) == found
    records = conversations(list(run.samples(name)))
    shown = as_text(document(map(sample_example, records)), width=200)
    assert shown.count("state_match 1") == sum(error is None for error in expected)
    assert "missing_result: turn " in shown or "wrong_state: turn " in shown
    write_lm_eval_files(run.store, run.id, tmp_path / "out", log_samples=True)
    lines = [json.loads(line) for file in tmp_path.rglob("samples_*.jsonl") for line in file.open(encoding="utf-8")]
    assert len(lines) == n_requests
    assert sum("state_match" in line for line in lines) == n


@needs_oracle("bfcl")
def test_killed_in_the_middle_it_continues(shared_dir: Path, tmp_path: Path) -> None:
    """After kill -9 no stored answer is asked for again, and the scores are those of a run without it."""
    name, n = "bfcl_multi_turn_base", 6
    answers, _ = scripts_for(bound(name, shared_dir), "calls", n)
    with serving(ScriptedServer(answers)) as server:
        whole = evaluate("local-chat-completions", name, model_args=server.model_args, limit=n,
                         store=str(tmp_path / "whole.sqlite"))  # fmt: skip
        n_all, server.n_requests, server.delay_s = server.n_requests, 0, 0.2
        arguments = ",".join(f"{key}={value}" for key, value in server.model_args.items())
        words = ["run", "--model", "local-chat-completions", "--model_args", arguments, "--tasks", name, "--limit",
                 str(n), "--store", str(tmp_path / "killed.sqlite"), "--quiet"]  # fmt: skip
        path = os.pathsep.join([str(ROOT / "src"), str(oracle_packages("bfcl"))])
        environment = {**os.environ, "PYTHONPATH": path}
        first = subprocess.Popen([sys.executable, "-m", "assaymark", *words], env=environment)
        while server.n_requests < n_all // 2:
            assert first.poll() is None
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
        first.wait()
        time.sleep(0.5)  # requests that it had sent end
        n_first = server.n_requests
        subprocess.run([sys.executable, "-m", "assaymark", *words], env=environment, check=True, timeout=120)
        n_again = n_first + (server.n_requests - n_first) - n_all
        assert 0 <= n_again <= 12  # what was in progress or not flushed: half a second of four at once
    store = Store.open(str(tmp_path / "killed.sqlite"))
    (row,) = store.runs()
    assert verdicts(Run(store, row.run_id), name) == verdicts(whole, name)


@needs_oracle("bfcl")
def test_a_model_that_knows_the_calls_is_right(tmp_path: Path) -> None:
    """The fake model answers the reference of each request: right calls, then none."""
    names = ["bfcl_multi_turn_base", "bfcl_prompted_multi_turn_miss_func"]
    run = evaluate("fake", names, model_args={"accuracy": 1.0}, limit=2, store=str(tmp_path / "s.sqlite"),
                   apply_chat_template=True)  # fmt: skip
    assert {estimate.task: (estimate.value, estimate.n) for estimate in run.estimates} == dict.fromkeys(names, (1.0, 2))


@needs_oracle("bfcl")
def test_the_page_of_a_conversation_shows_each_message_once(tmp_path: Path) -> None:
    """After the first prompt there is only what came since the last answer, and one verdict, at the end."""
    name = "bfcl_prompted_multi_turn_base"
    evaluate("fake", name, model_args={"accuracy": 1.0}, limit=1, store=str(tmp_path / "s.sqlite"),
             apply_chat_template=True)  # fmt: skip
    runs = StoredRuns(Store.open_to_read(str(tmp_path / "s.sqlite")))
    (row,) = runs.runs()
    with running(create_app([board_feature(Site([], runs))])) as url, httpx.Client(base_url=url, timeout=20) as client:
        page = client.get(f"/run/{row.run_id}/samples/{name}/0").text
        turns = client.get(f"/run/{row.run_id}/samples/{name}/0.json").json()["turns"]
    assert page.count("You are an expert in composing functions") == 1
    assert page.count("user: Perform a detailed search using grep") == 1
    assert page.count("&#39;content&#39;: &#39;{&#34;current_working_directory&#34;: &#34;document&#34;}&#39;") == 1
    assert page.count('class="verdict') == 1
    assert [len(turn["scores"]) for turn in turns] == [0] * 7 + [1]


@needs_oracle("bfcl")
def test_a_small_model_runs_to_its_end(tmp_path: Path) -> None:
    """A local model without tools in its template answers in the prompt's syntax, or in words, and is scored."""
    pytest.importorskip("torch")
    name, arguments = "bfcl_prompted_multi_turn_base", {"pretrained": str(demo_model("large"))}
    run = evaluate("hf", name, model_args=arguments, limit=2, gen_kwargs={"max_gen_toks": 8},
                   store=str(tmp_path / "s.sqlite"), apply_chat_template=True)  # fmt: skip
    assert {at: value for at, (value, _) in verdicts(run, name).items()} == {0: 0.0, 1: 0.0}


# -------------------------------------------------------------------------------------------------- single answers


@pytest.fixture
def task(shared_dir: Path) -> BoundTask:
    """The first category, with its tools in the template."""
    return bound("bfcl_multi_turn_base", shared_dir)


def call(name: str, arguments: str) -> Json:
    """Return a server's answer with one call."""
    listed = [{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]
    return {"content": None, "tool_calls": listed}


@needs_oracle("bfcl")
def test_too_many_steps_end_the_conversation(task: BoundTask) -> None:
    """After 21 answers with calls in one turn the conversation is given up, and is wrong."""
    sample = task.samples()[0]
    pairs = held(task, sample, [call("ls", "{}")] * (MOST_STEPS + 1))
    assert len(pairs) == MOST_STEPS + 1
    (score,) = task.score(pairs[-1][0], sample, [pairs[-1][1]])
    assert score.value == 0.0
    assert isinstance(score.detail, dict)
    assert score.detail["reason"] == "too_many_steps"
    assert task.score(pairs[-2][0], sample, [pairs[-2][1]]) == ()


@needs_oracle("bfcl")
@pytest.mark.parametrize("arguments", ["{folder: 1}", "[1]", '"x"', "1" * 5000])
def test_calls_that_cannot_be_read_end_the_turn(task: BoundTask, arguments: str) -> None:
    """The user's next message follows, and later requests have the answer as text, without a call."""
    sample = task.samples()[0]
    request = task.request(sample)
    following = task.next(request, sample, [output_of(call("cd", arguments), request)])
    assert following is not None
    *_, answer, message = following.messages
    assert (answer.role, answer.calls) == ("assistant", ())
    assert arguments in json.loads(answer.text)[0]["function"]["arguments"]
    assert (message.role, message.text) == ("user", sample.row["question"][1][0]["content"])


@needs_oracle("bfcl")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("__import__('os').system", '{"command": "id"}'),
        ("os.system", '{"command": "id"}'),
        ("cd", "{\"folder=__import__('os').getcwd(), x\": 1}"),
        ("eval", '{"x": "1"}'),
        ("cd", '{"folder": {"__class__": "x"}}'),
    ],
)
def test_hostile_calls_fail_and_the_conversation_goes_on(task: BoundTask, name: str, arguments: str) -> None:
    """The model is told that its call failed, the score lists it, and right calls beside it stay right."""
    sample = task.samples()[0]
    right = messages_of([[list(turn)] for turn in sample.row["ground_truth"]], "calls", dict(sample.row))
    pairs = held(task, sample, [call(name, arguments), *right])
    assert pairs[1][0].messages[-1].text.startswith("Error during execution: ")
    (score,) = task.score(pairs[-1][0], sample, [pairs[-1][1]])
    assert score.value == 1.0
    assert isinstance(score.detail, dict)
    assert score.detail["n_failed_calls"] == 1
    assert score.detail["failed_calls"][0].startswith(name)


@needs_oracle("bfcl")
def test_a_call_beyond_a_limit_is_not_carried_out_again(task: BoundTask) -> None:
    """Its stored result is what the conversation goes on with, so that scores do not depend on the machine."""
    sample = task.samples()[0]
    request = task.request(sample)
    outputs = [output_of(call("ls", "{}"), request)]
    following = task.next(request, sample, outputs)
    assert following is not None
    *before, _ = following.messages
    told = Message("tool", (ResultPart("c", "ls", f"{OVER_LIMIT}5 s of processor time"),))
    (score,) = _last_scores(task, sample, replace(following, messages=(*before, told)))
    assert isinstance(score.detail, dict)
    assert score.detail["failed_calls"] == ["ls(): over the limit of 5 s of processor time"]


def _last_scores(task: BoundTask, sample: Sample, request: Request) -> tuple[Any, ...]:
    """Return the scores where the model only answers in words from here on."""
    following: Request | None = request
    while following is not None:
        request, output = following, Output(following.id, 0, text=DONE)
        following = task.next(request, sample, [output])
    return task.score(request, sample, [output])


@needs_oracle("bfcl")
def test_a_failed_request_ends_the_conversation_without_a_verdict(task: BoundTask) -> None:
    """Nothing follows an answer that is an error; it is counted as failed, never as wrong."""
    from assaymark.runs.attempt import score_request

    sample = task.samples()[0]
    request = task.request(sample)
    failed = [Output(request.id, 0, error="no answer", error_kind="TimedOut")]
    assert task.next(request, sample, failed) is None
    (score,) = score_request(task, request, sample, failed)
    assert (score.value, score.status) == (None, ScoreStatus.FAILED)


@needs_oracle("bfcl")
def test_the_simulator_is_part_of_the_run_key(task: BoundTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of BFCL's functions gives another data set's hash, and so another run."""
    own = task.plan.dataset_hash
    machines = find_machines()
    changed = replace(machines, own={**machines.own, "x": ""})
    monkeypatch.setattr("assaymark.tasks.simulated_tasks.find_machines", lambda: changed)
    assert task.plan.dataset_hash != own


@pytest.mark.slow
def test_without_bfcl_a_run_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Planning fails, before anything is asked; the task itself can still be explained."""
    monkeypatch.setattr("assaymark.scoring.simulated_calls.find_spec", lambda _: None)
    with pytest.raises(PlanError, match="pip install --no-deps bfcl-eval=="):
        evaluate("fake", "bfcl_multi_turn_base", limit=1, store=str(tmp_path / "s.sqlite"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulator": "tau"}, "simulator is 'tau'; expected bfcl with doc_to_tools"),
        ({"doc_to_tools": None}, "simulator needs doc_to_tools"),
        ({"repeats": 3}, "repeats is 3; expected 1 with a simulator"),
    ],
)
def test_unfit_keys_are_refused(task: BoundTask, changes: Json, message: str) -> None:
    """An unknown simulator, one without functions, and repeats have no meaning."""
    spec = {**task.task.spec, **changes}
    with pytest.raises(DataError, match=message):
        task_from_spec({key: value for key, value in spec.items() if value is not None}, Path("x.yaml"), "user")
