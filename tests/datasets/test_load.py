"""Loading of data sets: named files, the data folder, the Hub; and their hashes."""

import gzip
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assaymark import settings
from assaymark.datasets import ClassLabel, DatasetSpec, load_dataset
from assaymark.datasets.files import file_digest, read_files
from assaymark.errors import DataError, MissingExtra, UsageError
from assaymark.settings import data_folder

ROWS = [{"question": "1+1?", "answer": "2"}, {"question": "2+2?", "answer": "4"}]


def parquet(path: Path, rows: list[dict[str, Any]], metadata: Mapping[bytes, bytes] | None = None) -> None:
    """Write rows as a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table.replace_schema_metadata(metadata) if metadata else table, path)


def spec_of(path: str, files: object, base: Path, **more: object) -> DatasetSpec:
    """Return a spec with data_files."""
    return DatasetSpec(path, kwargs=tuple({"data_files": files, **more}.items()), base=base)


def test_a_local_folder_is_read_lazily(tmp_path: Path) -> None:
    """`<dir>/<path>/<name>/<split>.parquet` is found; a damaged split raises an error only when it is accessed."""
    folder = tmp_path / "org" / "set" / "main"
    parquet(folder / "test.parquet", ROWS)
    (folder / "train.parquet").write_bytes(b"no parquet")
    loaded = load_dataset(DatasetSpec("org/set", "main"), tmp_path)
    assert loaded.origin == "local"
    assert list(loaded.splits) == ["test", "train"]
    assert loaded.splits["test"][1] == ROWS[1]
    with pytest.raises(DataError, match=r"cannot read .*train\.parquet"):
        loaded.splits["train"]


def test_shards_are_one_split(tmp_path: Path) -> None:
    """Files with the Hub's names for shards are concatenated."""
    for i, row in enumerate(ROWS):
        parquet(tmp_path / "org" / "set" / "default" / f"test-{i:05d}-of-00002.parquet", [row])
    assert load_dataset(DatasetSpec("org/set"), tmp_path).splits["test"].to_list() == ROWS


def test_without_a_name_the_only_folder_is_used(tmp_path: Path) -> None:
    """Without a name the only configuration is used; with another name it is not found."""
    parquet(tmp_path / "org" / "set" / "all" / "test.parquet", ROWS)
    parquet(tmp_path / "org" / "set" / "_notes" / "test.parquet", ROWS)
    assert len(load_dataset(DatasetSpec("org/set"), tmp_path).splits["test"]) == 2
    with pytest.raises((DataError, MissingExtra)):
        load_dataset(DatasetSpec("org/set", "other"), tmp_path)


