"""A hidden run does not exist for a store that was not opened for a reason."""

import inspect

import pytest

from assaymark.errors import AssaymarkError, StoreError, UsageError
from assaymark.store import Store
from assaymark.store.reading import StoredResults
from tests.store import examples


def test_every_read_of_a_hidden_run_is_refused(url: str) -> None:
    """Each public method that takes a run refuses a hidden one, and lists leave it out; a reason shows it again."""
    with Store.open(url) as store:
        run_id = examples.summarised(store, examples.plan())
        store.set_visibility(run_id, "hidden")
        assert store.runs() == []
        assert store.estimates_of_runs() == []
        reads = [name for name, method in inspect.getmembers(StoredResults, inspect.isfunction)
                 if "run_id" in inspect.signature(method).parameters and name != "verify"]  # fmt: skip
        assert len(reads) > 8
        for name in reads:
            method = getattr(store, name)
            extra = {"task": "t", "query": "q", "by": ("f", "m")}
            names = [parameter for parameter in inspect.signature(method).parameters if parameter in extra]
            with pytest.raises(AssaymarkError, match="not in the store"):
                list(method(run_id, **{each: extra[each] for each in names}))
        with pytest.raises(AssaymarkError):
            store.run(run_id)
        with pytest.raises(StoreError):
            store.estimates_of_runs([run_id])
        assert store.fill_facts() == 0
        with pytest.raises(StoreError):
            store.set_visibility(run_id, "public")
    with Store.open(url, hidden_for="a test") as store:
        assert [run.run_id for run in store.runs()] == [run_id]
        store.set_visibility(run_id, "public")
        with pytest.raises(UsageError, match="public or hidden"):
            store.set_visibility(run_id, "secret")
    with Store.open(url) as store:
        assert [item.run_id for item in store.runs()] == [run_id]
        assert store.verify() == []


def test_a_run_can_be_hidden_from_its_first_moment(url: str) -> None:
    """A store that was opened for a reason creates hidden runs; another one cannot."""
    with Store.open(url) as store:
        with pytest.raises(StoreError, match="was not opened for a reason"):
            store.open_run(examples.plan(), facts={}, hidden=True)
        with Store.open(url, hidden_for="a test") as other:
            opened = other.open_run(examples.plan(), facts={}, hidden=True)
            assert store.runs() == []
            other.close_run(opened.run_id, opened.attempt_id, "interrupted")
            assert [run.run_id for run in other.runs()] == [opened.run_id]
        assert store.runs() == []
