"""The two published tables of the Open LLM Leaderboard, and plain CSV files, become boards."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from assaymark.errors import DataError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.board_init import number_headings, write_board
from assaymark.leaderboard.published import board_of_table, read_published
from assaymark.leaderboard.query import parse_query, search_keys
from assaymark.leaderboard.table import BoardTable

FILES = {"open-llm-v1": "open_llm_v1_2024-07-13.csv", "open-llm-v2": "open_llm_v2_2025-03-21.csv"}


def published(shared_dir: Path, tmp_path: Path, form: str) -> tuple[BoardTable, list[dict[str, str]]]:
    """Return a published table as a board's, and the records of its file."""
    file = shared_dir / "data" / "arena" / "openllm" / FILES[form]
    if not file.is_file():
        pytest.skip(f"no {file}: published tables are not part of the repository")
    place = tmp_path / "board.yaml"
    place.write_text(f"title: Published\ntable: {{file: {file}, format: {form}}}\n")
    board = read_board(place)
    assert board.table is not None
    with file.open(newline="") as lines:
        return read_published(board, board.table), list(csv.DictReader(lines))


def test_the_first_table_has_its_rows_types_and_precisions(shared_dir: Path, tmp_path: Path) -> None:
    """7,169 rows with the counts that were taken from the file by other means."""
    table, _ = published(shared_dir, tmp_path, "open-llm-v1")
    assert len(table.rows) == 7169
    assert len(table.places) == 7169
    types = Counter(row.facts["type"] for row in table.rows)
    assert types == {"finetuned": 4114, "chat": 1412, "merge": 1009, "pretrained": 392, "unknown": 175, "continued": 67}
    precisions = Counter(row.facts.get("precision") for row in table.rows)
    assert (precisions["float16"], precisions["bfloat16"], precisions["4bit"]) == (4104, 2932, 92)
    assert sum(row.facts.get("flagged") is True for row in table.rows) == 109  # the file's column is inverted


@pytest.mark.slow
def test_the_first_tables_averages_follow_their_rule(shared_dir: Path, tmp_path: Path) -> None:
    """Each average is the mean of six, within what rounding seven numbers to 0.01 allows."""
    table, _ = published(shared_dir, tmp_path, "open-llm-v1")
    worst = max(
        abs(row.average.stated - row.average.number.value)
        for row in table.rows
        if row.average is not None and row.average.stated is not None
    )
    assert 0.00008 < worst < 0.0000835
    assert table.issues == ()


@pytest.mark.slow
def test_the_second_tables_averages_and_columns_are_recomputed(shared_dir: Path, tmp_path: Path) -> None:
    """4,576 rows: averages to 1e-9, and the four columns whose rule needs no subtasks to 1e-9 of a point."""
    table, records = published(shared_dir, tmp_path, "open-llm-v2")
    assert len(table.rows) == len(records) == 4576
    for row, record in zip(table.rows, records, strict=True):
        assert row.average is not None
        assert abs(100 * row.average.number.value - float(record["model_average_score"])) < 1e-9
        gpqa = row.cells["gpqa"]
        assert gpqa.raw is not None
        assert abs(gpqa.number.value - max(0.0, (gpqa.raw.value - 0.25) / 0.75)) < 1e-11
    assert table.issues == ()
    by_name = {row.model: row for row in table.rows}
    assert by_name["CohereForAI/aya-expanse-32b"].facts["available"] is True  # the file's column is inverted


def test_a_row_that_disagrees_with_its_tables_rule_is_listed(shared_dir: Path, tmp_path: Path) -> None:
    """A changed average and a changed column are each named; what the rule gives is what ranks."""
    _, records = published(shared_dir, tmp_path, "open-llm-v2")
    some = [dict(record) for record in records[:5]]
    some[1]["model_average_score"] = "99"
    some[3]["evaluations_gpqa_normalized_score"] = "50"
    file = tmp_path / "changed.csv"
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, list(some[0]))
        writer.writeheader()
        writer.writerows(some)
    place = tmp_path / "changed.yaml"
    place.write_text("table: {file: changed.csv, format: open-llm-v2}\n")
    board = read_board(place)
    assert board.table is not None
    table = read_published(board, board.table)
    assert [issue.model for issue in table.issues] == [
        some[1]["model_name"],
        some[3]["model_name"],
        some[3]["model_name"],
    ]
    assert "average is 99" in table.issues[0].what
    assert "GPQA is 50" in table.issues[1].what
    average = table.rows[1].average
    assert average is not None
    assert average.number.value < 0.6
    assert average.stated == 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "n"),
    [("params:<8 -merged:true", 1788), ("type:chat", 718), ("llama; mistral", 997)],
)
def test_searches_of_the_second_table_find_what_a_plain_loop_finds(
    shared_dir: Path, tmp_path: Path, query: str, n: int
) -> None:
    """The index and a loop over the file's records agree on real rows."""
    table, records = published(shared_dir, tmp_path, "open-llm-v2")
    result = table.index.matching(parse_query(query, search_keys({c.key: c.title for c in table.columns})))

    def fulfils(record: dict[str, str]) -> bool:
        name = record["model_name"].lower()
        if query == "type:chat":
            return record["model_type"] == "chatmodels"
        if query == "llama; mistral":
            return "llama" in name or "mistral" in name
        size = float(record["metadata_params_billions"])
        return 0 < size < 8 and record["features_is_merged"] != "TRUE"

    wanted = [fulfils(record) for record in records]
    assert result.tolist() == wanted
    assert sum(wanted) == n


