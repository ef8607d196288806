"""The gate: each method of a store is known to show no text, or is withheld for sealed tasks."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import StoreError
from assaymark.records import TaskPlan
from assaymark.store import Store
from assaymark.store.public_store import WITHHELD, PublicStore, WhyWithheld, public_store, withheld_record
from assaymark.store.sealed_tasks import SealedTask
from tests.store import examples

SHOW_NO_ROWS = {
    "open", "exists", "open_to_read", "is_in_place", "url", "close", "notices", "estimates_of_runs", "audit_states",
    "score_names", "generated", "is_indexed", "verify", "is_complete", "complete_run", "writer",
    "stored_progress", "unscored", "seals", "content_hashes", "has_cut_prompts",
}  # fmt: skip
WRITE = {
    "open_run", "add_requests", "add", "add_scores", "flush", "save_estimates", "close_run", "close_rescoring",
    "abandon_run", "remove", "set_visibility", "fill_facts", "index_samples", "unanswered",
}  # fmt: skip
OF_FEATURES = {"database"}  # their tables hold no rows of tasks


def test_every_method_is_classified() -> None:
    """A new method of a store must be withheld by the gate, or be named here as one that shows no row."""
    public = {name for name in dir(Store) if not name.startswith("_")}
    gated = {name for name in vars(PublicStore) if not name.startswith("_")} & public
    unknown = public - gated - SHOW_NO_ROWS - WRITE - OF_FEATURES
    assert unknown == set(), f"does any of these show a text of a row? {sorted(unknown)}"
    for name in gated:
        ours, theirs = getattr(PublicStore, name), getattr(Store, name)
        if inspect.isfunction(theirs):
            assert inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys(), name


@pytest.fixture
def filled(store: Store) -> tuple[Store, str]:
    """Return a store, on either database, with a run of one task."""
    return store, examples.fill(store, examples.plan(n_samples=4))


def texts_of(value: Any) -> str:
    """Return every text in a record."""
    return repr(value)


def test_nothing_of_a_record_is_left(filled: tuple[Store, str]) -> None:
    """Each text of the stored records is absent from the public ones; scores and numbers of tokens are there."""
    store, run_id = filled
    task = store.run(run_id).tasks[0]
    before = list(store.samples(run_id, task))
    dataset_hash = store.run(run_id).plan.tasks[0].dataset_hash
    assert list(public_store(store).samples(run_id, task)) == before
    store.seals.put(SealedTask(task, dataset_hash))
    after = list(public_store(store).samples(run_id, task))
    words = {record.request.prompt for record in before} | {record.request.target for record in before}
    words |= {record.request.sample_sha256 for record in before}
    words |= {output.text for record in before for output in record.outputs if output.text}
    words |= {
        query.continuation for record in before for query in record.request.queries if hasattr(query, "continuation")
    }
    assert len(words) > 8
    result = texts_of(after)
    assert [word for word in words if len(word) > 2 and word in result] == []
    assert [record.is_withheld for record in after] == [True] * len(before)
    assert [[score.value for score in record.scores] for record in after] == [
        [score.value for score in record.scores] for record in before
    ]
    assert [[o.total_nats for o in record.outputs] for record in after] == [
        [o.total_nats for o in record.outputs] for record in before
    ]
    own = public_store(store).run(run_id).plan.tasks[0]
    assert own.dataset_hash == WITHHELD
    assert public_store(store).find(["x"]) == {}


def test_equality_is_kept_and_nothing_else(filled: tuple[Store, str]) -> None:
    """Equal texts have equal marks under one key, and others under another."""
    store, run_id = filled
    (record, *_) = store.samples(run_id, store.run(run_id).tasks[0])
    first, again = withheld_record(record, WhyWithheld("ab" * 32)), withheld_record(record, WhyWithheld("ab" * 32))
    other = withheld_record(record, WhyWithheld("cd" * 32))
    assert first == again
    assert first.request.sample_sha256 != other.request.sample_sha256


def test_a_name_seals_other_rows_until_they_are_revealed(filled: tuple[Store, str]) -> None:
    """Another data set under the name of a sealed task is withheld; one that was revealed is shown."""
    store, run_id = filled
    row = store.run(run_id)
    task = row.tasks[0]
    store.seals.put(SealedTask(task, "sha256:other"))
    assert public_store(store).why_withheld(run_id, task) is not None
    own = SealedTask(task, row.plan.tasks[0].dataset_hash, revealed_at="2026-01-01")
    store.seals.put(own)
    assert public_store(store).why_withheld(run_id, task) is None
    store.seals.put_missing(replace(own, revealed_at=""))
    assert public_store(store).why_withheld(run_id, task) is None


def test_a_form_of_a_task_that_no_plan_names_is_withheld(filled: tuple[Store, str]) -> None:
    """Judgings store the other order of a task under a name of its own."""
    store, run_id = filled
    task: TaskPlan = store.run(run_id).plan.tasks[0]
    store.seals.put(SealedTask(task.name, task.dataset_hash))
    assert public_store(store).why_withheld(run_id, f"{task.name}, swapped") is not None


def test_a_store_that_may_not_be_written_keeps_its_seals(tmp_path: Path) -> None:
    """Seals are read from a read-only store, and cannot be put there."""
    store = Store.open(str(tmp_path / "s.sqlite"))
    run_id = examples.fill(store, examples.plan(n_samples=4))
    task = store.run(run_id).plan.tasks[0]
    store.seals.put(SealedTask(task.name, task.dataset_hash, public_fraction=0.25, commitment="sha256:1"))
    store.close()
    with Store.open(str(tmp_path / "s.sqlite"), read_only=True) as opened:
        (seal,) = opened.seals.all()
        assert (seal.public_fraction, seal.commitment) == (0.25, "sha256:1")
        assert public_store(opened).run(run_id).plan.tasks[0].dataset_hash == "sha256:1"
        with pytest.raises(StoreError):
            opened.seals.put(seal)
