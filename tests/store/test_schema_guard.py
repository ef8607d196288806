"""A crafted store file is refused before anything in it is queried."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError, StoreError
from assaymark.interop.one_file import write_run_file
from assaymark.runs.exporting import import_run
from assaymark.store import Store
from tests.store import examples

ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT"
CRAFTED = {
    "a view in place of a table": "ALTER TABLE texts RENAME TO t; CREATE VIEW texts AS "
    f"{ENDLESS} i AS id, '' AS sha256, '' AS content FROM c;",
    "the version as a view": "DROP TABLE assaymark_schema; CREATE VIEW assaymark_schema AS "
    f"{ENDLESS} max(i) AS version_num FROM c;",
    "a view of another name": f"CREATE VIEW more AS {ENDLESS} i FROM c;",
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON assaymark_schema BEGIN DELETE FROM runs; END;",
    "a generated column": "ALTER TABLE runs ADD COLUMN x GENERATED ALWAYS AS (hex(zeroblob(100000000)));",
    "a generated column, short": "ALTER TABLE runs ADD COLUMN x AS (hex(zeroblob(100000000)));",
    "a check": "CREATE TABLE more (a CHECK (length(hex(zeroblob(500000000))) > 0));",
    "a default": "CREATE TABLE more (a DEFAULT (hex(zeroblob(500000000))));",
    "an index over an expression": "CREATE INDEX more ON runs (hex(zeroblob(100000)));",
    "a partial index with a function": "CREATE INDEX more ON runs (id) WHERE hex(run_id) > '0';",
    "a virtual table": "CREATE VIRTUAL TABLE more USING fts5(a);",
}  # fmt: skip


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Return an exported run."""
    with Store.open(str(tmp_path / "store.sqlite")) as store:
        run_id = examples.fill(store, examples.plan())
        return write_run_file(store, run_id, tmp_path / "run.assaymark")


@pytest.mark.parametrize("what", CRAFTED)
def test_a_crafted_file_is_refused_at_once(
    what: str, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Views, triggers and anything else that computes are refused by name; nothing is imported."""
    with closing(sqlite3.connect(exported)) as connection:
        connection.executescript(CRAFTED[what])
    target = tmp_path / "target.sqlite"
    for words in (["import", str(exported), "--store", str(target)], ["show", "last", "--store", str(exported)]):
        if ENDLESS in CRAFTED[what]:  # in a process, so that what hangs ends
            command = [sys.executable, "-m", "assaymark", *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            code, printed = done.returncode, done.stderr
        else:
            code, printed = main(words), capsys.readouterr().err
        assert code in {3, 4}, printed
        assert "so it was not read" in printed
        assert len(printed.strip().splitlines()) == 1
    with pytest.raises(DataError, match="is not an exported run"):
        import_run(str(target), exported)
    with pytest.raises(StoreError, match="so it was not read"):
        Store.open(str(exported))
    with Store.open(str(target)) as store:
        assert store.runs() == []


def test_an_exported_run_passes(exported: Path, tmp_path: Path) -> None:
    """Our own files, and a store of the first revision, are accepted."""
    assert import_run(str(tmp_path / "target.sqlite"), exported).is_new
    first = Path(__file__).parent / "first_revision.sql"
    with closing(sqlite3.connect(tmp_path / "first.assaymark")) as connection:
        connection.executescript(first.read_text(encoding="utf-8"))
    assert import_run(str(tmp_path / "target.sqlite"), tmp_path / "first.assaymark").is_new
