"""Folders of Every Eval Ever's records become boards: nothing that can be read is lost, and the rest is named."""

import copy
import json
import os
import uuid
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.interop.every_eval_records import record_files
from assaymark.leaderboard import published_records, users_files
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.pages.board import about_page
from assaymark.leaderboard.published import board_of_table
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable
from tests.interop.test_read_every_eval import record_of


def add(folder: Path, number: int, record: dict[str, Any], **changes: Any) -> Path:
    """Write a record into a folder of its own, as the data store has it; return its file."""
    place = folder / "data" / "bench" / "us" / f"model-{number}"
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{uuid.UUID(int=number, version=4)}.json"
    file.write_text(json.dumps({**copy.deepcopy(record), **changes}))
    return file


def model(name: str, **details: str) -> dict[str, Any]:
    """Return a record's model."""
    return {"name": name, "id": name, "additional_details": details}


def table_of(folder: Path) -> BoardTable:
    """Return the table of a folder without a board's file."""
    board = board_of_table(folder)
    return Site([board]).table(board)


def test_a_folder_is_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command line: a column of each result, a row of each model, a line for each file that is no record."""
    folder = tmp_path / "store"
    for number in range(3):
        score = {"score": 0.2 * number, "uncertainty": {"num_samples": 50}}
        add(folder, number, record_of(score_details=score), model_info=model(f"us/m{number}"))
    faults = {
        10: ('"score": 0.5', '"score": NaN', "evaluation_results[0].score_details.score is nan"),
        11: ('"schema_version"', '"schema_version', "is not JSON"),
        12: ('"id": "us/model"', '"id": null', "model_info.id is None; expected a text"),
        13: ('"lower_is_better": false', '"lower_is_better": "no"', "lower_is_better is 'no'; expected true or false"),
    }
    for number, (right, wrong, _) in faults.items():
        file = add(folder, number, record_of())
        file.write_text(file.read_text().replace(right, wrong, 1))
    board = tmp_path / "board.yaml"
    assert main(["board", "init", str(board), "--table", str(folder)]) == 0
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == len(faults)
    for line, (number, (_, _, said)) in zip(sorted(lines), sorted(faults.items()), strict=True):
        assert line.startswith("note: not read: ")
        assert f"model-{number}" in line
        assert said in line
    assert main(["board", "check", str(board)]) == 0
    assert "columns bench" in capsys.readouterr().out
    parsed = read_board(board)
    site = Site([parsed])
    table = site.table(parsed)
    assert [column.title for column in table.columns] == ["bench"]
    values = {row.model: next(iter(row.cells.values())) for row in table.rows}
    assert {name: cell.number.value for name, cell in values.items()} == {"us/m0": 0.0, "us/m1": 0.2, "us/m2": 0.4}
    assert values["us/m1"].n == 50
    assert values["us/m1"].number.method.startswith("wilson")
    unread = about_page(site, parsed.name).unread
    assert len(unread) == len(faults)
    assert all(line.startswith("data/bench/us/model-1") for line in unread)  # no folder of this machine


def test_no_value_of_a_model_is_lost(tmp_path: Path) -> None:
    """Records of other benchmarks are one row, a second value of one is a row of its own, and so is a precision."""
    other = record_of()
    other["evaluation_results"][0]["evaluation_name"] = "other"
    add(tmp_path, 1, record_of(score_details={"score": 0.1}), model_info=model("us/a"))
    add(tmp_path, 2, other, model_info=model("us/a"), evaluation_id="2")
    late = {"retrieved_timestamp": "1760000000", "evaluation_id": "3"}
    add(tmp_path, 3, record_of(score_details={"score": 0.3}), model_info=model("us/a"), **late)
    add(tmp_path, 4, record_of(score_details={"score": 0.4}), model_info=model("us/a", dtype="torch.bfloat16"))
    add(tmp_path, 5, record_of(score_details={"score": 0.4}), model_info=model("us/a", dtype="torch.bfloat16"))
    rows = table_of(tmp_path).rows
    assert len({row.id for row in rows}) == len(rows)
    shown = [(row.facts.get("precision"), sorted(cell.number.value for cell in row.cells.values())) for row in rows]
    assert sorted(shown, key=str) == [
        ("bfloat16", [0.4]), ("bfloat16", [0.4]), (None, [0.1]), (None, [0.3, 0.5]),
    ]  # fmt: skip
    assert rows[0].facts["date"] == "2025-10-09"
    assert "published by Us (tool)" in rows[0].notes


def test_other_units_are_other_columns(tmp_path: Path) -> None:
    """A share, points without bounds and a share in per cent: two columns, and only the share is averaged."""
    add(tmp_path, 1, record_of(), model_info=model("us/a"))
    per_cent = {"min_score": 0, "max_score": 100}
    add(tmp_path, 2, record_of(metric_config=per_cent, score_details={"score": 25}), model_info=model("us/b"))
    rating = {"metric_name": "elo", "min_score": "-Infinity", "max_score": "Infinity"}
    add(tmp_path, 3, record_of(metric_config=rating, score_details={"score": 1250}), model_info=model("us/c"))
    table = table_of(tmp_path)
    assert [(column.title, column.is_share) for column in table.columns] == [
        ("bench, acc", True), ("bench, elo, -inf to inf", False),
    ]  # fmt: skip
    values = {row.model: [cell.number.value for cell in row.cells.values()] for row in table.rows}
    assert values == {"us/a": [0.5], "us/b": [0.25], "us/c": [1250.0]}
    assert [row.average is not None for row in table.rows] == [True, True, False]


def test_a_stated_interval_is_shown_if_it_is_of_95_per_cent(tmp_path: Path) -> None:
    """One of 90% is not put beside others; that row's interval is computed from its standard error."""
    for number, level in ((1, 0.95), (2, 0.9)):
        stated = {"lower": 0.3, "upper": 0.6, "confidence_level": level, "method": "bootstrap"}
        uncertainty = {"confidence_interval": stated, "standard_error": {"value": 0.05}}
        record = record_of(score_details={"score": 0.5, "uncertainty": uncertainty})
        add(tmp_path, number, record, model_info=model(f"us/{number}"))
    cells = {row.model: next(iter(row.cells.values())).number for row in table_of(tmp_path).rows}
    assert (cells["us/1"].low, cells["us/1"].high) == (0.3, 0.6)
    assert cells["us/2"].low == pytest.approx(0.4038, abs=1e-3)