def test_class_labels_come_from_the_hubs_metadata(tmp_path: Path) -> None:
    """Names of label columns are read from the Parquet schema."""
    features = {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}, "q": {"_type": "Value"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    parquet(tmp_path / "s" / "default" / "test.parquet", [{"q": "?", "label": 1}], metadata)
    rows = load_dataset(DatasetSpec("s"), tmp_path).splits["test"]
    assert rows.features == {"label": ClassLabel(("no", "yes")), "q": None}


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    """Moving a data set keeps its hash; changed rows or a renamed split change it."""
    for name in ("a", "b", "c"):
        parquet(tmp_path / name / "default" / "test.parquet", ROWS if name != "c" else ROWS[:1])
    first, second, third = (load_dataset(DatasetSpec(name), tmp_path).content_hash for name in "abc")
    assert first == second != third
    assert first.startswith("sha256:")
    (tmp_path / "b" / "default" / "test.parquet").rename(tmp_path / "b" / "default" / "train.parquet")
    assert load_dataset(DatasetSpec("b"), tmp_path).content_hash != first


def test_digests_are_cached_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest comes from the cache while the file stays the same; a copy over it with its size and time is another."""
    monkeypatch.setenv("ASSAYMARK_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "x"
    file.write_text("one")
    digest = file_digest(file)
    (note,) = (settings.cache_folder() / "digests").iterdir()
    note.write_text(note.read_text().replace(digest, "f" * 64))
    assert file_digest(file) == "f" * 64
    state = file.stat()
    file.write_text("two")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file_digest(file) not in {digest, "f" * 64}
    note.write_text("damaged")
    assert len(file_digest(file)) == 64


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.jsonl.gz"])
def test_json_is_read_in_every_shape(tmp_path: Path, name: str) -> None:
    """Lines, one list and gzipped lines give the same rows."""
    lines = "\n".join(json.dumps(row) for row in ROWS) + "\n"
    if name.endswith(".gz"):
        with gzip.open(tmp_path / name, "wt") as stream:
            stream.write(lines)
    else:
        (tmp_path / name).write_text(json.dumps(ROWS) if name == "rows.json" else lines)
    loaded = load_dataset(spec_of("json", {"test": name}, tmp_path))
    assert loaded.origin == "files"
    assert loaded.splits["test"].to_list() == ROWS


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("orient", ["columns", "index", "split", "table", "records", "list"])
def test_pandas_json_is_read_in_its_forms(tmp_path: Path, orient: str, indent: int | None) -> None:
    """What `DataFrame.to_json` writes, column by column if nothing is said, is a table of the same rows."""
    rows: list[dict[str, object]] = [{"question": "2+2?", "answer": ["4", "four"]}, {"question": "3+3?", "answer": "6"}]
    by_column = {name: {str(i): row[name] for i, row in enumerate(rows)} for name in rows[0]}
    forms: dict[str, object] = {
        "columns": by_column,
        "index": {str(i): row for i, row in enumerate(rows)},
        "split": {"columns": [*rows[0]], "index": [0, 1], "data": [[*row.values()] for row in rows]},
        "table": {"schema": {"fields": []}, "data": [{"index": i, **row} for i, row in enumerate(rows)]},
        "records": rows,
        "list": {name: [row[name] for row in rows] for name in rows[0]},
    }
    (tmp_path / "f.json").write_text(json.dumps(forms[orient], indent=indent))
    assert load_dataset(spec_of("json", "f.json", tmp_path)).splits["train"].to_list() == rows


def test_the_file_that_cannot_be_read_is_named_alone(tmp_path: Path) -> None:
    """Of several files the error names the one at fault."""
    (tmp_path / "good.csv").write_text("question,answer\n2+2?,4\n")
    (tmp_path / "bad.csv").write_bytes(b'question,answer\r\n2+2?,4\r\n"3\r3?,6\r\n')
    with pytest.raises(DataError, match=r"^cannot read [^ ]*bad\.csv: "):
        load_dataset(spec_of("csv", {"test": ["good.csv", "bad.csv"]}, tmp_path)).splits["test"]


def test_a_single_row_with_lists_or_objects_is_a_row(tmp_path: Path) -> None:
    """One line of JSON lines is no table, whatever its columns have."""
    row = {"messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "f"}]}
    (tmp_path / "one.json").write_text(json.dumps(row))
    (tmp_path / "one.jsonl").write_text(json.dumps({"question": ["a", "b"], "choices": ["c", "d"]}))
    assert load_dataset(spec_of("json", "one.json", tmp_path)).splits["train"].to_list() == [row]
    assert len(load_dataset(spec_of("json", "one.jsonl", tmp_path)).splits["train"]) == 1


def test_json_fields_and_columns(tmp_path: Path) -> None:
    """A list under a key is found with `field`; a mapping of columns becomes rows."""
    (tmp_path / "f.json").write_text(json.dumps({"data": ROWS}, indent=1))
    assert load_dataset(spec_of("json", "f.json", tmp_path, field="data")).splits["train"].to_list() == ROWS
    (tmp_path / "c.json").write_text(json.dumps({"a": [1, 2], "b": [3, 4]}, indent=1))
    assert load_dataset(spec_of("json", "c.json", tmp_path)).splits["train"].to_list() == [
        {"a": 1, "b": 3},
        {"a": 2, "b": 4},
    ]


def test_line_separators_inside_a_text_do_not_split_it(tmp_path: Path) -> None:
    """U+2028 in a JSON string is text, not the end of a line."""
    (tmp_path / "r.jsonl").write_text('{"t": "a\u2028b"}\n', encoding="utf-8")
    assert load_dataset(spec_of("json", "r.jsonl", tmp_path)).splits["train"][0] == {"t": "a\u2028b"}


def test_csv_with_and_without_a_header(tmp_path: Path) -> None:
    """Column names come from the first line, or from the task if it sets them; empty cells are None."""
    (tmp_path / "h.csv").write_text('question,n\n"a, ""b""\nc",1\nd,\n')
    assert load_dataset(spec_of("csv", {"test": "h.csv"}, tmp_path)).splits["test"].to_list() == [
        {"question": 'a, "b"\nc', "n": 1},
        {"question": "d", "n": None},
    ]
    (tmp_path / "n.csv").write_text("x,1\ny,2\n")
    spec = spec_of("csv", {"test": "n.csv"}, tmp_path, column_names=["q", "a"], header=None)
    assert load_dataset(spec).splits["test"].to_list() == [{"q": "x", "a": 1}, {"q": "y", "a": 2}]


def test_a_path_may_be_a_folder(tmp_path: Path) -> None:
    """A data set path may be a local folder with the splits, absolute or relative to the task file."""
    parquet(tmp_path / "mine" / "test.parquet", ROWS)
    for spec in (DatasetSpec(str(tmp_path / "mine")), DatasetSpec("mine", base=tmp_path)):
        loaded = load_dataset(spec)
        assert (loaded.origin, loaded.splits["test"].to_list()) == ("files", ROWS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no <split>"):
        load_dataset(DatasetSpec(str(tmp_path / "empty")))


def test_patterns_and_absent_files(tmp_path: Path) -> None:
    """A glob selects every file that it matches; a name without a match is an error that lists the searched folders."""
    for i, row in enumerate(ROWS):
        (tmp_path / f"part{i}.jsonl").write_text(json.dumps(row) + "\n")
    assert len(load_dataset(spec_of("json", {"test": "part*.jsonl"}, tmp_path)).splits["test"]) == 2
    (tmp_path / "new[0].jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    assert len(load_dataset(spec_of("json", {"test": "new[0].jsonl"}, tmp_path)).splits["test"]) == 1
    with pytest.raises(DataError, match=r"no data file 'absent.jsonl'; looked in"):
        load_dataset(spec_of("json", "absent.jsonl", tmp_path))


@pytest.mark.parametrize("encoding", ["utf-16", "latin1", "cp1252"])
def test_the_advice_for_another_encoding_names_it(tmp_path: Path, encoding: str) -> None:
    """What Excel writes as Unicode text begins with a byte order mark; iconv needs its name."""
    (tmp_path / "rows.csv").write_text(
        f"question,answer\nWie heißt es?,Straße{' für 5 €' if encoding == 'cp1252' else ''}\n", encoding=encoding
    )
    with pytest.raises(DataError, match=f"iconv -f {encoding} -t utf-8 rows.csv"):
        load_dataset(spec_of("csv", {"test": "rows.csv"}, tmp_path)).splits["test"].to_list()


@pytest.mark.parametrize(
    ("name", "content"), [("bad.jsonl", '{"a": 1}\n{"a": \n'), ("bad.json", "[1, 2]"), ("x.txt", "a")]
)
def test_unreadable_files_are_named(tmp_path: Path, name: str, content: str) -> None:
    """An unreadable file raises DataError with its name."""
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=name):
        load_dataset(spec_of("json", name, tmp_path)).splits["train"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "list.jsonl",
            '[1, 2]\n"s"\nnull\n',
            r"line 1 is \[1, 2\], not an object; line 2 is 's', not an object; line 3",
        ),
        (
            "large.jsonl",
            '{"a": 1}\n{"a": ' + "9" * 5000 + "}\n",
            "line 2: an integer has more than 4,300 digits; write it",
        ),
        (
            "large.jsonl",
            '{"a": ' + "9" * 5000 + "}\n",
            "line 1: an integer has more than 4,300 digits; write it as text",
        ),
        ("large.json", '[{"a": ' + "9" * 5000 + "}]", "json: an integer has more than 4,300 digits; write it as text"),
    ],
)
def test_what_no_row_can_be_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    """The line, what is wrong with it, and what to do."""
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load_dataset(spec_of("json", name, tmp_path)).splits["train"]


def test_a_missing_split_names_the_others(tmp_path: Path) -> None:
    """The error for a missing split lists the existing ones."""
    parquet(tmp_path / "s" / "default" / "test.parquet", ROWS)
    with pytest.raises(DataError, match="no split 'train'; it has test"):
        load_dataset(DatasetSpec("s"), tmp_path).splits["train"]


def test_a_csv_cell_may_be_large_and_come_late(tmp_path: Path) -> None:
    """A cell of megabytes is read, and a column whose first megabytes are numbers may have a word at its end."""
    long = "x" * 3_000_000
    (tmp_path / "long.csv").write_text(f"question,answer\n{long},4\n")
    assert read_files([tmp_path / "long.csv"])[0]["question"] == long
    (tmp_path / "late.csv").write_text("answer\n" + "12345678\n" * 200_000 + "many\n")
    assert read_files([tmp_path / "late.csv"])[-1] == {"answer": "many"}


def test_deeply_nested_rows_are_refused(tmp_path: Path) -> None:
    """A file made to exhaust the reader is refused with its name."""
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"deep\.jsonl"):
        read_files([tmp_path / "deep.jsonl"])


def test_without_datasets_the_hub_needs_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a data set that is not local names the install line and the searched folder."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"\.\[hub\]"):
        load_dataset(DatasetSpec("org/set"))
    with pytest.raises(DataError, match=r"no rows of org/set in .*default.*\.\[hub\]"):
        load_dataset(DatasetSpec("org/set"), tmp_path)


def test_the_hub_offline_is_an_error_with_the_remedy() -> None:
    """Without a network the error names the data folder as the remedy."""
    pytest.importorskip("datasets")
    with pytest.raises(DataError, match=r"org/absent-set.*--data_dir DIR or ASSAYMARK_DATA"):
        load_dataset(DatasetSpec("org/absent-set"))


def test_hub_splits_have_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is read from the addresses that were downloaded, and the hash is that of the commit."""
    datasets = pytest.importorskip("datasets")
    commit = "a" * 40
    split = datasets.Dataset.from_list(ROWS).select([1, 0])
    split.info.download_checksums = {f"hf://datasets/org/set@{commit}/test.parquet": {}}
    monkeypatch.setattr(datasets, "load_dataset", lambda **_: datasets.DatasetDict({"test": split}))
    loaded = load_dataset(DatasetSpec("org/set"))
    assert (loaded.origin, loaded.revision) == ("hub", commit)
    assert loaded.splits["test"].to_list() == ROWS[::-1]
    assert loaded.content_hash == load_dataset(DatasetSpec("org/set")).content_hash
    split.info.download_checksums = None
    unpinned = load_dataset(DatasetSpec("org/set"))
    assert unpinned.revision is None
    assert unpinned.content_hash != loaded.content_hash


def test_a_gated_repository_names_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the Hub denies access, the error names HF_TOKEN."""
    datasets = pytest.importorskip("datasets")

    def refuse(**_: object) -> None:
        raise ConnectionError("Dataset 'org/gated' is a gated dataset on the Hub. 401 Client Error")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(DataError, match=r"org/gated is gated.*HF_TOKEN"):
        load_dataset(DatasetSpec("org/gated"))


def test_a_folder_of_data_that_is_none_is_named_by_its_option() -> None:
    """The error has the spelling of the option that was typed."""
    with pytest.raises(UsageError, match=r"^--data_dir is '/nowhere', which is not a folder"):
        data_folder("/nowhere")
