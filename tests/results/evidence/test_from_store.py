"""A real run in a real store, from the demo tasks and the fake model, as reports see it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from assaymark.documents.document import document
from assaymark.documents.terminal import as_text
from assaymark.errors import UnknownName
from assaymark.models.fake import FakeModel
from assaymark.records.json_values import json_fields
from assaymark.results.comparison.compare import compare_runs
from assaymark.results.evidence.from_store import (
    find_estimate,
    is_wrong,
    run_evidence,
    run_view,
    save_summary,
    wrong_samples,
)
from assaymark.results.views.run_document import run_document
from assaymark.results.views.run_list import run_list
from assaymark.results.views.samples import sample_example, sample_to_json
from assaymark.runs.execute import execute
from assaymark.runs.plan import RunOptions, prepare
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog

TASKS = ("demo_letters", "demo_yesno", "demo_stories")
LIMIT = 12


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store."""
    with Store.open(str(tmp_path / "store.sqlite")) as opened:
        yield opened


def run(store: Store, **options: object) -> str:
    """Answer the demo tasks with the fake model, summarise, and return the run's id."""
    model = FakeModel(**options)  # type: ignore[arg-type]
    selection = Catalog.open(lm_eval=False).select(TASKS)
    prepared = prepare(selection, model, RunOptions(bind=BindOptions(limit=LIMIT)))
    run_id = execute(prepared, model, store).run_id
    save_summary(store, run_id, selection, prepared.bound, bootstrap_iters=0)
    return run_id


def test_estimates_are_stored_with_the_run(store: Store) -> None:
    """Estimates are read back equal, with the size of the whole split and the groups."""
    run_id = run(store, mode="gold", accuracy=1.0)
    view = run_view(store, run_id)
    who = find_estimate(view.estimates, "demo_yesno")
    assert (who.value, who.n) == (1.0, LIMIT)
    assert (who.details["n_total"] or 0) > LIMIT
    assert who.low is not None
    assert who.low < 1.0
    assert "12 samples per task" in dict(view.facts)["limit"]
    assert "demo_yesno" in as_text(run_document([view]))


def test_a_model_that_ties_everything_scores_chance(store: Store) -> None:
    """With every choice equally probable, our value is chance exactly, and every sample is counted as a tie."""
    run_id = run(store, mode="constant")
    who = find_estimate(store.estimates(run_id), "demo_yesno", "acc")
    assert who.value == pytest.approx(who.chance)
    assert who.details["n_tied"] == LIMIT


def test_failed_requests_are_reported_and_are_no_wrong_answers(store: Store) -> None:
    """Where some queries fail, n and n_failed add up to the number of samples."""
    run_id = run(store, mode="gold", fail=0.2)
    who = find_estimate(store.estimates(run_id), "demo_yesno", "acc")
    assert who.n_failed > 0
    assert who.n + who.n_failed == LIMIT
    assert who.value == 1.0


def test_two_stored_runs_compare(store: Store) -> None:
    """A model that knows the answers beats one that guesses; their prompts and settings are the same."""
    runs = [run_evidence(store, run(store, **options)) for options in ({"mode": "random"}, {"mode": "gold"})]
    pair = compare_runs(runs, strict_prompts=True).pairs[0]
    assert pair.overall is not None
    assert pair.overall.better == 1
    assert not [line for line in pair.set_up if "prompts" in line or "shots" in line]


def test_wrong_samples_are_found_and_drawn(store: Store) -> None:
    """The wrong samples of a guessing model are found, and displayed with pick, gold and numbers."""
    run_id = run(store, mode="random")
    records = list(store.samples(run_id, "demo_yesno"))
    scores = {row.sample_index: row.value for row in store.scores(run_id, "demo_yesno") if row.metric == "acc"}
    wrong = {record.request.sample_index for record in records if is_wrong(record)}
    assert 0 < len(wrong) < LIMIT
    by_acc = {index for index, value in scores.items() if value == 0.0}
    main = find_estimate(store.estimates(run_id), "demo_yesno").metric
    assert main != "acc" or wrong == by_acc
    text = as_text(document(sample_example([next(record for record in records if is_wrong(record))])))
    assert "picked" in text
    assert "right" in text
    result = sample_to_json(records[0])
    assert result["prompt"]
    assert isinstance(result["outputs"], list)
    assert len(result["outputs"]) == len(records[0].outputs)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"mode": "random"}, {"mode": "gold", "fail": 0.2}, {"mode": "constant"}])
