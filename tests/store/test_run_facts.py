"""What boards read of many runs comes in one query and agrees with what is read of each run alone."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from assaymark.audit.stored import audit_plan
from assaymark.errors import StoreError
from assaymark.records import Estimate
from assaymark.store import Store
from assaymark.store.run_facts import MOST_NAMED
from tests.store import examples


def test_estimates_of_runs_agree_with_those_of_each_run(store: Store) -> None:
    """Every run comes with its estimates in their order, the latest run first, one without any included."""
    plans = [examples.plan(("letters", "words"), content=content) for content in "abc"]
    ids = [examples.summarised(store, plan, content=plan.model.content_hash or "") for plan in plans]
    bare = examples.fill(store, examples.plan(content="d"))
    result = store.estimates_of_runs()
    assert [each.run.run_id for each in result] == [row.run_id for row in store.runs()]
    assert {item.run.run_id for item in result} == {*ids, bare}
    for one in result:
        row, whole = store.run(one.run.run_id), store.estimates(one.run.run_id)
        assert len(one.estimates) == len(whole)
        for cell, estimate in zip(one.estimates, whole, strict=True):
            for name in ("task", "metric", "filter", "value", "low", "high", "method", "n", "n_failed", "n_unparsed",
                         "stderr", "chance", "higher_is_better", "confidence"):  # fmt: skip
                assert getattr(cell, name) == getattr(estimate, name)
            assert (cell.kind, cell.is_primary, cell.n_shots, cell.unit) == ("task", True, 2, "proportion")
            assert isinstance(cell.is_primary, bool)
            assert cell.run_id == row.run_id
        model = row.plan.model
        assert (one.run.model, one.run.kind, one.run.model_hash) == (model.name, model.kind, model.content_hash)
        assert (one.run.profile, one.run.n_samples, one.run.n_tasks) == (
            row.plan.profile,
            row.n_samples,
            len(row.tasks),
        )
        assert (one.run.status, one.run.updated_at) == (row.status, row.updated_at)


def test_runs_tasks_and_primary_metrics_can_be_chosen(store: Store) -> None:
    """Filters keep what they name; a run of which nothing is left still comes."""
    first = examples.summarised(store, examples.plan(("letters", "words")))
    second = examples.fill(store, examples.plan(content="b"))
    other = Estimate("letters", "f1", "none", 0.4, None, None, "none", 8, details={"kind": "task", "primary": False})
    store.save_estimates(first, [*examples.estimates_for(examples.plan(("letters", "words"))), other])
    (only,) = store.estimates_of_runs([first], primary_only=True)
    assert [(cell.task, cell.metric) for cell in only.estimates] == [("letters", "acc"), ("words", "acc")]
    results = {
        run.run.run_id: [cell.metric for cell in run.estimates] for run in store.estimates_of_runs(tasks=["letters"])
    }
    assert results == {first: ["acc", "f1"], second: []}
    assert store.estimates_of_runs([]) == []


def test_the_number_of_queries_does_not_grow(store: Store) -> None:
    """However many runs there are, one query reads their facts and one their estimates."""
    for content in "abcd":
        examples.summarised(store, examples.plan(n_samples=2, content=content), content=content)
    statements: list[str] = []
    event.listen(store._database._engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    store.estimates_of_runs()
    assert len([statement for statement in statements if statement.lstrip().startswith("SELECT")]) == 2


def test_audits_are_named_to_be_found(store: Store) -> None:
    """Audits are no rows of boards; by their id they are found, and say what they are."""
    run_plan = examples.plan()
    audit = audit_plan(run_plan, "contamination", {})
    opened = store.open_run(audit, facts={})
    assert store.estimates_of_runs() == []
    (result,) = store.estimates_of_runs([opened.run_id])
    assert result.run.audit == "contamination"


def test_what_no_column_can_hold_is_shown_as_far_as_possible(store: Store) -> None:
    """Names with NUL or lone surrogates and lengths beyond 64 bits are stored, and the plan keeps them exactly."""
    plan = examples.plan()
    odd = replace(plan, model=replace(plan.model, name="m\x00\ud800é", max_length=10**30))
    opened = store.open_run(odd, facts={})
    (result,) = store.estimates_of_runs([opened.run_id])
    assert (result.run.model, result.run.max_length) == ("m\ufffd\ufffdé", None)
    assert store.run(opened.run_id).plan == odd
    assert store.verify() == []


def test_a_run_whose_writer_is_gone_is_interrupted(store: Store) -> None:
    """A run that nobody is writing is not shown as running."""
    run = store.open_run(examples.plan(), facts={})
    assert store.estimates_of_runs()[0].run.status == "running"
    store._leases.forget(run.run_id)
    assert store.estimates_of_runs()[0].run.status == store.run(run.run_id).status == "interrupted"


def test_a_run_that_is_not_there_is_named(store: Store) -> None:
    """A run that was removed, or more names than a query takes, is one clear error."""
    with pytest.raises(StoreError, match="run 0123456789ab is not in the store"):
        store.estimates_of_runs(["0123456789ab"])
    with pytest.raises(StoreError, match="at most 10,000"):
        store.estimates_of_runs(["x"] * (MOST_NAMED + 1))


def test_details_come_back_as_they_were(store: Store) -> None:
    """Details keep their order and values, and fields that no column repeats."""
    run_id = examples.fill(store, examples.plan())
    details: Any = {"z": [1, {"b": None}], "kind": "group", "path": [], "primary": True, "n_shots": None, "a": "é\x00"}
    cells = [Estimate("g", "acc", "none", 1 / 3, 0.0, 1.0, "wilson", 3, chance=0.25, details=details)]
    store.save_estimates(run_id, cells)
    (result,) = store.estimates(run_id)
    assert result == cells[0]
    assert list(result.details) == list(details)
    assert [cell.kind for cell in store.estimates_of_runs()[0].estimates] == ["group"]
