"""Gzipped data files that unpack to far more than a data file holds."""

import gzip
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from assaymark.datasets.files import read_files
from assaymark.datasets.packed_files import FREE_BYTES
from assaymark.errors import DataError

MIB = 1 << 20


def packed(path: Path, pieces: Iterable[bytes]) -> Path:
    """Write a gzipped file."""
    with gzip.open(path, "wb", 1) as file:
        for piece in pieces:
            file.write(piece)
    return path


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.json.gz", "rows.csv.gz"])
@pytest.mark.parametrize(
    ("head", "piece", "message"),
    [
        (b"q,a\n", bytes(MIB), "line of more than 64 MiB|unpack to more than"),
        (
            b"q,a\n",
            b"\n" * MIB,
            r"has [\d,]+ bytes that unpack to more than [\d,]+; expected at most 200 times",
        ),
    ],
)
def test_a_bomb_is_refused(tmp_path: Path, name: str, head: bytes, piece: bytes, message: str) -> None:
    """A file whose contents are hundreds of times its size, or one line without end, is refused within seconds."""
    path = packed(tmp_path / name, [head, *[piece] * 100])
    assert path.stat().st_size < 4 * MIB
    begun = time.monotonic()
    with pytest.raises(DataError, match=message) as caught:
        read_files([path])
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400
    assert time.monotonic() - begun < 20


def test_a_long_row_that_compresses_well_is_read(tmp_path: Path) -> None:
    """A row may be longer than what the packed file's size suggests for the whole of it."""
    path = packed(tmp_path / "rows.csv.gz", [b"q,a\n", b"word " * MIB, b",b\n", b"short,c\n"])
    assert [(len(str(row["q"])), row["a"]) for row in read_files([path])] == [(5 * MIB, "b"), (5, "c")]


def test_a_row_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are short, and they are all in one quoted cell."""
    monkeypatch.setattr("assaymark.datasets.csv_files.LONGEST_LINE", MIB)
    path = packed(tmp_path / "rows.csv.gz", [b'q,a\n"', b"line\n" * 2 * MIB, b'",b\n'])
    with pytest.raises(DataError, match=f"cannot read {path}: a row has more than 2 MiB; expected csv"):
        read_files([path])


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.csv.gz"])
def test_a_repetitive_file_is_read(tmp_path: Path, name: str) -> None:
    """Rows that are all alike compress well, and are read: below 64 MiB any ratio is."""
    is_csv = "csv" in name
    row = b"why,because\n" if is_csv else b'{"q": "why", "a": "because"}\n'
    n = 200_000
    path = packed(tmp_path / name, [b"q,a\n" if is_csv else b"", row * n])
    assert path.stat().st_size * 40 < len(row) * n < FREE_BYTES
    assert len(read_files([path])) == n