@pytest.mark.parametrize("task", ["demo_yesno", "demo_stories"])
def test_wrong_samples_are_those_that_reading_all_would_find(
    store: Store, task: str, options: dict[str, object]
) -> None:
    """Skipping right samples without reading them loses no wrong or failed sample."""
    run_id = run(store, **options)
    assert list(wrong_samples(store, run_id, task)) == [r for r in store.samples(run_id, task) if is_wrong(r)]


def test_a_run_without_wrong_answers_is_not_read_whole(store: Store) -> None:
    """Where all answers are right, no sample's text is fetched."""
    run_id = run(store, mode="gold", accuracy=1.0)
    statements: list[str] = []

    def note(*given: object) -> None:
        statements.append(str(given[2]))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert list(wrong_samples(store, run_id, "demo_yesno")) == []
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert statements
    assert not any("FROM texts" in statement for statement in statements)


def test_a_perplexity_calls_nothing_wrong(store: Store) -> None:
    """A document's log-likelihood is neither right nor wrong."""
    run_id = run(store, mode="random")
    assert not any(is_wrong(record) for record in store.samples(run_id, "demo_stories"))


def test_runs_are_listed_with_their_groups_folded(store: Store) -> None:
    """The list shows a group's name in place of its tasks, and JSON names every task."""
    run_id = run(store, mode="random")
    rows = store.runs()
    text = as_text(run_list(rows), 100)
    assert rows[0].short_id in text
    assert "demo_letters_" not in text
    (listed,) = map(json_fields, rows)
    assert listed["run_id"] == run_id
    assert isinstance(listed["tasks"], list)
    assert len(listed["tasks"]) > len(TASKS)


def test_the_list_has_one_line_a_run(store: Store) -> None:
    """At any width a run is one line with its shots and limit; long names are shortened, numbers are not."""
    run(store, mode="random")
    for width in (80, 100, 160):
        lines = [line for line in as_text(run_list(store.runs()), width).splitlines() if line.strip("─ ")]
        assert len(lines) == 2
        assert lines[0].split() == ["run", "model", "tasks", "n-shot", "n", "limit", "status", "when"]
        assert len(lines[1]) <= width
        assert "finished" in lines[1]


def test_an_unknown_task_or_metric_names_what_there_is(store: Store) -> None:
    """The error about an estimate that does not exist names those that do."""
    estimates = store.estimates(run(store, mode="random"))
    with pytest.raises(UnknownName, match="demo_letters"):
        find_estimate(estimates, "demo_yes")
    with pytest.raises(UnknownName, match="acc"):
        find_estimate(estimates, "demo_yesno", "bleu")


def test_a_run_stored_without_chance_has_the_declared_one(store: Store) -> None:
    """A run from before demo_truth's chance was declared shows it; a user's task of the same name does not."""
    selection = Catalog.open(lm_eval=False).select(["demo_truth"])
    prepared = prepare(selection, FakeModel(), RunOptions(bind=BindOptions(limit=4)))
    run_id = execute(prepared, FakeModel(), store).run_id
    save_summary(store, run_id, prepared.selection, prepared.bound)
    (now,) = store.estimates(run_id)
    assert now.chance == 0.4563
    facts: dict[str, Any] = dict(store.run(run_id).extra)
    for origin, expected in (("assaymark", 0.4563), ("user", None)):
        tasks = {"demo_truth": {**facts["tasks"]["demo_truth"], "chance": None, "origin": origin}}
        store.save_estimates(run_id, [replace(now, chance=None)], {**facts, "tasks": tasks})
        (result,) = run_view(store, run_id).estimates
        assert result.chance == expected
