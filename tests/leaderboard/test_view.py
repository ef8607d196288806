"""A reader's choices and the query string they stand in."""

from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.columns import FACTS_BY_KEY, MODEL_TYPES, ORIGINS
from assaymark.leaderboard.rows import Average, BoardRow, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.shown import all_rows, show_table
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import HIDDEN_BY, PAGE_SIZES, View, parse_view

SCORES = ("arc", "gsm8k")
NAMES = (*FACTS_BY_KEY, *SCORES, "average")
sizes = st.none() | st.integers(0, 2000).map(float)
views = st.builds(
    View,
    q=st.text(st.characters(codec="utf-8"), max_size=30).map(str.strip),
    types=st.lists(st.sampled_from([each.key for each in MODEL_TYPES]), unique=True).map(
        lambda keys: tuple(item.key for item in MODEL_TYPES if item.key in keys)
    ),
    precisions=st.lists(st.sampled_from(["bfloat16", "float16", "GPTQ"]), unique=True).map(tuple),
    origins=st.lists(st.sampled_from(list(ORIGINS)), unique=True).map(
        lambda keys: tuple(key for key in ORIGINS if key in keys)
    ),
    params=st.tuples(sizes, sizes),
    hide=st.lists(st.sampled_from(list(HIDDEN_BY)), unique=True).map(tuple),
    cols=st.none() | st.lists(st.sampled_from(NAMES), unique=True).map(tuple),
    sort=st.sampled_from(["-average", "average", "-arc", "model", "-params"]),
    scale=st.sampled_from(["norm", "raw"]),
    rank=st.sampled_from(["static", "filtered"]),
    average=st.sampled_from(["all", "visible"]),
    pins=st.lists(st.from_regex(r"[a-f0-9]{12}", fullmatch=True), max_size=3, unique=True).map(tuple),
    page=st.integers(1, 999),
    per=st.sampled_from(PAGE_SIZES),
)


@given(views)
def test_every_choice_is_in_the_url(view: View) -> None:
    """A view's query string leads to the same view: a link shows what its sender saw."""
    read = parse_view(parse_qsl(view.query(page=view.page).removeprefix("?"), keep_blank_values=True), SCORES)
    assert read == view
    assert read.problems == ()


def test_the_default_view_has_no_parameters() -> None:
    """The plain address is the board's own view."""
    assert View().pairs() == []


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("colour", "red")], "unknown parameter 'colour'"),
        ([("types", "robot")], "unknown type 'robot'"),
        ([("params", "7")], "is not a range"),
        ([("params", "1..x")], "is not a number"),
        ([("sort", "'; DROP TABLE runs; --")], "is not known"),
        ([("page", "-1")], "is not a page"),
        ([("per", "100000")], "is not known"),
        ([("pin", "<script>")], "expected at most"),
        ([("q", "x" * 5000)], "at most 2,000 are read"),
        ([("cols", "arc,nothing")], "is not known"),
    ],
)
def test_what_cannot_be_read_is_reported_and_its_default_taken(pairs: list[tuple[str, str]], said: str) -> None:
    """No parameter is ignored silently."""
    view = parse_view(pairs, SCORES)
    assert said in " ".join(view.problems)
    assert view.pairs() == []


def test_the_two_fields_of_the_form_are_one_range() -> None:
    """`min` and `max` come from a form without JavaScript; the canonical link has one parameter."""
    view = parse_view([("min", "3"), ("max", ""), ("types", "chat"), ("types", "merge")], SCORES)
    assert view.pairs() == [("types", "chat,merge"), ("params", "3..")]


def test_another_choice_leads_to_the_first_page() -> None:
    """Page 7 of one filter is not page 7 of another; a pin keeps the page."""
    view = View(page=7)
    assert view.query(types=("chat",)) == "?types=chat"
    assert view.pinning("abc") == "?pin=abc&page=7"


def test_averages_of_different_columns_are_never_ordered(tmp_path: Path) -> None:
    """Complete rows come first, then rows with the same columns together, most columns first; baselines last."""
    (tmp_path / "scores.csv").write_text(
        "model,A,B,C\nthree-low,10,10,10\nthree-high,40,40,40\ntwo-ab,70,70,\none-c,,,99\ntwo-bc-high,,90,90\n"
        "two-bc-low,,5,5\ntwo-ab-best,80,80,\n"
    )
    (tmp_path / "board.yaml").write_text(
        "title: T\ntable: {file: scores.csv, format: csv, columns: {A: A, B: B, C: C}}\n"
        "baselines:\n  - {name: Human, source: paper, scores: {A: 95}}\n"
        "  - {name: All, source: paper, scores: {A: 9, B: 9, C: 9}}\n"
    )
    site = Site([read_board(tmp_path / "board.yaml")])
    board = site.board("board")
    table = site.table(board)
    rows = all_rows(table, View(), board.shown_columns)
    assert [row.row.model for row in rows] == [
        "three-high", "three-low", "two-ab-best", "two-ab", "two-bc-high", "two-bc-low", "one-c", "All", "Human",
    ]  # fmt: skip
    worst_first = [each.row.model for each in all_rows(table, View(sort="average"), board.shown_columns)]
    assert worst_first[:4] == ["three-low", "three-high", "two-ab", "two-ab-best"]
    assert worst_first[-2:] == ["All", "Human"]
    starts = [item.row.model for item in show_table(table, View(), board.shown_columns).rows if item.new_tier]
    assert starts == ["two-ab-best", "two-bc-high", "one-c", "All", "Human"]
    by_column = [result.row.model for result in all_rows(table, View(sort="-a"), board.shown_columns)]
    assert by_column[:3] == ["Human", "two-ab-best", "two-ab"]


def test_pinned_rows_stand_in_the_order_of_the_rows() -> None:
    """By the average, and the other way round; a pinned row that the search leaves out comes after them."""
    averages = {"low": 0.2, "high": 0.9, "middle": 0.5}
    rows = [
        BoardRow(name, name, "measured", {"a": RowScore(IntervalValue(value))}, Average(IntervalValue(value), 1))
        for name, value in averages.items()
    ]
    table = BoardTable((ScoreColumn("a", "A"),), tuple(rows))

    def pinned(sort: str = "-average", q: str = "") -> list[str]:
        shown = show_table(table, View(sort=sort, q=q, pins=("low", "middle", "high")), ())
        return [row.row.model for row in shown.rows if row.pinned]

    assert pinned() == ["high", "middle", "low"]
    assert pinned(sort="a") == ["low", "middle", "high"]
    assert pinned(q="middle") == ["middle", "low", "high"]
