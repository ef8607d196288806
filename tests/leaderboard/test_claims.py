"""Numbers that others state for a model, beside those that were measured."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.errors import DataError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.exports import flat_row, rows_csv, rows_parquet, shown_json
from assaymark.leaderboard.shown import all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.view import View

TABLE = "table: {file: scores.csv, columns: {Law: Law, Books: Books}, sizes: {Law: 100, Books: 100}}\n"


def site(folder: Path, claims: str) -> Site:
    """Return a board of two models with claims."""
    (folder / "scores.csv").write_text("model,Law,Books\norg/A,60,50\norg/B,40,\n")
    (folder / "board.yaml").write_text(f"title: Claims\n{TABLE}claims:\n{claims}")
    return Site([read_board(folder / "board.yaml")])


def test_a_claim_stands_beside_the_measured_score(tmp_path: Path) -> None:
    """Inside or outside of its interval; a model's name in any case; none for a score that was not measured."""
    made = site(
        tmp_path,
        "  - {model: ORG/a, source: the paper, scores: {Law: 65.0, Books: 90}}\n"
        "  - {model: org/B, source: the card, scores: {Books: 80}}\n  - {model: org/C, source: x, scores: {Law: 1}}\n",
    )
    table = made.table(made.board("board"))
    a, b = table.rows_of("org/A")[0], table.rows_of("org/B")[0]
    law, books = a.cells["law"].claim, a.cells["books"].claim
    assert law is not None
    assert books is not None
    assert (law.value, law.source, law.is_outside) == (0.65, "the paper", False)
    assert (books.value, books.is_outside) == (0.9, True)
    assert all(cell.claim is None for cell in b.cells.values())
    match = next(row for row in all_rows(table, View(), ()) if row.row.model == "org/A")
    flat = flat_row(match, table.columns)
    assert (flat["law_claimed"], flat["books_claimed"]) == (0.65, 0.9)
    assert "books_claimed" in rows_csv([match], table.columns)
    assert rows_parquet([match], table.columns)
    document = json.loads(json.dumps(shown_json(match, table.columns)))
    assert document["scores"]["books"]["claimed"]["outside_interval"]
    assert replace(a.cells["law"], claim=None).number.value == 0.6


@pytest.mark.parametrize(
    ("claims", "said"),
    [("  - {model: m, scores: {Law: 1}}\n", "claims\\[1\\] lacks its model or source"),
     ("  - {model: m, source: s, scores: {Lwa: 1}}\n", "claims names the column 'Lwa'"),
     ("  - {model: m, source: s, scores: {Law: 900}}\n", "expected per cent, 0 to 100"),
     ("  - {model: m, source: s, scores: {Law: true}}\n", "expected a number for each column"),
     ("  - {model: m, source: s, scores: {Law: high}}\n", "expected a number for each column")],
)  # fmt: skip
def test_faults_name_file_and_key(tmp_path: Path, claims: str, said: str) -> None:
    """A claim without a source, of a column that does not exist, or that is not a number."""
    with pytest.raises(DataError, match=said):
        site(tmp_path, claims)
