"""Large CSV files are read with the types and values of a whole read, without the file in memory."""

import gzip
import random
import subprocess
import sys
from pathlib import Path

import pytest

from assaymark import settings
from assaymark.datasets import csv_files, large_csv
from assaymark.datasets.files import read_files

KINDS = {
    "null": ["", "", ""],
    "int": ["1", "-5", "0"],
    "bool": ["true", "false", "true"],
    "date": ["2020-01-01", "1999-12-31", "2020-02-29"],
    "time": ["10:11:12", "00:00:00", "23:59:59"],
    "moment": ["2020-01-01 10:11:12", "1999-12-31 00:00:00", "2020-01-01 10:11:12"],
    "exact": ["2020-01-01 10:11:12.123456", "2020-01-01 10:11:12.5", "2020-01-01 10:11:12"],
    "zoned": ["2020-01-01T10:11:12Z", "2020-01-01T10:11:12Z", "2020-01-01T10:11:12Z"],
    "float": ["1.5", "nan", "-2e9"],
    "text": ["abc", "N/A", "x, y\nz"],
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make any file a large one, read in many blocks."""
    monkeypatch.setattr(csv_files, "LARGE", 0)
    monkeypatch.setattr(csv_files, "LARGE_PACKED", 0)
    monkeypatch.setattr(large_csv, "BLOCK_BYTES", 600)


def write(path: Path, columns: dict[str, list[str]]) -> Path:
    """Write columns as a CSV file, every text quoted as needed."""
    quoted = [['"' + v + '"' if "\n" in v or "," in v else v for v in values] for values in columns.values()]
    lines = [",".join(columns), *(",".join(cells) for cells in zip(*quoted, strict=True))]
    text = "\n".join(lines) + "\n"
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.usefixtures("small_blocks")
def test_types_are_those_of_the_whole_file(
    tmp_path: Path, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that changes its kind after many blocks has the same values as where the file is one block."""
    draw = random.Random(f"{first} {second}")
    values = [draw.choice(KINDS[first]) for _ in range(120)] + [draw.choice(KINDS[second]) for _ in range(120)]
    columns = {
        "number": [str(i) for i in range(240)],
        "mixed": values,
        "same": [draw.choice(KINDS[first]) for _ in values],
    }
    path = write(tmp_path / "large.csv", columns)
    streamed = read_files([path])
    monkeypatch.setattr(csv_files, "LARGE", 1 << 30)
    whole = read_files([path])
    assert repr(streamed.to_list()) == repr(whole.to_list())  # nan is not equal to itself
    assert streamed.column_names == whole.column_names
    assert repr(streamed["mixed"]) == repr(whole["mixed"]) == repr(list(streamed.values("mixed")))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["large.csv", "large.csv.gz"])
def test_rows_are_read_in_any_order(tmp_path: Path, name: str) -> None:
    """Slices across batches, single rows and the end are those of the list."""
    rows = read_files([write(tmp_path / name, {"n": [str(i) for i in range(2000)], "t": ["some text"] * 2000})])
    assert rows.table is None
    assert [row["n"] for row in rows[990:1010]] == list(range(990, 1010))
    assert (rows[1999]["n"], rows[0]["n"], rows[-1]["n"], len(rows)) == (1999, 0, 1999, 2000)


@pytest.mark.usefixtures("small_blocks")
def test_bad_lines_are_left_out_of_large_files_too(tmp_path: Path) -> None:
    """Lines with another number of cells are counted and named, and the lines of the others stay right."""
    lines = ["n,t", *(f"{i},x" for i in range(500))]
    lines[100], lines[300] = "1,2,3", "alone"
    path = tmp_path / "large.csv"
    path.write_text("\n".join(lines) + "\n")
    rows = read_files([path], skip_bad_rows=True)
    assert (len(rows), rows.skipped.n) == (498, 2)
    assert rows.skipped.first[0] == "line 101: 3 cells, but the header has 2"
    assert rows.places([0, 99, 100, 497]) == ["line 2", "line 102", "line 103", "line 501"]


@pytest.mark.usefixtures("small_blocks")
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The converted file has no name once it is open; one that a killed process left is removed after a day."""
    import os

    monkeypatch.setenv("ASSAYMARK_CACHE", str(tmp_path / "cache"))  # other tests convert files in theirs meanwhile
    folder = settings.cache_folder() / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    old, new = folder / "old.arrow", folder / "new.arrow"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (1, 1))
    rows = read_files([write(tmp_path / "large.csv", {"n": [str(i) for i in range(300)]})])
    assert rows.table is None
    assert {path.name for path in folder.iterdir()} == {"new.arrow"}
    new.unlink()


BIND = """
import resource, sys
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
task = Catalog.open(lm_eval=False).select([sys.argv[1]]).tasks[0]
assert len(list(bind(task, BindOptions(limit=100)).requests())) == 100
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def peak_of(path: Path, n_rows: int) -> int:
    """Write a file of questions; return the peak memory, in bytes, of a process that binds its first 100 rows."""
    line = "What is the meaning of number {}?,one,two,three,four,B," + "x" * 300 + "\n"
    with path.open("w") as stream:
        stream.write("question,A,B,C,D,answer,notes\n")
        stream.writelines(line.format(i) for i in range(n_rows))
    done = subprocess.run([sys.executable, "-c", BIND, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A file of 95 MB takes no more memory than one of 36 MB, but for pyarrow's blocks ahead (up to 32 MB)."""
    small, large = peak_of(tmp_path / "small.csv", 100_000), peak_of(tmp_path / "large.csv", 260_000)
    assert (tmp_path / "large.csv").stat().st_size - (tmp_path / "small.csv").stat().st_size > 55e6
    assert large - small < 40e6
