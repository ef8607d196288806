"""A store that commit 842d6be wrote (schema 0002) gives the same output after migration, on SQLite and PostgreSQL.

`make_earlier_store.py` made `earlier/`, with that commit's package: its docstring has the two commands.
"""

import json
import lzma
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assaymark.store import Store, migrate
from tests.store.make_earlier_store import FORMER_NAME, HERE, all_said
from tests.store.test_migrations import copy_rows


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Return the store as it was written."""
    path = tmp_path / "earlier.sqlite"
    path.write_bytes(lzma.decompress((HERE / "store.sqlite.xz").read_bytes()))
    return path


@pytest.fixture
def postgres_store(postgres_url: str) -> str:
    """Return a database without tables, which migrations make here."""
    return postgres_url


@pytest.fixture
def migrated(url: str, earlier: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a store of the earlier schema with those rows, on either database."""
    if not url.startswith("postgresql"):
        return str(earlier)
    with monkeypatch.context() as before:
        before.setattr(migrate, "TARGET", "0002")
        before.setattr(migrate, "HEAD", "0002")
        Store.open(url).close()
    copy_rows(str(earlier), url)
    return url


LATER = {
    "n_skipped": 0,
    "repeated": [],
    "n_mostly_cut": [0, 0],
    "is_neutral": False,
    "scorers": [],
    "note": "",
    "beside_people": [],
    "contaminated": [],
}
LATER_ALWAYS = {"one_sided"}
SINCE = r"minimum\s+detectable\s+effect\s+with\s+these\s+samples:\s+[\d.]+|one\s+of\s+less\s+than\s+[\d.]+\s+points"
OF_THE_MACHINE = {"transformers_version"}  # of what is installed where the test runs


def numbers_in(printed: str) -> object:
    """Return JSON with each text replaced by its decimal numbers, and any other output as its decimal numbers.

    Fields that came later are left out where they say nothing, as is what is computed otherwise since.
    """
    printed = re.sub(SINCE, "", printed)

    def of(value: Any) -> object:
        if isinstance(value, dict):
            return {
                name.replace(FORMER_NAME, "assaymark"): of(each)
                for name, each in value.items()
                if name not in LATER_ALWAYS | OF_THE_MACHINE and (name not in LATER or each != LATER[name])
            }
        if isinstance(value, list):
            return [of(each) for each in value]
        if isinstance(value, float):
            return float(f"{value:.12g}")  # from Python 3.12 on, sums of floats differ in the last digit
        return re.findall(r"\d+\.\d+", value) if isinstance(value, str) else value

    try:
        return of(json.loads(printed))
    except ValueError:
        return of(printed)


def test_commands_print_the_same_numbers(migrated: str, tmp_path: Path) -> None:
    """`show`, `compare`, `export`, `ls` and `verify` of a migrated store print the numbers they printed before."""
    before = json.loads(lzma.decompress((HERE / "said.json.xz").read_bytes()))
    now = all_said(migrated, tmp_path)
    assert list(now) == list(before)
    for command, said in before.items():
        assert numbers_in(now[command]) == numbers_in(said), command


def test_its_facts_are_filled_and_agree(migrated: str) -> None:
    """Lists are the same with and without filled facts, verdicts add up to the estimates, and the store verifies."""
    with Store.open(migrated) as store:
        runs = store.runs()
        derived = {row.run_id: store.sample_list(row.run_id, limit=10_000) for row in runs}
        n = store.fill_facts()
        assert n == sum(page.total for page in derived.values()) > 100
        n_checked = 0
        for row in runs:
            page = store.sample_list(row.run_id, limit=10_000)
            assert page == derived[row.run_id]
            for cell in store.estimates(row.run_id):
                of_task = [sample for sample in page.samples if sample.task == cell.task and sample.correct is not None]
                if cell.details.get("primary") and of_task and cell.value is not None:
                    mean = sum(each.correct or 0.0 for each in of_task) / len(of_task)
                    assert mean == pytest.approx(cell.value), cell
                    n_checked += 1
        assert n_checked > 8
        assert store.verify() == []
        audits = {row.run_id for row in store.audits()}
        assert len(audits) == 1
        assert {run.run.run_id for run in store.estimates_of_runs()} == {row.run_id for row in runs}


def test_rows_that_need_not_change_do_not(earlier: Path) -> None:
    """The migration and the filling leave every row of the other tables byte for byte as it was."""
    kept = ("texts", "runs", "attempts", "run_tasks", "requests", "outputs", "scorings", "scores", "run_leases")

    with closing(sqlite3.connect(earlier)) as connection:
        named = {table: connection.execute(f"PRAGMA table_info({table})").fetchall() for table in kept}
    columns = {table: ", ".join(f'"{row[1]}"' for row in entry) for table, entry in named.items()}

    def rows() -> dict[str, list[tuple[object, ...]]]:
        with closing(sqlite3.connect(earlier)) as connection:
            return {
                table: connection.execute(f"SELECT {names} FROM {table} ORDER BY 1, 2").fetchall()
                for table, names in columns.items()
            }

    before = rows()
    with Store.open(str(earlier)) as store:
        store.fill_facts()
    assert rows() == before


def test_its_runs_can_be_exported_and_imported(earlier: Path, tmp_path: Path) -> None:
    """A run of the migrated store is exported and imported into a new store, which derives its facts."""
    from assaymark.interop.one_file import read_run_file, write_run_file

    with Store.open(str(earlier)) as store, Store.open(str(tmp_path / "new.sqlite")) as other:
        for row in store.runs():
            file = write_run_file(store, row.run_id, tmp_path / f"{row.run_id}.assaymark")
            run_id, is_new = read_run_file(other, file)
            assert is_new
            assert other.estimates(run_id) == store.estimates(row.run_id)
            assert other.sample_list(run_id, limit=10_000) == store.sample_list(row.run_id, limit=10_000)
        assert other.fill_facts() == 0
        assert other.verify() == []
