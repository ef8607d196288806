"""Patches that a model writes: an agent's whole path, one shot, and what BM25 finds."""

import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.models.cost.prices import Price
from assaymark.models.fake import FakeModel
from assaymark.records import Output, Request
from assaymark.store import Store
from assaymark.swe.agent import AgentLimits
from assaymark.swe.grading import GradeOptions, grade
from assaymark.swe.grading_log import GradingLog
from assaymark.swe.instances import Instance, read_predictions, text_sha, write_rows
from assaymark.swe.predicting import PredictOptions, bm25_order, extract_patch, predict
from assaymark.swe.report import stored_report

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/patch.txt"


class Scripted(FakeModel):
    """Gives its replies in turn, and keeps what it was asked."""

    def __init__(self, replies: Sequence[str]) -> None:
        super().__init__()
        self.replies = list(replies)
        self.prompts: list[str] = []

    def answer(self, requests: Sequence[Request], **_: Any) -> Iterator[Output]:
        """Answer with the next reply, or fail where there is none."""
        for request in requests:
            self.prompts.append("".join(request.segments))
            if self.replies:
                yield Output(request.id, 0, text=self.replies.pop(0), n_context_tokens=50, n_tokens=100)
            else:
                yield Output(request.id, 0, error="no reply left", error_kind="ModelError")


def bash(command: str) -> str:
    """Return a reply with one command."""
    return f"I do this.\n\n```bash\n{command}\n```"


@pytest.fixture
def predicting(options: GradeOptions) -> PredictOptions:
    """Return how patches are written."""
    return PredictOptions(options.repositories, options.environments, limits=options.limits)


@pytest.mark.slow
def test_an_agents_path_to_its_end(
    instance: Instance, store: Store, options: GradeOptions, predicting: PredictOptions
) -> None:
    """It looks, edits, tests and submits; its patch resolves, its trajectory is stored, and nothing repeats."""
    replies = [
        bash("cat calc.py; git log --oneline --all; touch /tmp/kept"),
        "no command",
        bash("sed -i 's/a - b/a + b/' calc.py && python -m pytest -q -p no:cacheprovider -p no:assaymark tests"),
        bash("ls /tmp; git diff -- calc.py > /tmp/patch.txt; head -c 30000 /dev/zero | tr '\\0' x"),
        bash(SUBMIT),
    ]
    model = Scripted(replies)
    predictions, failures = predict(store, [instance], model, predicting)
    assert failures == {}
    assert instance.test_patch not in "".join(model.prompts)
    history = model.prompts[-1]
    assert "return a - b" in history
    assert history.count("A calculator") == 1
    assert "Notes" not in history
    assert "Your answer has 0 blocks of bash" in history
    assert "2 passed" in history
    assert "kept" in history
    assert "characters left out" in history
    (graded,) = grade(store, [instance], predictions, options)
    assert graded.outcome == "resolved"
    (attempt,) = GradingLog(store).attempts_of(predictions[0].patch_sha, instance.instance_id, model.identity.name)
    trajectory: Any = attempt.trajectory
    assert trajectory["trajectory_format"] == "mini-swe-agent-1.1"
    assert trajectory["info"]["model_stats"]["api_calls"] == 5
    assert trajectory["info"]["exit_status"] == "Submitted"
    assert [each["role"] for each in trajectory["messages"]] == ["system", "user", *["assistant", "user"] * 5, "exit"]
    assert predict(store, [instance], Scripted([]), predicting)[0] == predictions
    report = stored_report(store, [instance], predictions)
    assert report.efforts is not None
    assert (report.efforts.n_calls, report.efforts.n_resolved, report.efforts.cost) == (5, 1, None)
    assert store.verify() == []


@pytest.mark.parametrize(
    ("replies", "limits", "status"),
    [
        ([bash("true")] * 3, AgentLimits(n_steps=2), "LimitsExceeded"),
        (["nothing"] * 4, AgentLimits(), "RepeatedFormatError"),
        ([bash("true")] * 3, AgentLimits(seconds=0), "TimeExceeded"),
        ([bash("sleep 30"), bash("echo; false")] * 2, AgentLimits(n_steps=2, command_seconds=1), "LimitsExceeded"),
    ],
)
def test_an_agents_limits(
    instance: Instance, store: Store, predicting: PredictOptions, replies: list[str], limits: AgentLimits, status: str
) -> None:
    """Each ends it without a patch, and is its exit status."""
    predictions, _ = predict(store, [instance], Scripted(replies), replace(predicting, agent=limits))
    assert predictions[0].model_patch == ""
    (attempt,) = GradingLog(store).attempts_of(
        predictions[0].patch_sha, instance.instance_id, predictions[0].model_name_or_path
    )
    assert attempt.exit_status == status


