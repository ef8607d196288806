"""Keys of score columns: unique, stable, and never those of another part of the table."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.leaderboard.board import RESERVED, column_keys, slug
from assaymark.leaderboard.board_files import library_suites, read_board
from assaymark.leaderboard.exports import rows_csv, rows_jsonl, rows_parquet, shown_json
from assaymark.leaderboard.shown import all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.view import View


@given(st.lists(st.text(max_size=8) | st.sampled_from(sorted(RESERVED)), unique=True))
def test_every_title_has_a_key_of_its_own(titles: list[str]) -> None:
    """No two titles share a key, none is reserved, and a title added at the end changes no earlier key."""
    keys = column_keys(titles)
    assert list(keys) == titles
    assert len(set(keys.values())) == len(titles)
    assert not RESERVED & set(keys.values())
    assert not any("_" in key for key in keys.values())
    assert column_keys([*titles, "another title"]).items() >= keys.items()


def test_keys_of_the_package_are_slugs() -> None:
    """Addresses that exist keep working: no suite of the package needs anything but slugs."""
    for suite in library_suites().values():
        assert column_keys(suite.columns) == {title: slug(title) for title in suite.columns}


@pytest.mark.parametrize(
    "titles",
    [
        ["数学", "物理"],
        ["C++", "C#"],
        ["x y", "x-y"],
        ["Average", "Model", "Rank", "ID", "URL", "Date", "Params", "Size"],
        ["x", "x_n", "x_low", "x_n_failed", "Average_low", "n_columns", "rank_best"],
    ],
)
def test_exports_hold_every_value(tmp_path: Path, titles: list[str]) -> None:
    """JSON, CSV, JSONL and Parquet have each column's value, and what stands beside the columns unchanged."""
    headings = [f"h{at}" for at in range(len(titles))]
    values = [10 + at for at in range(len(titles))]
    (tmp_path / "t.csv").write_text(f"model,{','.join(headings)}\na/b,{','.join(map(str, values))}\n")
    columns = json.dumps(dict(zip(titles, headings, strict=True)), ensure_ascii=False)
    (tmp_path / "board.yaml").write_text(f"table: {{file: t.csv, columns: {columns}}}\n", encoding="utf-8")
    board = read_board(tmp_path / "board.yaml")
    table = Site([board]).table(board)
    assert [column.title for column in table.columns] == titles
    rows = all_rows(table, View(), board.shown_columns)
    as_csv = next(csv.DictReader(io.StringIO(rows_csv(rows, table.columns))))
    as_jsonl = json.loads(rows_jsonl(rows, table.columns))
    as_parquet = pq.read_table(io.BytesIO(rows_parquet(rows, table.columns))).to_pylist()[0]
    nested = shown_json(rows[0], table.columns)
    assert isinstance(nested, dict)
    scores = nested["scores"]
    assert isinstance(scores, dict)
    for column, value in zip(table.columns, values, strict=True):
        assert float(as_csv[column.key]) == as_jsonl[column.key] == as_parquet[column.key] == value / 100
        assert scores[column.key]["value"] == value / 100
    average = pytest.approx(sum(values) / len(values) / 100)
    for flat in (as_jsonl, as_parquet):
        assert (flat["model"], flat["average"], flat["rank"]) == ("a/b", average, 1)
        assert flat["n_columns"] == len(titles)
        assert (flat["params"], flat["date"], flat["url"]) == (None, None, "https://huggingface.co/a/b")
