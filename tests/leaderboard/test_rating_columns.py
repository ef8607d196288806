"""Ratings as columns of a board, and the benchmarks' correlation with them."""

from pathlib import Path

import pytest

from assaymark.errors import DataError, UsageError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.correlations import BenchmarkCorrelation, board_correlations
from assaymark.leaderboard.rating_columns import rating_columns
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable

SCORES = "model,Law,Loss\n" + "".join(f"org/M{n},{10 * n},{90 - 9 * n}\n" for n in range(1, 9))
RATINGS = "model,rating,low,high\n" + "".join(f"ORG/m{n},{1000 + n * n},{990 + n * n},\n" for n in range(2, 9))


def listed_correlations(table: BoardTable) -> list[BenchmarkCorrelation]:
    """Return the correlations with all ratings."""
    return [each for rows in board_correlations(table).ratings.values() for each in rows]


def table_of(folder: Path, ratings: str, **files: str) -> BoardTable:
    """Return a board's table with these ratings and files beside it."""
    (folder / "scores.csv").write_text(SCORES)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    place = folder / "board.yaml"
    place.write_text(f"title: T\ntable: {{file: scores.csv, columns: {{Law: Law, Loss: Loss}}}}\nratings: {ratings}\n")
    board = read_board(place)
    return Site([board]).table(board)


def test_open_llm_v2_and_the_arena(shared_dir: Path, tmp_path: Path) -> None:
    """Over 58 models, scipy's coefficients of each benchmark with the arena; MATH has the highest, MuSR the lowest."""
    stats = pytest.importorskip("scipy.stats")
    file = shared_dir / "data/arena/openllm/merged_v2_arena_2025-06-06.csv"
    place = tmp_path / "board.yaml"
    place.write_text(
        f"title: T\ntable: {{file: {file}, format: open-llm-v2}}\n"
        f"ratings: {{file: {file}, column: Arena, model: model_name, rating: arena_score}}\n"
    )
    board = read_board(place)
    table = Site([board]).table(board)
    actual = listed_correlations(table)
    assert [each.n for each in actual] == [58] * 7
    assert (actual[0].benchmark_title, actual[-1].benchmark_title) == ("MATH Lvl 5", "MuSR")
    assert {item.benchmark_title for item in actual} == {
        "Average", *(column.title for column in table.columns[:-1])
    }  # fmt: skip
    scores: dict[str, list[tuple[float, float]]] = {}
    for row in table.rows:
        scores.setdefault(row.model, []).append((row.cells["ifeval"].number.value, row.cells["arena"].number.value))
    pairs = [tuple(sum(values) / len(values) for values in zip(*of, strict=True)) for of in scores.values()]
    ifeval = next(result for result in actual if result.benchmark == "ifeval")
    result, other = zip(*pairs, strict=True)
    assert ifeval.spearman.value == pytest.approx(stats.spearmanr(result, other).statistic)
    assert ifeval.pearson.value == pytest.approx(stats.pearsonr(result, other).statistic)
    assert ifeval.spearman.low is not None
    assert ifeval.spearman.high is not None
    assert ifeval.spearman.value is not None
    assert ifeval.spearman.low < ifeval.spearman.value < ifeval.spearman.high
    assert actual[0].spearman.value == pytest.approx(0.725, abs=5e-4)


def test_a_file_of_ratings_is_a_column_outside_of_the_average(tmp_path: Path) -> None:
    """Names match whatever their case; averages and the number of averaged columns are those without ratings."""
    table = table_of(tmp_path, "{file: arena.csv, column: Arena}", arena=RATINGS)
    column = rating_columns(table)[0]
    assert (column.title, column.is_share, column.weight) == ("Arena", False, 0.0)
    assert "7 of its 7 models" in column.note
    by_model = {row.model: row for row in table.rows}
    assert "arena" not in by_model["org/M1"].cells
    number = by_model["org/M3"].cells["arena"].number
    assert (number.value, number.low, number.high) == (1009.0, None, None)  # one end is not an interval
    assert table.n_averaged == 2
    average = by_model["org/M3"].average
    assert average is not None
    assert average.number.value == pytest.approx((0.3 + 0.63) / 2)
    law, loss = (
        next(correlation for correlation in listed_correlations(table) if correlation.benchmark == name)
        for name in ("law", "loss")
    )
    assert law.n == 7
    assert (law.spearman.value, loss.spearman.value) == pytest.approx((1.0, -1.0))
    assert listed_correlations(table)[-1].benchmark == "loss"