def test_a_column_that_no_record_has_and_a_folder_without_records(tmp_path: Path) -> None:
    """Both are refused in one line that says what there is."""
    add(tmp_path / "store", 1, record_of())
    board = tmp_path / "b.yaml"
    board.write_text("title: B\ntable: {file: store, format: every-eval-ever, columns: {X: 'bnch, acc'}}\n")
    parsed = read_board(board)
    with pytest.raises(DataError, match="no record has a result 'bnch, acc'; expected one of bench, acc"):
        Site([parsed]).table(parsed)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no record of Every Eval Ever"):
        table_of(tmp_path / "empty")


def test_a_new_record_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is made anew once the folder is looked at again."""
    add(tmp_path, 1, record_of(), model_info=model("us/a"))
    board = board_of_table(tmp_path)
    site = Site([board])
    assert len(site.table(board).rows) == 1
    add(tmp_path, 2, record_of(), model_info=model("us/b"))
    monkeypatch.setattr(users_files, "LOOKED_AT_EVERY_S", 0.0)
    assert len(site.table(board).rows) == 2


def test_a_folder_is_looked_through_once_in_half_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a page asks for its state, and a folder may hold thousands of records."""
    add(tmp_path, 1, record_of())
    looks = Mock(wraps=record_files)
    monkeypatch.setattr(published_records, "record_files", looks)
    assert len({published_records.folder_state(tmp_path) for _ in range(3)}) == 1
    looks.assert_called_once_with(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_what_is_no_file_is_a_line_beside_the_others(tmp_path: Path) -> None:
    """A pipe and a link to nothing under the names of records are left out, and said."""
    add(tmp_path, 1, record_of())
    pipe, link = (tmp_path / f"{uuid.UUID(int=number, version=4)}.json" for number in (2, 3))
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "nothing")
    table = table_of(tmp_path)
    assert len(table.rows) == 1
    assert sorted(table.unread) == sorted(f"{file.name}: is not a regular file" for file in (pipe, link))


def test_a_published_record_is_a_row(shared_dir: Path) -> None:
    """The record of a public leaderboard: 15 columns of shares, without intervals, since it states nothing for one."""
    (row,) = table_of(shared_dir / "interchange" / "community").rows
    assert (row.model, len(row.cells)) == ("01-ai/yi-1.5-34b-chat", 15)
    assert {cell.number.low for cell in row.cells.values()} == {None}
    assert row.average is not None
