"""Backups of a store: whole and checked, made while others write, and put back."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import StoreError, UsageError
from assaymark.store import Store
from assaymark.store.backup import backup, restore


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store with one run."""
    path = str(tmp_path / "runs.sqlite")
    assaymark.evaluate("fake", "demo_facts", limit=20, store=path)
    return path


def n_runs(path: str | Path) -> int:
    """Return the number of runs in a store."""
    with Store.open_to_read(str(path)) as store:
        return len(store.runs())


def test_a_backup_is_a_store_of_its_own(place: str, tmp_path: Path) -> None:
    """It has the runs up to then, passes `verify`, has no log beside it, and nothing of it is overwritten."""
    copied = backup(place, tmp_path / "copy.sqlite")
    assert (copied.n_runs, copied.n_bytes) == (1, (tmp_path / "copy.sqlite").stat().st_size)
    assaymark.evaluate("fake", "demo_facts", limit=10, store=place)
    assert (n_runs(place), n_runs(tmp_path / "copy.sqlite")) == (2, 1)
    assert main(["verify", "--store", str(tmp_path / "copy.sqlite")]) == 0
    with pytest.raises(UsageError, match="exists already"):
        backup(place, tmp_path / "copy.sqlite")


@pytest.mark.slow
def test_a_backup_is_made_while_a_run_writes(place: str, tmp_path: Path) -> None:
    """A run that stores answers meanwhile is neither stopped nor torn: the copy has whole outputs, and verifies."""
    code = f"import assaymark; assaymark.evaluate('fake', 'demo_facts', model_args='delay_ms=10', store={place!r})"
    with subprocess.Popen([sys.executable, "-c", code]) as writing:
        copies: list[Path] = []
        while writing.poll() is None:
            copies.append(backup(place, tmp_path / f"{len(copies)}.sqlite").path)
        assert writing.returncode == 0
    assert len(copies) >= 2
    for copy in (copies[0], copies[len(copies) // 2], copies[-1]):
        assert main(["verify", "--store", str(copy)]) == 0
    assert n_runs(place) == 2


def test_a_restored_store_is_seen_by_whoever_has_it_open(place: str, tmp_path: Path) -> None:
    """The copy replaces the content in one transaction; what was there is kept beside it."""
    backup(place, tmp_path / "copy.sqlite")
    assaymark.evaluate("fake", "demo_facts", limit=10, store=place)
    with Store.open_to_read(place) as opened:
        assert len(opened.runs()) == 2
        with pytest.raises(UsageError, match="add --replace"):
            restore(tmp_path / "copy.sqlite", place)
        assert restore(tmp_path / "copy.sqlite", place, replace=True).n_runs == 1
        assert len(opened.runs()) == 1
    assert n_runs(f"{place}.before-restore") == 2
    elsewhere = tmp_path / "new" / "runs.sqlite"
    assert restore(tmp_path / "copy.sqlite", str(elsewhere)).n_runs == 1
    assert n_runs(elsewhere) == 1


def test_what_is_no_whole_store_is_not_restored(place: str, tmp_path: Path) -> None:
    """A damaged copy, another file or none: one line, and the store stays as it is."""
    copy = backup(place, tmp_path / "copy.sqlite").path
    data = bytearray(copy.read_bytes())
    half = len(data) // 2
    data[half : half + 4096] = b"\xff" * 4096
    (tmp_path / "damaged").write_bytes(data)
    (tmp_path / "short").write_bytes(data[:half])
    (tmp_path / "text").write_text("no database")
    for name in ("damaged", "short", "text", "missing"):
        with pytest.raises(StoreError, match=name):
            restore(tmp_path / name, place, replace=True)
    assert n_runs(place) == 1
    assert not Path(f"{place}.before-restore").exists()


def test_a_server_is_copied_with_its_own_tools(capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the command, without the password."""
    assert main(["store", "backup", "x", "--store", "postgresql://me:secret@db/runs"]) == 2
    output = capsys.readouterr().err
    assert re.search(r"pg_dump --format=custom .*postgresql://me:\*\*\*@db/runs", output)
    assert "secret" not in output