def test_a_plain_csv_becomes_a_table_with_intervals(tmp_path: Path) -> None:
    """Shares with a number of questions get Wilson's interval; an empty cell stays empty and the average is partial."""
    (tmp_path / "scores.csv").write_text("model,Law,Books,params,type\na/b,60,80.5%,7,chat\nc/d,50,,1.5,base\n")
    place = tmp_path / "board.yaml"
    place.write_text("table:\n  file: scores.csv\n  columns: {Law: Law, Books: Books}\n  sizes: {Law: 100}\n")
    board = read_board(place)
    assert board.table is not None
    table = read_published(board, board.table)
    first, second = table.rows
    law = first.cells["law"].number
    assert law.low is not None
    assert (law.value, round(law.low, 4), first.cells["law"].n) == (0.6, 0.502, 100)  # Wilson 1927 by hand
    assert first.cells["books"].number.low is None
    assert "books" not in second.cells
    assert second.average is not None
    assert second.average.n_columns == 1
    assert (second.facts["type"], second.facts["params"]) == ("pretrained", 1.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,Law\na,sixty\n", "line 2: Law is 'sixty'; expected a number"),
        ("name,Law\na,60\n", "has no column 'model'"),
        ("model,Law\na,1e999\n", "expected a number"),
        ("model,Law\na,60\nb,1e308\n", "line 3: Law is 1e308; expected a share from 0 to 100"),
        ("model,Law\na,200\n", "line 2: Law is 200; expected a share from 0 to 100"),
        ("model,Law\na,-5%\n", "line 2: Law is -5%; expected a share from 0 to 100"),
        ("model,Law\na," + "9" * 200_000 + "\n", "is not a CSV file"),
    ],
)
def test_a_faulty_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """What was found, where, and what was expected."""
    (tmp_path / "scores.csv").write_text(text)
    place = tmp_path / "board.yaml"
    place.write_text("table: {file: scores.csv, columns: {Law: Law}}\n")
    board = read_board(place)
    assert board.table is not None
    with pytest.raises(DataError, match=said) as raised:
        read_published(board, board.table)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,Law,Law\na,50,70\n", "has two columns 'Law'; expected one heading for each column"),
        ("model,Law\na,50\nb,40,3\n", "line 3: has more cells than the first line has headings"),
    ],
)
def test_no_cell_of_a_table_is_lost(tmp_path: Path, text: str, said: str) -> None:
    """A second column of one name, and a cell beyond the last heading, are no scores that may vanish."""
    (tmp_path / "scores.csv").write_text(text)
    (tmp_path / "board.yaml").write_text("table: {file: scores.csv, columns: {Law: Law}}\n")
    board = read_board(tmp_path / "board.yaml")
    assert board.table is not None
    with pytest.raises(DataError, match=said):
        read_published(board, board.table)


def test_a_share_beyond_one_is_one_line(tmp_path: Path) -> None:
    """Where 0.63 stands for 63%, 63 is refused with the remedy; 0, 1 and what rounding adds are accepted."""
    place = tmp_path / "board.yaml"
    place.write_text("table: {file: scores.csv, columns: {Law: Law}, per_cent: false}\n")
    (tmp_path / "scores.csv").write_text("model,Law\na,0\nb,1\nc,1.0000000000000002\n")
    board = read_board(place)
    assert board.table is not None
    assert [row.cells["law"].number.value for row in read_published(board, board.table).rows][:2] == [0.0, 1.0]
    (tmp_path / "scores.csv").write_text("model,Law\na,63.4\n")
    with pytest.raises(DataError, match=r"line 2: Law is 63.4; expected a share from 0 to 1 \(.*per_cent: true\)"):
        read_published(board, board.table)


def test_init_leaves_out_columns_that_hold_no_shares(tmp_path: Path) -> None:
    """Ratings and years are no scores; a column with one impossible value among shares is, and is then reported."""
    file = tmp_path / "scores.csv"
    file.write_text("model,Elo,Year,Law,Books\na,1201,2024,60,70\nb,1100,2023,50,700\n")
    assert number_headings(file) == ["Law", "Books"]


@pytest.mark.parametrize(("cell", "expected"), [("0.9", 0.9), ("1", 1.0), ("0.9%", 0.009), ("1.5", 0.015)])
def test_init_says_whether_shares_are_in_per_cent(tmp_path: Path, cell: str, expected: float) -> None:
    """0.9 beside 0.4 is 90%, and 0.9% of scores in per cent; the table alone is read the same way."""
    file = tmp_path / "scores.csv"
    file.write_text(f"model,Law,Year\na,{cell},2024\nb,0.4,2024\n")
    write_board(tmp_path / "board.yaml", suite=None, tasks=(), table=str(file), title=None)
    for board in (read_board(tmp_path / "board.yaml"), board_of_table(file)):
        assert board.table is not None
        assert read_published(board, board.table).rows[0].cells["law"].number.value == pytest.approx(expected)
