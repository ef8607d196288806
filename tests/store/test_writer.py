"""Batches: rows are written after at most a moment, and rows that cannot be written are kept and tried again."""

import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select

from assaymark.errors import StoreError
from assaymark.store import Store, write
from assaymark.store.schema import outputs
from tests.store import examples


def n_outputs_in(url: str) -> int:
    """Return the number of outputs that another connection reads."""
    with Store.open(url, read_only=True) as other, other._database.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(outputs)).scalar_one())


def begin(store: Store) -> str:
    """Open a run and store its requests."""
    run = store.open_run(examples.plan(), facts={})
    store.add_requests(run.run_id, examples.requests(), examples.samples())
    return run.run_id


def test_a_single_output_is_written_within_a_second(store: Store, url: str) -> None:
    """An output is in the database soon after it was added, although no other follows it."""
    run_id = begin(store)
    store.add(run_id, 1, examples.outputs_for(examples.requests()[0])[:1])
    assert n_outputs_in(url) == 0
    deadline = time.monotonic() + 10
    while n_outputs_in(url) == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert n_outputs_in(url) == 1


def test_a_full_batch_is_written_at_once(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch ends when it has enough rows, however quickly they came."""
    monkeypatch.setattr(write, "BATCH_ROWS", 8)
    run_id = begin(store)
    for request in examples.requests()[:3]:
        store.add(run_id, 1, examples.outputs_for(request))
    assert n_outputs_in(url) == 8


def test_reading_through_the_store_includes_collected_rows(store: Store) -> None:
    """The writer reads its own outputs and scores at once."""
    run_id = begin(store)
    request = examples.requests()[0]
    store.add(run_id, 1, examples.outputs_for(request))
    store.add_scores(run_id, examples.scores_for(request), examples.SCORING)
    assert store.outputs_of(run_id, [request.id])[request.id] == examples.outputs_for(request)
    assert len(list(store.scores(run_id))) == 2


def test_closing_writes_what_is_collected(url: str) -> None:
    """Nothing is lost at the end."""
    with Store.open(url) as store:
        run_id = begin(store)
        store.add(run_id, 1, examples.outputs_for(examples.requests()[0]))
    assert n_outputs_in(url) == 4


def test_a_batch_that_cannot_be_written_is_kept_and_written_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process locks the file the batch fails with a remedy; afterwards the same rows are written."""
    monkeypatch.setattr("assaymark.store.connection.BUSY_SECONDS", 0.05)
    with Store.open(str(path)) as store:
        run_id = begin(store)
        request = examples.requests()[0]
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.add(run_id, 1, examples.outputs_for(request))
        store.add_scores(run_id, examples.scores_for(request), examples.SCORING)
        with pytest.raises(StoreError, match=r"locked.*run again"):
            store.flush()
        with pytest.raises(StoreError, match="locked"):
            store.add(run_id, 1, [])
        other.execute("COMMIT")
        other.close()
        store.add(run_id, 1, examples.outputs_for(examples.requests()[1]))
        assert len(store.outputs_of(run_id, [request.id])[request.id]) == 4
        assert len(list(store.scores(run_id))) == 2
        assert store.verify() == []
    assert n_outputs_in(str(path)) == 8


def test_a_failure_in_the_timer_is_raised_by_the_next_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that fails in the timer is tried again, and reported, by the next call."""
    monkeypatch.setattr("assaymark.store.connection.BUSY_SECONDS", 0.05)
    monkeypatch.setattr(write, "BATCH_SECONDS", 0.01)
    store = Store.open(str(path))
    run_id = begin(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.add(run_id, 1, examples.outputs_for(examples.requests()[0]))
    deadline = time.monotonic() + 10
    while not store._writer._must_retry and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(StoreError, match="locked"):
        store.add(run_id, 1, examples.outputs_for(examples.requests()[1]))
    other.execute("COMMIT")
    other.close()
    store.close()
    assert n_outputs_in(str(path)) == 4


@pytest.mark.parametrize("is_renewed", [False, True])
def test_a_run_removed_while_it_is_written_is_reported(store: Store, url: str, is_renewed: bool) -> None:
    """Writing to a run that another process removed is an error and restores nothing, also after a renewal saw it."""
    run_id = begin(store)
    store.add(run_id, 1, examples.outputs_for(examples.requests()[0]))
    with Store.open(url) as other:
        other.remove(run_id)
    if is_renewed:
        store._leases._renew(list(store._leases._held.items()))

    def write_more() -> None:  # the first ones may have been written before the removal: opening a store may take long
        store.add(run_id, 1, examples.outputs_for(examples.requests()[1]))
        store.flush()

    with pytest.raises(StoreError, match="removed by another process"):
        write_more()
    store._writer._outputs.clear()
    assert n_outputs_in(url) == 0