def test_a_file_of_votes_is_rated(tmp_path: Path) -> None:
    """Votes give Bradley-Terry ratings with intervals; several files give several columns."""
    votes = "model_a,model_b,winner,prompt\n" + "".join(
        f"org/M{1 + n % 3},org/M{1 + (n + 1) % 3},{('model_a', 'model_b', 'tie')[n % 7 % 3]},{n}\n" for n in range(60)
    )
    listed = "[{file: arena.csv, column: Arena}, {file: judge.csv, column: Judge}]"
    table = table_of(tmp_path, listed, arena=RATINGS, judge=votes)
    arena, judge = rating_columns(table)
    assert judge.note.startswith("Bradley-Terry on 60 votes, intervals by prompt; 3 of its 3 models")
    cells = [row.cells["judge"] for row in table.rows if "judge" in row.cells]
    assert len(cells) == 3
    assert sum(cell.number.value for cell in cells) / 3 == pytest.approx(1000.0)
    assert all(cell.number.low is not None and cell.n == 40 for cell in cells)
    actual = listed_correlations(table)
    assert [each.n for each in actual if each.rating == judge.key] == [3, 3, 3]
    assert all(item.spearman.low is None for item in actual if item.rating == judge.key)
    assert {result.rating for result in actual} == {arena.key, judge.key}


def test_the_votes_of_one_language_are_a_column(tmp_path: Path) -> None:
    """Beside the column of all votes; a language with few votes says so."""
    votes = "model_a,model_b,winner,language\n" + "".join(
        f"org/M{1 + n % 3},org/M{1 + (n + 1) % 3},{('model_a', 'model_b', 'tie')[n % 7 % 3]},"
        f"{('French', 'English')[n % 2]}\n"
        for n in range(60)
    )
    listed = "[{file: votes.csv, column: Arena}, {file: votes.csv, language: French}]"
    table = table_of(tmp_path, listed, votes=votes)
    whole, french = rating_columns(table)
    assert (whole.title, french.title) == ("Arena", "Rating, French")
    assert whole.note.startswith("Bradley-Terry on 60 votes, intervals by")
    assert french.note.startswith("Bradley-Terry on 30 votes in French; fewer than 500 say little, intervals by")
    assert {row.cells[french.key].n for row in table.rows if french.key in row.cells} == {20}


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """The table and its version follow the file of ratings."""
    first = table_of(tmp_path, "{file: arena.csv, column: Arena}", arena=RATINGS)
    board = read_board(tmp_path / "board.yaml")
    site = Site([board])
    assert site.table(board).version == first.version
    (tmp_path / "arena.csv").write_text(RATINGS.replace("1004", "2004"))
    again = site.table(board)
    assert again.version != first.version
    assert max(row.cells["arena"].number.value for row in again.rows if "arena" in row.cells) == 2004


@pytest.mark.parametrize(
    ("ratings", "text", "said"),
    [
        ("{file: gone.csv}", "", "does not exist"),
        ("arena.csv", RATINGS, "expected file: and column:"),
        ("{file: arena.csv, colum: X}", RATINGS, "unknown key 'colum'; nearest: column"),
        ("[{file: arena.csv}, {file: arena.csv}]", RATINGS, "expected different ones"),
        ("{file: arena.csv, column: Law}", RATINGS, "which is also a score"),
        (
            "{file: arena.csv, column: A}",
            "name,points\nx,1\n",
            "has no columns model and rating, and is not a file of votes",
        ),
        ("{file: arena.csv, column: A}", "model,rating\norg/M1,high\n", "line 2: rating is 'high'; expected a number"),
        ("{file: arena.csv, column: A}", "model,rating\nb,1\nB,2\n", "line 3: b has another rating before"),
        (
            "{file: arena.csv, column: A}",
            "model,rating,low,high\nb,5,9,1\n",
            "line 2: rating is 5, and not from low 9 to high 1",
        ),
        ("{file: arena.csv, column: A}", "", "is not a file of votes"),
        ("{file: arena.csv, language: French}", RATINGS, "has ratings and no votes, so none in French"),
        (
            "{file: arena.csv, language: Frensh}",
            "model_a,model_b,winner,language\na,b,model_a,French\n",
            "arena.csv: unknown language in this file 'Frensh'; nearest: French",
        ),
    ],
)
def test_each_fault_of_ratings_is_one_line(tmp_path: Path, ratings: str, text: str, said: str) -> None:
    """What is wrong with the key or its file is said with the file's name and what was expected."""
    with pytest.raises(DataError) as caught:
        table_of(tmp_path, ratings, **({} if "gone" in ratings else {"arena": text}))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ".yaml" in str(caught.value) or ".csv" in str(caught.value) or "also a score" in str(caught.value)


def test_a_board_without_ratings_has_no_correlations(tmp_path: Path) -> None:
    """The error says what to add to the board's file."""
    with pytest.raises(UsageError, match=r"ratings: \{file"):
        board_correlations(table_of(tmp_path, "[]"))
