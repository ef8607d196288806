"""Removing a run removes its own data and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from assaymark.errors import StoreError
from assaymark.store import RemovedCounts, Store
from assaymark.store.schema import metadata
from tests.store import examples


def counts(store: Store) -> dict[str, int]:
    """Return the number of rows of each table."""
    with store._database.reading() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
            if table.name != "vote_head"  # one row, also of an empty log
        }


def test_the_texts_of_other_runs_stay(store: Store) -> None:
    """Texts that another run uses stay, those of this run alone are removed, and the other run is intact."""
    kept = examples.fill(store, examples.plan())
    before = counts(store)
    removed = examples.fill(store, examples.plan(("letters", "words")))
    done = store.remove(removed)
    # of the task `words`: one shot, eight questions and eight rows; the other shots and the forms are shared
    assert done == RemovedCounts(removed, n_requests=16, n_outputs=64, n_scores=32, n_texts=17)
    assert counts(store) == before
    assert store.verify() == []
    assert [record.request for record in store.samples(kept, "letters")] == examples.requests()
    assert [run.run_id for run in store.runs()] == [kept]


def test_nothing_is_left_of_the_last_run(store: Store) -> None:
    """A store whose only run was removed has no rows, and the run can be created again."""
    run_id = examples.fill(store, examples.plan())
    store.save_estimates(run_id, [])
    store.remove(run_id)
    assert set(counts(store).values()) == {0}
    assert examples.fill(store, examples.plan()) == run_id
    assert store.verify() == []


def test_texts_of_a_replaced_request_are_removed_too(store: Store) -> None:
    """The next removal removes the text of a replaced request."""
    first = examples.fill(store, examples.plan())
    asked = examples.requests()
    changed = replace(asked[0], segments=("replaced " * 40,))
    store.add_requests(first, [changed])
    other = store.open_run(examples.plan(content="b"), facts={}).run_id
    assert store.remove(other).n_texts == 2  # the question and its row; another sample has the same form
    assert store.verify() == []


def test_the_file_shrinks(path: Path) -> None:
    """The space of a removed run is returned to the file system."""
    Store.open(str(path)).close()
    empty = path.stat().st_size
    with Store.open(str(path)) as store:
        run_id = examples.fill(store, examples.plan(n_samples=1200))
    assert path.stat().st_size > 2 * empty
    with Store.open(str(path)) as store:
        store.remove(run_id)
    assert path.stat().st_size <= 1.1 * empty


def test_an_unknown_run_is_refused(store: Store) -> None:
    """Removing an unknown run is an error and removes nothing."""
    examples.fill(store, examples.plan())
    before = counts(store)
    with pytest.raises(StoreError, match="not in the store"):
        store.remove("000000000000")
    assert counts(store) == before
