"""Rows are read from files, exports of other tools and lists; a fault names the file, the row and what was expected."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import assaymark
from assaymark.applications.rows import Row, name_of_rows, read_rows, rows_hash
from assaymark.errors import DataError, UsageError

SUMS = [{"input": "2+2?", "expected": "4"}, {"input": "3+3?", "expected": "6"}]


def only(raw: dict[str, Any]) -> Row:
    """Return one row, read."""
    (row,) = read_rows([raw])
    return row


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet", ".yaml", ".tests.json"])
def test_every_format_has_the_same_rows(tmp_path: Path, suffix: str) -> None:
    """JSON lines, JSON, CSV, Parquet, YAML and an export with a field of rows are read alike."""
    path = tmp_path / f"sums{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, SUMS)), encoding="utf-8")
    elif suffix == ".json":
        path.write_text(json.dumps(SUMS), encoding="utf-8")
    elif suffix == ".csv":
        path.write_text("input,expected\n2+2?,4\n3+3?,6\n", encoding="utf-8")
    elif suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(SUMS), path)
    elif suffix == ".yaml":
        path.write_text("tests:\n- {input: 2+2?, expected: '4'}\n- {input: 3+3?, expected: '6'}\n", encoding="utf-8")
    else:
        path.write_text(json.dumps({"description": "sums", "tests": SUMS}), encoding="utf-8")
    rows = read_rows(path)
    assert [(row.id, row.inputs, row.expected) for row in rows] == [("0", "2+2?", "4"), ("1", "3+3?", "6")]
    assert rows_hash(rows) == rows_hash(read_rows(SUMS))
    assert name_of_rows(path).startswith("sums")


def test_a_folder_of_parquet_is_read_as_a_data_set(tmp_path: Path) -> None:
    """A data set's folder, as downloaded from the Hub, has its test split's rows; another split is named after it."""
    for split in ("train", "test"):
        parquet.write_table(pa.Table.from_pylist([{"question": split, "answer": "x"}]), tmp_path / f"{split}.parquet")
    assert [row.inputs for row in read_rows(str(tmp_path))] == [{"question": "test"}]
    assert [row.inputs for row in read_rows(f"{tmp_path}::train")] == [{"question": "train"}]


@pytest.mark.parametrize(
    ("raw", "inputs", "expected"),
    [
        ({"inputs": {"q": "?"}, "outputs": {"a": "!"}, "split": "base"}, {"q": "?"}, {"a": "!"}),  # LangSmith
        ({"input": "?", "expected": {"a": 1}, "metadata": {"n": 1}, "tags": ["x"]}, "?", {"a": 1}),  # Braintrust
        ({"input": {"q": "?"}, "output": {"a": "!"}, "metadata": {}}, {"q": "?"}, {"a": "!"}),  # Phoenix
        ({"inputs": {"q": "?"}, "expectations": {"guidelines": "!"}}, {"q": "?"}, {"guidelines": "!"}),  # MLflow
        ({"input": "?", "expected_output": "!", "metadata": None}, "?", "!"),  # Langfuse, from its SDK
        ({"input": "?", "expectedOutput": "!"}, "?", "!"),  # Langfuse, exported
        ({"inputs": {"q": "?"}, "ground_truth": {"a": "!"}}, {"q": "?"}, {"a": "!"}),  # HoneyHive
        ({"vars": {"q": "?"}, "assert": [{"type": "equals", "value": "!"}]}, {"q": "?"}, "!"),  # promptfoo, YAML
        ({"q": "?", "__expected": "equals: !"}, {"q": "?"}, "!"),  # promptfoo, CSV
        ({"input": "?", "expected_output": "!", "retrieval_context": ["c"]}, "?", "!"),  # DeepEval
        ({"input": "?", "target": "!", "id": "a"}, "?", "!"),  # inspect
        ({"question": "?", "answer": "!"}, {"question": "?"}, "!"),
        ({"instruction": "add", "input": "2+2", "output": "4"}, {"instruction": "add", "input": "2+2"}, "4"),  # Alpaca
        ({"input": "?"}, "?", None),
    ],
)  # fmt: skip
def test_rows_of_other_tools(raw: dict[str, Any], inputs: Any, expected: Any) -> None:
    """Inputs and reference are found under each tool's names, with their values as they are stored."""
    row = only(raw)
    assert (row.inputs, row.expected) == (inputs, expected)


def test_the_other_parts_of_a_row() -> None:
    """Contexts, tags, split, metadata and id are read; other columns beside inputs are metadata, nothing is lost."""
    row = only(
        {
            "id": "r1", "input": "?", "retrieved_contexts": ["a", "b"], "tags": {"k": "v"}, "split": ["base", "hard"],
            "metadata": {"n": 1}, "actual_output": "o", "expected": "!", "reference": "other",
        }
    )  # fmt: skip
    assert (row.id, row.contexts, row.tags, row.split) == ("r1", ("a", "b"), ("k=v",), "base,hard")
    assert row.metadata == {"actual_output": "o", "reference": "other", "n": 1}
    assert row.input_column is None
    assert only({"question": "?"}).input_column == "question"
    assert only({"question": "?", "hint": "h"}).input_column is None


