"""Patches that a model writes: an agent's whole path, one shot, and what BM25 finds."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.models.fake import FakeModel
from assaymark.records import Output, Request
from assaymark.store import Store
from assaymark.swe.agent import AgentLimits
from assaymark.swe.grading import GradeOptions, grade
from assaymark.swe.grading_log import GradingLog
from assaymark.swe.instances import Instance, write_rows
from assaymark.swe.one_shot import bm25_order, extract_patch
from assaymark.swe.predicting import PredictOptions, predict
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
                yield Output(request.id, 0, text=self.replies.pop(0))
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
