"""A store file from elsewhere cannot make the reader unpack gigabytes or exhaust the stack."""

import json
import shutil
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, update

from assaymark.errors import HashMismatch, StoreError
from assaymark.interop.one_file import write_run_file
from assaymark.store import Store, packing, request_texts
from assaymark.store.packing import pack_text, text_digest, unpack_json, unpack_text
from assaymark.store.schema import metadata, row_checksum, texts
from tests.store import examples

BLOCK = b" " * 2**20
MEMORY = 1_500 * 2**20  # bytes of address space that an import may use


def bomb(mebibytes: int) -> bytes:
    """Return a packed text that unpacks to this size: one compressed block, repeated."""
    stream = zlib.compressobj(9)
    head = stream.compress(BLOCK) + stream.flush(zlib.Z_FULL_FLUSH)
    block = stream.compress(BLOCK) + stream.flush(zlib.Z_FULL_FLUSH)
    return packing.ZLIB + head + block * (mebibytes - 1)


def plant(path: Path, table: str, column: str, value: bytes) -> None:
    """Write a value into the first row of a table, with a matching checksum."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone())
        keys = [key.name for key in metadata.tables[table].primary_key.columns]
        where = " AND ".join(f"{key} = ?" for key in keys)
        row[column] = value
        if "checksum" in row:
            row["checksum"] = row_checksum(
                metadata.tables[table], [row[each.name] for each in metadata.tables[table].columns]
            )
            connection.execute(f"UPDATE {table} SET checksum = ? WHERE {where}",
                               (row["checksum"], *(row[key] for key in keys)))  # fmt: skip
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value, *(row[key] for key in keys)))


PLACES = [
    ("texts", "content"), ("runs", "plan"), ("runs", "extra"), ("attempts", "facts"), ("outputs", "text"),
    ("scores", "detail"), ("estimates", "details"),
]  # fmt: skip


PROGRAM = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
from assaymark.cli.main import main
print(*(main(["import", file, "--store", sys.argv[1]]) for file in sys.argv[2:]))
"""


@pytest.mark.slow
def test_a_text_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    """Importing a file with 3 GiB packed into any column ends in one line, within a limit of memory."""
    with Store.open(str(tmp_path / "store.sqlite")) as store:
        exported = write_run_file(store, examples.summarised(store, examples.plan()), tmp_path / "run.assaymark")
    packed, files = bomb(3 * 1024), []
    for table, column in PLACES:
        files.append(Path(shutil.copy(exported, tmp_path / f"{table}.{column}.assaymark")))
        plant(files[-1], table, column, packed)
        assert files[-1].stat().st_size < 8 * 2**20
    target = tmp_path / "target.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(target), *map(str, files)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    codes, lines = done.stdout.split(), done.stderr.strip().splitlines()
    assert (len(codes), len(lines)) == (len(PLACES), len(PLACES)), done.stderr
    assert set(codes) <= {"3", "4"}
    assert all("unpacks to more than 134,217,728" in line for line in lines), lines
    with Store.open(str(target)) as store:
        assert store.runs() == []


def test_many_texts_that_are_suspiciously_small_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that are each short enough may not add up to gigabytes, unless their stored forms are large."""
    run_id = examples.fill(store, examples.plan())
    with store._database.writing() as connection:
        for number in connection.execute(select(texts.c.id)).scalars().all():
            text = " " * (10_000 + number)
            changed = {"content": pack_text(text), "sha256": text_digest(text)}
            connection.execute(update(texts).where(texts.c.id == number).values(changed))
    monkeypatch.setattr(request_texts, "UNPACKED_AT_ONCE", 50_000)
    with pytest.raises(HashMismatch, match="unpack to more than 50,000 characters"):
        list(store.samples(run_id, "letters"))


def test_long_texts_of_our_own_are_stored_and_beyond_the_bound_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts up to the limit can be packed and unpacked, longer ones cannot."""
    monkeypatch.setattr(packing, "LONGEST_TEXT", 1000)
    for text in ("x" * 1000, "é" * 500, "abc" * 333):
        assert unpack_text(pack_text(text)) == text
    with pytest.raises(StoreError, match="a text to store has 1,001 bytes; expected at most 1,000"):
        pack_text("x" * 1001)
    with pytest.raises(HashMismatch, match="more than 1,000"):
        unpack_text(packing.ZLIB + zlib.compress(b"x" * 1001))


def test_a_truncated_text_is_damaged() -> None:
    """A packed text without its end is an error, and not a shorter text."""
    packed = pack_text("a sentence that is long enough to be packed " * 10)
    with pytest.raises(HashMismatch, match="cannot be read"):
        unpack_text(packed[:-5])


def test_json_that_is_nested_beyond_any_stack_is_damaged() -> None:
    """Deeply nested lists are one error and do not end the process."""
    deep = "[" * 200_000 + "]" * 200_000
    with pytest.raises(RecursionError):
        json.loads(deep)
    with pytest.raises(HashMismatch, match="cannot be read"):
        unpack_json(pack_text(deep))
