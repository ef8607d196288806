"""Runs with `circular`: resumed, failed, rescored, compared, averaged and exported."""

import json
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import PlanError
from assaymark.options.shared import options_of
from assaymark.runs.comparison import compare_runs
from assaymark.runs.execute import execute
from assaymark.runs.plan import RunOptions, prepare
from assaymark.runs.rescoring import RescoreOptions, rescore_run
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from tests.runs.test_execute import CountingModel, stored_scores

ADDED = ["circular_acc", "acc_rotations"]


def run_of(tasks: str = "demo_letters_people", **options: Any) -> assaymark.Run:
    """Return a circular run of the fake model on ten samples."""
    inputs = {"model_args": {"mode": "random"}, "limit": 10, "circular": True, **options}
    return assaymark.evaluate("fake", tasks, **inputs)


@pytest.mark.slow
def test_a_question_is_one_sample_with_all_its_rotations() -> None:
    """N counts questions, not rotations; acc is that of the plain run, and circular_acc at most that."""
    run, plain = run_of(), run_of(circular=False)
    results = {estimate.metric: estimate for estimate in run.estimates}
    assert {each.n for each in run.estimates} == {10}
    assert results["acc"].value == plain.estimate("demo_letters_people", "acc").value
    assert (results["circular_acc"].value or 0) <= (results["acc"].value or 0)
    assert results["circular_acc"].chance == pytest.approx(4.0**-4)
    assert len(run.samples("demo_letters_people")[0].outputs) == 16


def test_the_option_is_part_of_the_key_only_where_it_is_used() -> None:
    """A plan without it has no such field, so that stored runs keep their keys."""
    run, plain = run_of(), run_of(circular=False)
    assert run.id != plain.id
    assert "circular" not in plain.configuration()
    assert run.configuration()["circular"] is True
    assert options_of(run.row.plan)["circular"] is True
    assert run_of().id == run.id


@pytest.mark.parametrize("stop_after", [1, 37, 100])
def test_an_interrupted_circular_run_is_resumed(stop_after: int, tmp_path: Path) -> None:
    """No rotation is asked twice, and the scores are those of an uninterrupted run."""

    def prepared(model: CountingModel) -> Any:
        options = RunOptions(bind=BindOptions(limit=10, circular=True), settings={"circular": True})
        return prepare(Catalog.open(lm_eval=False).select(["demo_letters_people"]), model, options)

    whole, store = Store.open(str(tmp_path / "whole.sqlite")), Store.open()
    uninterrupted, first, second = CountingModel(), CountingModel(stop_after), CountingModel()
    expected = execute(prepared(uninterrupted), uninterrupted, whole)
    with pytest.raises(KeyboardInterrupt):
        execute(prepared(first), first, store)
    result = execute(prepared(second), second, store)
    assert sorted(first.asked + second.asked) == sorted(uninterrupted.asked)
    assert stored_scores(store, result.run_id) == stored_scores(whole, expected.run_id)


def test_a_failed_rotation_is_no_wrong_answer() -> None:
    """A question one of whose rotations failed counts in no metric, also after it is scored again."""
    run = run_of(model_args={"mode": "random", "fail": 0.03})
    before = [(estimate.metric, estimate.value, estimate.n, estimate.n_failed) for estimate in run.estimates]
    failed = {n_failed for _, _, _, n_failed in before}
    assert len(failed) == 1
    assert 0 < failed.pop() < 10
    again = rescore_run(run, RescoreOptions())
    assert [(each.metric, each.value, each.n, each.n_failed) for each in again.run.estimates] == before


def test_rescoring_keeps_the_rotations() -> None:
    """Another metric is scored from the file's order, and the rotations' scores stay."""
    run = run_of()
    before = {metric: run.estimate("demo_letters_people", metric).value for metric in ADDED}
    again = rescore_run(run, RescoreOptions(metrics=["acc_bytes"])).run
    assert {metric: again.estimate("demo_letters_people", metric).value for metric in ADDED} == before
    assert again.estimate("demo_letters_people", "acc_bytes").n == 10


def test_mixed_tasks_are_evaluated_and_noted() -> None:
    """A task without listed options is evaluated as always, with its reason; the rotations' metrics are the others'."""
    run = run_of("demo_letters_people,demo_facts,demo_sums")
    metrics = {(estimate.task, estimate.metric) for estimate in run.estimates}
    assert {(task, metric) for task, metric in metrics if metric in ADDED} == {
        ("demo_letters_people", metric) for metric in ADDED
    }
    (note,) = [line for line in run.notes if "circular_acc" in line]
    assert "demo_facts: its prompt does not list" in note
    assert "demo_sums: it is generate_until" in note


def test_without_any_task_to_rotate_the_run_is_refused() -> None:
    """One line names the tasks and why."""
    with pytest.raises(PlanError, match=r"demo_sums: it is generate_until.*omit --circular"):
        run_of("demo_sums")


def test_groups_average_the_rotations() -> None:
    """A group whose tasks all have them has both metrics, weighted as its own."""
    run = run_of("demo_letters")
    group = {estimate.metric: estimate for estimate in run.estimates if estimate.details.get("kind") == "group"}
    leaves = [each for each in run.estimates if each.details.get("kind") == "task" and each.metric == "circular_acc"]
    assert group["circular_acc"].value == pytest.approx(sum(o.n * (o.value or 0) for o in leaves) / 40)
    assert group["circular_acc"].n == 40


def test_two_circular_runs_are_compared_by_circular_acc() -> None:
    """A circular and a plain run are compared by acc, and the difference in set-up is stated."""
    first, second = run_of(model_args={"accuracy": 0.8}), run_of(model_args={"accuracy": 0.4})
    plain = run_of(model_args={"accuracy": 0.4}, circular=False)
    both = compare_runs([first, second]).pairs[0]
    assert {line.metric for line in both.tasks} == {"circular_acc"}
    assert any("by circular_acc" in note for note in both.notes)
    for runs in ([first, plain], [plain, first]):
        pair = compare_runs(runs).pairs[0]
        assert {line.metric for line in pair.tasks} == {"acc"}
        assert any("circular" in str(each) for each in pair.set_up)


def test_lm_evals_files_have_the_files_order(tmp_path: Path) -> None:
    """A samples file has lm-eval's queries only, and both accuracies."""
    run_of().write_lm_eval_files(tmp_path, log_samples=True)
    (path,) = tmp_path.rglob("samples_*.jsonl")
    line = json.loads(path.read_text().splitlines()[0])
    assert (len(line["arguments"]), len(line["resps"])) == (4, 4)
    assert set(ADDED) <= line.keys()
