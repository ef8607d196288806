"""A store's file is taken away while a run writes it: told at the next write, and nothing is lost."""

import shutil
from pathlib import Path

import pytest

from evalstone.errors import StoreError
from evalstone.store import Store
from tests.store import examples


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_removed_file_is_told_and_its_content_saved(path: Path, is_replaced: bool) -> None:
    """The next write raises, naming a file that holds all that was written; the path is not made anew."""
    store = Store.open(str(path))
    run_id = examples.fill(store, examples.plan())
    other = path.with_name("other.sqlite")
    Store.open(str(other)).close()
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    if is_replaced:
        shutil.copy(other, path)
    for _ in range(2):  # it is told again, and saved once
        with pytest.raises(StoreError, match=r"was removed or replaced.*saved in .*store\.sqlite\.rescued: move that"):
            store.open_run(examples.plan(), facts={})
    store.close()
    assert path.exists() is is_replaced
    with Store.open(str(path.with_name("store.sqlite.rescued"))) as saved:
        assert saved.run("last").run_id == run_id
        assert len(list(saved.scores(run_id))) == 16
        assert saved.verify() == []


def test_a_store_that_may_not_be_written_is_opened_to_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading another user's store needs no rights to write it; writing says which rights are missing."""
    with Store.open(str(path)) as store:
        run_id = examples.fill(store, examples.plan())
    monkeypatch.setattr("evalstone.store.connection.os.access", lambda *_: False)
    with Store.open_to_read(str(path)) as store:
        assert store.run("last").run_id == run_id
        with pytest.raises(StoreError, match="is read-only; check its permissions"):
            store.remove(run_id)
