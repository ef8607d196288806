"""A store's file is removed while a run writes it: the next write reports it, and nothing is lost."""

import shutil
from pathlib import Path

import pytest

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.errors import StoreError
from assaymark.store import Store
from tests.store import examples


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_removed_file_is_reported_and_its_content_saved(path: Path, is_replaced: bool) -> None:
    """The next write raises an error with the file that has all content; the path is not created again."""
    store = Store.open(str(path))
    run_id = examples.fill(store, examples.plan())
    other = path.with_name("other.sqlite")
    Store.open(str(other)).close()
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    if is_replaced:
        shutil.copy(other, path)
    for _ in range(2):  # reported again, but saved once
        with pytest.raises(StoreError, match=r"was removed or replaced.*saved in .*store\.sqlite\.rescued: move that"):
            store.open_run(examples.plan(), facts={})
    store.close()
    assert path.exists() is is_replaced
    with Store.open(str(path.with_name("store.sqlite.rescued"))) as saved:
        assert saved.run("last").run_id == run_id
        assert len(list(saved.scores(run_id))) == 16
        assert saved.verify() == []


def test_a_servers_store_follows_its_path(path: Path) -> None:
    """Once an error says where the former content is saved; then the new file is read and written."""
    with Store.open(str(path)) as first:
        TraceLog(first).add_project("backup")
    backup = path.with_name("backup.sqlite")
    shutil.copy(path, backup)
    with Store.open(str(path), follows=True) as store:
        TraceLog(store).add_project("later")

        def replace_by(other: Path | None) -> None:
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)
            if other is not None:
                shutil.copy(other, path)

        def names() -> list[str]:
            return [project.name for project in TraceLog(store).projects()]

        replace_by(backup)
        with pytest.raises(StoreError, match=r"saved in .*store\.sqlite\.rescued: the server goes on"):
            TraceLog(store).add_project("lost")
        assert names() == ["backup"]
        TraceLog(store).add_project("new")
        assert names() == ["backup", "new"]
        replace_by(None)
        for _ in range(2):
            with pytest.raises(StoreError, match=r"was removed or replaced.*store\.sqlite\.rescued-2"):
                names()
        assert not path.exists()
        path.write_bytes(b"")  # a copy that has only begun
        with pytest.raises(StoreError, match="was removed or replaced"):
            names()
        path.write_bytes(b"no database" * 1000)
        with pytest.raises(StoreError, match="not a SQLite database"):
            names()
        replace_by(path.with_name("store.sqlite.rescued-2"))
        with pytest.raises(StoreError, match="the server goes on"):
            names()
        assert names() == ["backup", "new"]
    with Store.open(str(path.with_name("store.sqlite.rescued"))) as saved:
        assert [project.name for project in TraceLog(saved).projects()] == ["backup", "later"]


def test_a_store_that_is_not_writable_is_opened_read_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading another user's store needs no permission to write; writing raises a clear error."""
    with Store.open(str(path)) as store:
        run_id = examples.fill(store, examples.plan())
    monkeypatch.setattr("assaymark.store.connection.os.access", lambda *_: False)
    with Store.open_to_read(str(path)) as store:
        assert store.run("last").run_id == run_id
        with pytest.raises(StoreError, match="is read-only; check its permissions"):
            store.remove(run_id)
