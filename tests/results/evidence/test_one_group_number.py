"""A group has one score: run, show, compare, report, export and lm-eval's rule agree."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.models.fake import FakeModel
from assaymark.runs.run import Run

CHOICES: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_choice": ["yes", "no", "maybe"],
    "doc_to_target": "{{answer}}",
}
ACC = {**CHOICES, "metric_list": [{"metric": "acc"}]}
WRITTEN: dict[str, Any] = {
    "output_type": "generate_until",
    "doc_to_target": "the",
    "generation_kwargs": {"until": ["."]},
    "metric_list": [{"metric": "exact_match"}],
}
BOTH = {**CHOICES, "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]}
TASKS = {"small": (CHOICES, 9), "large": (BOTH, 31), "written": (WRITTEN, 12), "alone": (ACC, 14)}
GROUPS = """
group: {name}
task: [{members}]
aggregate_metric_list: [{{metric: acc, weight_by_size: {by_size}}}]
"""


def write_folder(folder: Path) -> None:
    """Write four tasks: three with an accuracy, one of them with a main metric of another name, one with neither."""
    for name, (spec, n) in TASKS.items():
        rows = [{"question": f"{name} {i}?", "answer": i % 3} for i in range(n)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": f"{name}.jsonl"}}}
        task = {"task": name, **data, "test_split": "test", "doc_to_text": "{{question}}", **spec}
        (folder / f"{name}.yaml").write_text(json.dumps(task))
    members = {"by_task": "small, large, written", "by_size": "small, large, written", "single": "alone, written"}
    for name, inside in members.items():
        by_size = str(name == "by_size").lower()
        (folder / f"{name}.yaml").write_text(GROUPS.format(name=name, members=inside, by_size=by_size))


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Run, Run]:
    """Return two models' runs of the groups."""
    write_folder(tmp_path)
    names = ["by_task", "by_size", "single"]
    models = [FakeModel(seed=seed) for seed in (1, 2)]
    first, second = (assaymark.evaluate(model, names, include_path=[tmp_path]) for model in models)
    return first, second


def by_lm_evals_rule(run: Run, group: str) -> float:
    """Return a group's score as lm-eval computes it, from the tasks that have its metric."""
    from lm_eval.api.metrics import aggregate_subtask_metrics

    members = ("alone",) if group == "single" else ("small", "large")
    values = [run.estimate(name, "acc").details["lm_eval_value"] for name in members]
    sizes = [TASKS[name][1] for name in members]
    return float(aggregate_subtask_metrics(values, sizes, weight_by_size=group == "by_size"))


@pytest.mark.parametrize("group", ["by_task", "by_size", "single"])
def test_a_group_has_one_number(
    group: str, runs: tuple[Run, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task with another metric in the group does not change the group's score, wherever it is shown."""
    pytest.importorskip("lm_eval", reason="lm_eval is not installed: pip install '.[lm-eval]'")
    first, second = runs
    place = first.store.url.removeprefix("sqlite:///")
    expected = [by_lm_evals_rule(run, group) for run in runs]
    assert [run.estimate(group).value for run in runs] == pytest.approx(expected, abs=1e-12)
    assert [run.estimate(group).details["lm_eval_value"] for run in runs] == pytest.approx(expected, abs=1e-12)

    assert main(["compare", first.short_id, second.short_id, "--json", "--store", place]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["pairs"]
    line = next(line for line in pair["groups"] if line["name"] == group)
    assert line["metric"] == "acc"
    assert [line["first"], line["second"]] == pytest.approx(expected, abs=1e-12)
    assert line["difference"] == pytest.approx(expected[1] - expected[0], abs=1e-12)

    result = f"{100 * expected[0]:.1f}%"
    for words in (["show", first.short_id], ["report", first.short_id, "-o", str(tmp_path / "r.html")]):
        assert main([*words, "--store", place]) == 0
    page = (tmp_path / "r.html").read_text()
    assert re.search(rf"<span>{group}</span><b>{result}</b>", page)
    table = capsys.readouterr().out
    assert result in next(line for line in table.splitlines() if group in line)

    assert main(["export", first.short_id, "-o", str(tmp_path / "r.csv"), "--store", place]) == 0
    rows = [row for row in csv.DictReader((tmp_path / "r.csv").open()) if row["task"] == group]
    assert [float(row["value"]) for row in rows] == pytest.approx(expected[:1], abs=1e-12)
    assert main(["export", first.short_id, "-o", str(tmp_path / "r.json"), "--store", place]) == 0
    assert json.loads((tmp_path / "r.json").read_text())["groups"][group]["acc,none"] == pytest.approx(expected[0])


def test_a_group_of_one_member_has_its_interval(runs: tuple[Run, Run], capsys: pytest.CaptureFixture[str]) -> None:
    """The average of one task is that task's: value, interval, error and method, in a run and in a comparison."""
    first, second = runs
    group, member = first.estimate("single", "acc"), first.estimate("alone", "acc")
    for name in ("value", "low", "high", "stderr", "method", "n"):
        assert getattr(group, name) == getattr(member, name)
    place = first.store.url.removeprefix("sqlite:///")
    assert main(["compare", first.short_id, second.short_id, "--json", "--store", place]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["pairs"]
    line = next(line for line in pair["groups"] if line["name"] == "single")
    of_task = next(line for line in pair["tasks"] if line["name"] == "alone")
    for name in ("first", "second", "difference", "low", "high", "p", "n"):
        assert line[name] == of_task[name]
