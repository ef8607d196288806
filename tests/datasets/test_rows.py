"""Rows: a lazy sequence with the methods that task files use."""

import pytest

from assaymark.datasets import ClassLabel, Rows
from assaymark.errors import DataError


def three() -> Rows:
    """Return three small rows."""
    return Rows.of([{"q": "a", "n": 1}, {"q": "b", "n": 2}, {"q": "c", "n": 3}], {"n": ClassLabel(("x", "y"))})


def test_rows_are_a_sequence() -> None:
    """Length, index, negative index, slice, column and iteration agree."""
    rows = three()
    assert len(rows) == rows.num_rows == 3
    assert rows[0] == {"q": "a", "n": 1}
    assert rows[-1]["q"] == "c"
    assert rows[1:] == [{"q": "b", "n": 2}, {"q": "c", "n": 3}]
    assert rows["q"] == ["a", "b", "c"]
    assert [row["n"] for row in rows] == [1, 2, 3]
    with pytest.raises(IndexError):
        rows[3]


def test_a_missing_column_is_an_error_that_names_the_others() -> None:
    """The error for a missing column lists the existing ones."""
    with pytest.raises(DataError, match=r"no column 'z'.*q, n"):
        three()["z"]


def test_blocks_are_read_once_and_only_on_access() -> None:
    """Access to one row of a thousand reads its block of 256 rows, once."""
    read: list[tuple[int, int]] = []

    def reader(start: int, stop: int) -> list[dict[str, int]]:
        read.append((start, stop))
        return [{"i": i} for i in range(start, stop)]

    rows = Rows(1000, reader, {"i": None})
    assert rows[300] == {"i": 300}
    assert rows[301] == {"i": 301}
    assert rows[999] == {"i": 999}
    assert read == [(256, 512), (768, 1000)]


def test_map_updates_each_row_in_order() -> None:
    """`map` calls its function once per row, first to last, and turns tuples into lists."""
    seen: list[str] = []

    def longer(row: dict[str, object]) -> dict[str, object]:
        seen.append(str(row["q"]))
        return {"pair": (row["q"], row["n"]), "n": 0}

    made = three().map(longer)
    assert seen == ["a", "b", "c"]
    assert made[1] == {"q": "b", "n": 0, "pair": ["b", 2]}
    assert made.column_names == ["q", "n", "pair"]
    assert made.features["n"] is None  # changed, so its names are no longer valid
    assert three().map(lambda _: {"m": 1}, remove_columns=["q"])[0] == {"n": 1, "m": 1}
    assert three()[0] == {"q": "a", "n": 1}


def test_rows_can_be_selected_and_renamed() -> None:
    """filter, select, rename and remove do not change the original."""
    rows = three()
    assert rows.filter(lambda row: row["n"] > 1)["q"] == ["b", "c"]
    assert rows.select([2, 0])["q"] == ["c", "a"]
    assert rows.rename_column("q", "question")[0] == {"question": "a", "n": 1}
    assert rows.remove_columns("n")[0] == {"q": "a"}
    assert rows.remove_columns(["n"]).column_names == ["q"]
    assert rows.to_list() == [{"q": "a", "n": 1}, {"q": "b", "n": 2}, {"q": "c", "n": 3}]


def test_methods_of_the_library_datasets_are_refused() -> None:
    """The error for a method that only `datasets.Dataset` has names the install line."""
    with pytest.raises(DataError, match=r"'train_test_split'.*\.\[hub\]"):
        three().train_test_split()


def test_class_labels_name_numbers() -> None:
    """int2str and str2int are inverse functions."""
    label = three().features["n"]
    assert label is not None
    assert label.int2str(1) == "y"
    assert label.str2int("y") == 1


def test_absent_values_are_none() -> None:
    """Rows that lack a column have None there, as in a table."""
    assert Rows.of([{"a": 1}, {"b": 2}])[1] == {"a": None, "b": 2}
