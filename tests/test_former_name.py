"""What the program wrote under its former name is read: the store in its data folder, plans, exported files."""

import dataclasses
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from assaymark.options.shared import options_of
from assaymark.settings import FORMER_NAME, store_location
from assaymark.store import Store
from tests.test_run_key import PLAN

FAKE = ["run", "--model", "fake", "--tasks", "demo_letters", "--limit", "3", "--quiet"]


def run(folder: Path, *words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a user whose data folders are below `folder`, with no other variable of ours than the cache."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ASSAYMARK_")}
    variables |= {"XDG_DATA_HOME": str(folder), "HOME": str(folder), "ASSAYMARK_CACHE": os.environ["ASSAYMARK_CACHE"]}
    variables |= {"ASSAYMARK_HOME": str(home)} if home else {}
    command = [sys.executable, "-m", "assaymark", *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with one run, with the former version table."""
    folder = tmp_path_factory.mktemp("made")
    done = run(folder, *FAKE, home=folder)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(folder / "store.sqlite")) as connection:
        connection.execute(f"ALTER TABLE assaymark_schema RENAME TO {FORMER_NAME}_schema")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / "store.sqlite"


@pytest.fixture
def former_store(made: Path, tmp_path: Path) -> Path:
    """Return a copy of it in the former data folder."""
    (tmp_path / FORMER_NAME).mkdir()
    return Path(shutil.copy(made, tmp_path / FORMER_NAME / "store.sqlite"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="XDG_DATA_HOME decides the data folder on Linux only")
def test_the_store_in_the_former_data_folder_is_used(former_store: Path, tmp_path: Path) -> None:
    """Its runs are listed and continued there, and one line on standard error says where it is."""
    listed = run(tmp_path, "ls", "runs", "--json")
    assert listed.returncode == 0, listed.stderr
    assert len(json.loads(listed.stdout)) == 1
    assert listed.stderr.count(str(former_store)) == 1
    assert len(listed.stderr.splitlines()) == 1
    again = run(tmp_path, *FAKE)
    assert again.returncode == 0, again.stderr
    assert not (tmp_path / "assaymark" / "store.sqlite").exists()
    assert len(json.loads(run(tmp_path, "ls", "runs", "--json").stdout)) == 1


@pytest.mark.slow
def test_a_store_of_our_own_comes_first(former_store: Path, tmp_path: Path) -> None:
    """Where the data folder has a store, or a folder or store is named, the former one is not opened."""
    own = tmp_path / "assaymark" / "store.sqlite"
    own.parent.mkdir(exist_ok=True)
    shutil.copy(former_store, own)
    assert str(former_store) not in run(tmp_path, "ls", "runs").stderr
    own.unlink()
    assert str(former_store) not in run(tmp_path, "ls", "runs", home=tmp_path / "empty").stderr
    assert store_location(str(own)) == str(own)


@pytest.mark.slow
def test_a_file_exported_under_the_former_name_is_imported(former_store: Path, tmp_path: Path) -> None:
    """An exported run with the former suffix and version table is read."""
    file = tmp_path / f"run.{FORMER_NAME}"
    shutil.copy(former_store, file)
    done = run(tmp_path, "import", str(file), "--store", str(tmp_path / "new.sqlite"))
    assert done.returncode == 0, done.stderr
    with Store.open(str(tmp_path / "new.sqlite")) as store:
        assert len(store.runs()) == 1
        assert store.verify() == []


def test_a_plan_of_the_former_profile_is_read_back() -> None:
    """Our own rules were stored under the program's former name, and are run again under the present one."""
    former = dataclasses.replace(PLAN, profile=FORMER_NAME)
    assert options_of(former)["profile"] == "assaymark"
