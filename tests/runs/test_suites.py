"""Suites end to end: shots, profile, missing tasks, stored results and output."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import assaymark
from assaymark.cli.main import main
from assaymark.errors import DataError, PlanError, UsageError
from assaymark.models.fake import FakeModel
from assaymark.records import QueryKind
from assaymark.runs.prepare import choose_tasks
from tests.tasks.folders import task_spec, write_task

MEMBERS: list[dict[str, Any]] = [
    {"task": "sums", "shots": 2, "metric": "acc", "chance": 0.5, "column": "A"},
    {"task": "letters", "shots": 0, "metric": "acc_norm", "chance": 0.5, "column": "B"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tasks, one that generates, and a suite of the first two."""
    place = tmp_path / "mine"
    write_task(place, task_spec("sums", num_fewshot=1))
    write_task(place, task_spec("letters", num_fewshot=3))
    write_task(
        place,
        task_spec("written", output_type="generate_until", doc_to_target="{{text}}", doc_to_choice=...,
                  metric_list=[{"metric": "exact_match"}]),
    )  # fmt: skip
    write_suite(place, MEMBERS)
    return place


def write_suite(folder: Path, members: list[dict[str, Any]], name: str = "board", **changes: Any) -> None:
    """Write a suite file."""
    (folder / "suites").mkdir(exist_ok=True)
    content = {"name": name, "profile": "open-llm-v1", "members": members, **changes}
    (folder / "suites" / f"{name}.yaml").write_text(yaml.safe_dump(content))


def test_members_are_evaluated_with_the_suites_shots(folder: Path) -> None:
    """Each task has the suite's number of shots and profile, not its own; the composite is an estimate."""
    run = assaymark.evaluate(FakeModel(), suite="board", include_path=[folder])
    plan = run.row.plan
    assert [(task.name, task.num_fewshot) for task in plan.tasks] == [("sums", 2), ("letters", 0)]
    assert (plan.profile, plan.seed) == ("open-llm-v1", 42)
    result = run.estimate("board")
    acc, norm = run.estimate("sums", "acc"), run.estimate("letters", "acc_norm")
    assert acc.value is not None
    assert norm.value is not None
    assert result.value == pytest.approx((acc.value + norm.value) / 2)
    assert result.n == 16
    assert "board: " in str(run)
    named = [e for e in json.loads(json.dumps(run.to_json()))["estimates"] if e["details"].get("kind") == "composite"]
    assert [e["task"] for e in named] == ["board"]


def test_suites_are_accepted_among_tasks_too(folder: Path) -> None:
    """`--tasks board` is the same run as `--suite board`; a given profile overrides the suite's, with a note."""
    item = assaymark.evaluate(FakeModel(), suite="board", include_path=[folder])
    two = assaymark.evaluate(FakeModel(), "board", include_path=[folder])
    assert item.id == two.id
    other = assaymark.evaluate(FakeModel(), "board", include_path=[folder], profile="lm-eval-0.4.13")
    assert other.row.plan.profile == "lm-eval-0.4.13"
    assert any("in place of the suite's open-llm-v1" in note for note in other.notes)


def test_shots_beside_a_suite_are_refused(folder: Path) -> None:
    """num_fewshot would change the benchmark: it is refused with the reason, before any data is read."""
    with pytest.raises(PlanError, match=r"num_fewshot is 5, but suite board fixes the shots of each task \(0, 2\)"):
        assaymark.evaluate(FakeModel(), suite="board", include_path=[folder], num_fewshot=5)
    assert main(["run", "--model", "fake", "--suite", "board", "--include_path", str(folder), "-f", "5"]) == 2


def test_a_stored_run_gains_the_composite_without_requests(folder: Path) -> None:
    """If the same tasks at the same shots were run before, the composite is computed from the stored outputs."""
    write_suite(folder, [{**m, "column": "all"} for m in MEMBERS], "other")
    first = assaymark.evaluate(FakeModel(), suite="other", include_path=[folder])
    again = assaymark.evaluate(FakeModel(), suite="board", include_path=[folder])
    assert again.id == first.id
    assert again.result is not None
    assert again.result.was_stored
    assert {e.task for e in again.estimates if e.details["kind"] == "composite"} == {"other", "board"}