def test_cells_of_a_table_hold_json(tmp_path: Path) -> None:
    """In CSV, mappings and lists of these columns are JSON, as LangSmith, Langfuse and Phoenix export them."""
    path = tmp_path / "rows.csv"
    path.write_text('inputs,outputs,contexts,tags\n"{""q"": ""?""}","{""a"": 4}","[""c""]","x, y"\n', encoding="utf-8")
    (row,) = read_rows(path)
    assert (row.inputs, row.expected, row.contexts, row.tags) == ({"q": "?"}, {"a": 4}, ("c",), ("x", "y"))
    path.write_text("question;expected\n1+6;007\n", encoding="utf-8")
    assert [(row.inputs, row.expected) for row in read_rows(path)] == [({"question": "1+6"}, "007")]
    path.write_text("question,expected\n1+6,7\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"rows.csv, line 3 has 3 cells; expected 2, as in the header"):
        read_rows(path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"input": "a"}', '{"expected": "b"}'], r"rows.jsonl, line 2: it has no inputs"),
        (['{"input": "a", "metadata": 3}'], r"line 1: metadata is 3; expected a mapping"),
        (['{"input": "a", "contexts": [1]}'], r"line 1: contexts is \[1\]; expected a list of texts"),
        (['{"input": "a", "tags": [1]}'], r"line 1: tags are \[1\]; expected a list of texts"),
        (['{"input": "a", "id": 1}', '{"input": "b", "id": 1}'], r"line 2: its id '1' is also that of line 1"),
        (["[1]"], r"row 1 is 1, not an object|line 1 is \[1\]"),
        ([""], "there are no rows; expected at least one"),
        (['{"input": "a"}', "{"], r"line 2"),
    ],
)
def test_a_faulty_row_is_refused_where_it_stands(tmp_path: Path, lines: list[str], message: str) -> None:
    """The error names the file, the line and what was expected."""
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError, match=message) as raised:
        read_rows(path)
    assert "rows.jsonl" in str(raised.value)


@pytest.mark.parametrize("source", ["absent.jsonl", 7, {"input": "?"}])
def test_what_is_no_source_of_rows_is_refused(source: Any) -> None:
    """An absent file and a single mapping are refused with what was expected."""
    with pytest.raises(UsageError, match="expected"):
        read_rows(source)


class Silent:
    """A value whose class cannot even say what it is."""

    def __repr__(self) -> str:
        """Fail."""
        raise RuntimeError("no text")


def nested(depth: int) -> list[Any]:
    """Return lists within each other."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), r"rows, row 2: column expected is <object object at \w+> \(a object\)"),
        (Silent(), r"rows, row 2: column expected is a Silent \(a Silent\)"),
        ([1, Silent()], r"rows, row 2: column expected is a list \(a Silent\)"),
        (nested(101), r"rows, row 2: column expected is \[+ \(nested deeper than 100 levels\)"),
        ({1, 2}, r"rows, row 2: column expected is \{1, 2\} \(a set\)"),
        (
            nested(20_000),
            r"rows, row 2: column expected is (a list|\[+) \(nested (too deeply|deeper than 100 levels)\)",
        ),
    ],
    ids=["object", "silent", "within a list", "deep", "set", "nested"],
)
def test_a_value_that_json_cannot_hold_is_named_by_row_and_column(value: Any, message: str) -> None:
    """An object in a row is refused before the first call, in one line with row, column and value."""
    calls: list[Any] = []
    rows = [{"question": "a", "expected": "x"}, {"question": "b", "expected": value}]
    with pytest.raises(DataError, match=message + ".*; expected a value that JSON can hold") as raised:
        assaymark.evaluate(calls.append, rows, scorers=["exact"])
    assert len(str(raised.value).splitlines()) == 1
    assert calls == []
    with pytest.raises(DataError, match="row 1 is a Silent; expected a mapping"):
        assaymark.evaluate(calls.append, [Silent()], scorers=["exact"])


def test_rows_are_counted_from_1_as_lines_are(tmp_path: Path) -> None:
    """The places of rows in JSON and YAML begin at 1, as those of Parquet files and of lines do."""
    for name in ("rows.json", "rows.yaml"):
        path = tmp_path / name
        path.write_text('{"data": [{"input": "a"}, {"input": "b", "metadata": 3}]}')
        with pytest.raises(DataError, match="row 2: metadata is 3"):
            read_rows(path)