@pytest.mark.parametrize(("price", "n_calls", "cost"), [(Price(4000, 10_000), 3, 3.6), (None, 5, None)])
def test_the_cost_limit_ends_an_agent(
    instance: Instance, store: Store, predicting: PredictOptions, price: Price | None, n_calls: int, cost: float | None
) -> None:
    """The call that passes it is the last; each costs 1.2 at this price. Without a price it limits nothing."""
    limits = replace(predicting, agent=AgentLimits(n_steps=5, cost=2.5), price=price)
    predictions, _ = predict(store, [instance], Scripted([bash("true")] * 6), limits)
    (attempt,) = GradingLog(store).attempts_of(
        predictions[0].patch_sha, instance.instance_id, predictions[0].model_name_or_path
    )
    assert (attempt.exit_status, attempt.n_calls) == ("LimitsExceeded", n_calls)
    assert attempt.cost == (None if cost is None else pytest.approx(cost))
    trajectory: Any = attempt.trajectory
    assert trajectory["info"]["model_stats"]["instance_cost"] == (attempt.cost or 0.0)


@pytest.mark.slow
def test_an_agent_has_no_network(instance: Instance, store: Store, predicting: PredictOptions) -> None:
    """A server of this machine, which answers outside, gets nothing from a socket or from pip of the agent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('CONN' + 'ECTED')"
        pip = "python -m pip install --no-input --disable-pip-version-check --retries 0 --timeout 5 --target /tmp/p"
        replies = [
            bash(f'python -c "{connect}"'),
            bash("python -c \"import socket; print(socket.gethostbyname('pypi.org'))\""),
            bash(f"{pip} --index-url http://127.0.0.1:{port}/simple idna; ls /tmp/p"),
        ]
        subprocess.run([sys.executable, "-c", connect], check=True)  # outside it is reached
        server.accept()[0].close()
        model = Scripted(replies)
        predict(store, [instance], model, replace(predicting, agent=AgentLimits(n_steps=len(replies))))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    (attempt,) = GradingLog(store).attempts_of(text_sha(""), instance.instance_id, model.identity.name)
    trajectory: Any = attempt.trajectory
    seen = [each["content"] for each in trajectory["messages"] if "returncode" in each["extra"]]
    for expected, output in zip(("refused", "gaierror", "No matching distribution found for idna"), seen, strict=True):
        assert expected in output
        assert "<returncode>0<" not in output


def test_a_model_that_fails_is_asked_again_later(instance: Instance, store: Store, predicting: PredictOptions) -> None:
    """Nothing is stored of an attempt that the model did not finish."""
    assert predict(store, [instance], Scripted([]), predicting)[1] == {instance.instance_id: "no reply left"}
    made, failures = predict(store, [instance], Scripted([bash("true")]), replace(predicting, agent=AgentLimits(1)))
    assert (len(made), failures) == (1, {})


@pytest.mark.slow
@pytest.mark.parametrize("how", ["oracle", "bm25"])
def test_one_shot(
    instance: Instance, store: Store, options: GradeOptions, predicting: PredictOptions, how: str
) -> None:
    """The question has the issue and the file, not the tests' patch; the answer's block of diff is the patch."""
    model = Scripted([f"Here it is:\n\n```diff\n{instance.patch}```\nDone."])
    predictions, _ = predict(store, [instance], model, replace(predicting, how=how))
    (prompt,) = model.prompts
    assert "add() subtracts" in prompt
    assert "3     return a - b" in prompt
    assert "test_add" not in prompt
    assert ("tests/test_calc.py" in prompt) == (how == "bm25")
    assert grade(store, [instance], predictions, options)[0].outcome == "resolved"


def test_the_command_writes_predictions(
    project: Path, instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a model that writes no patch: an empty prediction, which grades as one."""
    write_rows(tmp_path / "i.jsonl", [instance.row()])
    words = ["--instances", str(tmp_path / "i.jsonl"), "--repo", str(project)]
    output = tmp_path / "p.jsonl"
    assert main(["swe", "predict", "--model", "fake", *words, "-o", str(output), "--trajectories", str(tmp_path)]) == 0
    assert json.loads(output.read_text())["model_patch"] == ""
    written = json.loads((tmp_path / f"{instance.instance_id}.traj.json").read_text())
    assert written["info"]["exit_status"] == "RepeatedFormatError"
    assert main(["swe", "grade", str(output), *words, "--json"]) == 0
    assert '"empty_patch_instances": 1' in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_limits_each_command_of_an_agent(
    project: Path, instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--timeout is of a command, not of tests: the agent is told of it."""
    monkeypatch.setattr("assaymark.models.create.create_model", lambda *_: Scripted([bash("echo begun; sleep 30")]))
    write_rows(tmp_path / "i.jsonl", [instance.row()])
    words = ["--instances", str(tmp_path / "i.jsonl"), "--repo", str(project), "-o", str(tmp_path / "p.jsonl")]
    words += ["--timeout", "1", "--steps", "1", "--trajectories", str(tmp_path)]
    assert main(["swe", "predict", "--model", "fake", *words]) == 0
    messages = json.loads((tmp_path / f"{instance.instance_id}.traj.json").read_text())["messages"]
    assert "The command was ended: it took longer than the 1 s" in messages[-2]["content"]
    assert "begun" in messages[-2]["content"]


@pytest.mark.slow
def test_the_command_limits_the_time_of_an_agent(
    project: Path, instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--agent_time ends it between two commands, however many steps are left, and is in the trajectory."""
    monkeypatch.setattr("assaymark.models.create.create_model", lambda *_: Scripted([bash("sleep 2")] * 5))
    write_rows(tmp_path / "i.jsonl", [instance.row()])
    words = ["--instances", str(tmp_path / "i.jsonl"), "--repo", str(project), "-o", str(tmp_path / "p.jsonl")]
    assert (
        main(["swe", "predict", "--model", "fake", *words, "--agent_time", "1", "--trajectories", str(tmp_path)]) == 0
    )
    info = json.loads((tmp_path / f"{instance.instance_id}.traj.json").read_text())["info"]
    assert (info["exit_status"], info["model_stats"]["api_calls"]) == ("TimeExceeded", 1)
    assert info["config"]["agent"]["seconds"] == 1


@pytest.mark.parametrize("name", ["preds.json", "preds.jsonl"])
def test_predictions_are_read_back_and_resumed(
    project: Path, instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The same command asks nothing again and writes the same file; one that nothing could read is refused first."""
    known = [instance, replace(instance, instance_id="local__project-2")]
    write_rows(tmp_path / "i.json", [each.row() for each in known])
    words = ["--instances", str(tmp_path / "i.json"), "--repo", str(project)]
    output = tmp_path / name
    command = ["swe", "predict", "--model", "fake", "--how", "oracle", *words]
    for _ in range(2):
        assert main([*command, "-o", str(output)]) == 0
        assert [each.instance_id for each in read_predictions(output)] == [each.instance_id for each in known]
    with Store.open(None) as store:
        log = GradingLog(store)
        for each in read_predictions(output):
            assert len(log.attempts_of(each.patch_sha, each.instance_id, each.model_name_or_path)) == 1
    assert main(["swe", "grade", str(output), *words]) == 0
    capsys.readouterr()
    assert main([*command, "-o", str(tmp_path / "preds.parquet")]) == 2
    assert "expected a file that ends in .jsonl (JSON lines) or .json (a list)" in capsys.readouterr().err


def test_the_command_knows_the_price(
    project: Path, instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By --price or --prices an agent's calls cost something; a limit in money without any is refused, as in `run`."""
    write_rows(tmp_path / "i.jsonl", [instance.row()])
    prices = tmp_path / "prices.yaml"
    prices.write_text("mine:\n  models:\n    fake-random-0: [0, 1000000]\n")
    output = tmp_path / "p.jsonl"
    command = ["swe", "predict", "--model", "fake", "--instances", str(tmp_path / "i.jsonl"), "--repo", str(project)]
    command += ["-o", str(output), "--trajectories", str(tmp_path)]
    for attempt, words in enumerate((["--price", "0,1000000"], ["--prices", str(prices)]), start=1):
        assert main([*command, "--attempt", str(attempt), "--max_cost", "0.5", *words]) == 0
        info = json.loads((tmp_path / f"{instance.instance_id}.traj.json").read_text())["info"]
        assert info["exit_status"] == "LimitsExceeded"
        assert info["model_stats"]["api_calls"] == 1
        assert info["model_stats"]["instance_cost"] >= 1
    capsys.readouterr()
    for mistake, said in (
        (["--max_cost", "1"], "no price of model 'fake-random-0' is known"),
        (["--max_cost", "0", "--price", "1,1"], "--max_cost is 0: nothing may be spent"),
        (["--agent_time", "0"], "0.0 is not in the range"),
        (["--price", "cheap"], "--price cheap; expected IN,OUT"),
        (["--prices", str(tmp_path / "none.yaml")], "cannot be read"),
    ):
        assert main([*command, *mistake]) == 2
        assert said in capsys.readouterr().err


def test_bm25_by_its_formula() -> None:
    """Three documents, computed by hand."""
    documents = {"a": "add numbers", "b": "add add other words here", "c": "nothing"}
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    lengths = {"a": 3, "b": 6, "c": 2}
    scores = {
        name: idf * n * 1.9 / (n + 0.9 * (0.6 + 0.4 * lengths[name] / (11 / 3))) for name, n in (("a", 1), ("b", 2))
    }
    assert bm25_order("add", documents) == [*sorted(scores, key=lambda name: -scores[name]), "c"]
    assert bm25_order("numbers", documents)[0] == "a"


def test_patches_in_answers() -> None:
    """The last block, an answer that is a diff, or nothing."""
    assert extract_patch("```diff\na\n```\n```diff\nb\n```") == "b\n"
    assert extract_patch("<patch>\nx\n</patch>") == "x\n"
    assert extract_patch("Sure.\ndiff --git a/x b/x\n+1") == "diff --git a/x b/x\n+1\n"
    assert extract_patch("I cannot.") == ""