def test_tasks_that_cannot_be_evaluated_are_refused_in_one_list(folder: Path) -> None:
    """A missing task, missing data and a model that cannot generate are reported in one message."""
    write_task(folder, task_spec("no_rows", dataset_kwargs={"data_files": {"test": "rows/absent.jsonl"}}))
    lacking = [{"task": name, "metric": metric, "chance": 0, "column": "C"}
               for name, metric in (("written", "exact_match"), ("no_rows", "acc"))]  # fmt: skip
    write_suite(folder, [*MEMBERS, *lacking])
    model = _OnlyChoices()
    with pytest.raises(PlanError) as refused:
        assaymark.evaluate(model, suite="board", include_path=[folder])
    said = str(refused.value)
    assert "2 of its tasks cannot be evaluated" in said
    assert "written: model" in said
    assert "cannot answer generate_until" in said
    assert "no_rows: " in said
    run = assaymark.evaluate(model, suite="board", include_path=[folder], partial=True)
    result = run.estimate("board")
    assert result.value is None
    assert result.details["why"] == "no score of written, no_rows"
    assert [task.name for task in run.row.plan.tasks] == ["sums", "letters"]
    assert sum(note.startswith("omitted from board: ") for note in run.notes) == 2
    assert "board: no composite" in str(run)


class _OnlyChoices(FakeModel):
    """A model that returns log-likelihoods and cannot generate."""

    answers = frozenset({QueryKind.LOGLIKELIHOOD})


def test_a_metric_that_a_task_lacks_is_named(folder: Path) -> None:
    """A suite with a metric that its task lacks is refused before any request is sent."""
    write_suite(folder, [{"task": "sums", "metric": "f1", "chance": 0, "column": "A"}])
    with pytest.raises(DataError, match=r"task sums has no f1 under the filter 'none'; it has acc"):
        assaymark.evaluate(FakeModel(), suite="board", include_path=[folder])


def test_a_group_that_lost_a_task_is_not_averaged(folder: Path) -> None:
    """With partial, the mean of an incomplete group is not shown; its other tasks are."""
    write_task(folder, {"group": "pair", "task": ["sums", "written"],
                        "aggregate_metric_list": [{"metric": "acc"}]})  # fmt: skip
    write_suite(folder, [{"task": "pair", "metric": "acc", "chance": 0, "column": "A", "shots": 1}])
    with pytest.raises(DataError, match="task written has no acc"):
        assaymark.evaluate(_OnlyChoices(), suite="board", include_path=[folder])
    write_task(folder, task_spec("no_rows", dataset_kwargs={"data_files": {"test": "rows/absent.jsonl"}}))
    write_task(folder, {"group": "pair", "task": ["sums", "no_rows"],
                        "aggregate_metric_list": [{"metric": "acc"}]})  # fmt: skip
    run = assaymark.evaluate(_OnlyChoices(), suite="board", include_path=[folder], partial=True)
    assert {e.task for e in run.estimates} == {"sums", "board"}
    assert run.estimate("board").value is None


def test_suites_of_different_profiles_cannot_be_one_run(folder: Path) -> None:
    """Two suites with different profiles cannot be one run, unless a profile is given."""
    write_suite(folder, MEMBERS, "other", profile="nous")
    with pytest.raises(UsageError, match="the profiles nous, open-llm-v1"):
        choose_tasks("board,other", {"include_path": [folder]})
    _, settled = choose_tasks("board,other", {"include_path": [folder], "profile": "assaymark"})
    assert settled["profile"] == "assaymark"


@pytest.mark.slow
def test_the_command_prints_the_composite_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`run --suite` shows the composite under the table; --json has it; `plan` and `ls suites` know the suite."""
    words = ["--model", "fake", "--suite", "board", "--include_path", str(folder)]
    assert main(["run", *words, "--quiet"]) == 0
    output = capsys.readouterr().out
    assert "board: " in output
    assert "not reproduced" in output
    assert main(["run", *words, "--quiet", "--json"]) == 0
    estimates = json.loads(capsys.readouterr().out)["estimates"]
    assert [e["task"] for e in estimates if e["details"]["kind"] == "composite"] == ["board"]
    assert main(["plan", *words, "--json"]) == 0
    assert [c["n_samples"] for c in json.loads(capsys.readouterr().out)["chunks"]] == [16]
    assert main(["ls", "suites", "--include_path", str(folder)]) == 0
    listed = capsys.readouterr().out
    assert "open-llm-v1" in listed
    assert "not reproduced" in listed
    assert main(["run", "--model", "fake", "--suite", "bord", "--include_path", str(folder)]) == 2
    assert "nearest: board" in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_suite_runs_end_to_end(shared_dir: Path) -> None:
    """open-llm-v1 on real rows, three samples of each task: 62 tasks, six columns, one composite."""
    run = assaymark.evaluate(FakeModel(), suite="open-llm-leaderboard", data_dir=shared_dir / "data", limit=3)
    result = run.estimate("open-llm-v1")
    assert [c["name"] for c in result.details["columns"]] == [
        "ARC", "HellaSwag", "MMLU", "TruthfulQA", "Winogrande", "GSM8K",
    ]  # fmt: skip
    assert result.value == pytest.approx(sum(c["value"] for c in result.details["columns"]) / 6)
    shots = {task.name: task.num_fewshot for task in run.row.plan.tasks}
    assert (shots["arc_challenge"], shots["gsm8k_2023"], shots["truthfulqa_mc2_2023"]) == (25, 5, 0)
