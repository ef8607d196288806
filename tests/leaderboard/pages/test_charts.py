"""A board's bars and its front, as parameters of the page of charts and in its twin, on a real server."""

from pathlib import Path

import httpx

from assaymark.leaderboard.board import Board
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.rows import BoardRow, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable
from assaymark.web.app import create_app
from tests.served import running


def test_bars_of_a_column_and_the_measure_are_parameters(client: httpx.Client) -> None:
    """Bars are the column's values in the table; the choice stays in the links; a wrong one is said, not ignored."""
    twin = client.get("/board/wide/charts.json?column=b&max=20").json()
    table = client.get("/board/wide.json?sort=-b&max=20&per=50").json()
    values = [(row["model"], row["scores"]["b"]["value"]) for row in table["rows"]][:30]
    assert [(bar["model"], bar["number"]["value"]) for bar in twin["bars"]] == values
    assert (twin["column"]["key"], twin["problems"]) == ("b", [])
    page = client.get("/board/wide/charts?column=b&max=20").text
    assert 'charts.json?params=..20&amp;column=b"' in page
    assert '<option value="b" selected>' in page
    for query, said in (
        ("column=average_", "column: &#39;average_&#39; is not known; nearest: average"),
        ("column=%3Cscript%3E", "column: &#39;&lt;script&gt;&#39; is not known; there are: average, a, b"),
        ("against=colour", "against: &#39;colour&#39; is not known; there are: params, speed, price"),
        ("sort=nope", "sort: &#39;nope&#39; is not known"),
    ):
        wrong = client.get(f"/board/wide/charts?{query}")
        assert wrong.status_code == 200
        assert said in wrong.text
        assert "The first 30 rows" in wrong.text  # the default is drawn
    speeds = client.get("/board/exam/charts.json?against=speed").json()
    assert speeds["against"] == {"key": "speed", "title": "Tokens per second", "higher_is_better": True}


def test_averages_are_set_against_prices_and_unknown_ones_are_said(tmp_path: Path) -> None:
    """Four models, three of them with prices in the file of the board: a front of two, and a line for the rest."""
    (tmp_path / "table.csv").write_text("model,A,params\no/a,80,1\no/b,60,2\no/c,70,3\no/d,90,4\n")
    prices = {"o/a": (2, 10), "o/b": (3, 9), "o/c": (0.1, 0.3)}
    lines = [f"  {model}: {{read: {read}, generated: {generated}, source: <b>page</b>, date: 2026-10-01}}\n"
             for model, (read, generated) in prices.items()]  # fmt: skip
    (tmp_path / "board.yaml").write_text(
        "title: P\ncolumns: [price, price_source]\ntable: {file: table.csv, columns: {A: A}}\nprices:\n"
        + "".join(lines)
    )
    site = Site([read_board(tmp_path / "board.yaml")])
    with running(create_app([board_feature(site)])) as url, httpx.Client(base_url=url) as client:
        page = client.get("/board/board/charts?against=price").text
        twin = client.get("/board/board/charts.json?against=price").json()
        table = client.get("/board/board").text
        rows = client.get("/board/board.json?q=price:<2").json()["rows"]
    measured = [(model["model"], model["measure"], model["is_on_front"]) for model in twin["score_against"]]
    assert measured == [("o/c", 0.15, True), ("o/a", 4.0, True), ("o/b", 4.5, False)]
    assert twin["n_left_out"] == 1
    assert "<h2>Average against price</h2>" in page
    assert "Left out: 1 row without a known price above zero." in page
    assert "o/a: 80.0, 4 dollars per million tokens" in page
    assert "2 read, 10 generated, stated, 2026-10-01, &lt;b&gt;page&lt;/b&gt;" in table
    assert [row["model"] for row in rows] == ["o/c"]


class LossSite(Site):
    """A site whose table has one column in a unit of its own, of which less is better."""

    def table(self, board: Board) -> BoardTable:
        """Return three models by their loss."""
        column = ScoreColumn("loss", "Loss <b>", is_share=False, higher_is_better=False)
        values = {"org/a": 3.5, "org/b": 1.25, "org/c": 2.0}
        rows = [
            BoardRow(
                f"row-{place}",
                model,
                "measured",
                {"loss": RowScore(IntervalValue(value, value - 0.5, value + 0.5))},
                None,
            )
            for place, (model, value) in enumerate(values.items())
        ]
        return BoardTable((column,), tuple(rows), version="1")


def test_bars_of_a_column_where_lower_is_better_say_so(tmp_path: Path) -> None:
    """The lowest stands at the top, on the page and in the twin; the title is text."""
    (tmp_path / "loss.yaml").write_text("title: Loss\ntasks: [demo_facts]\n")
    site = LossSite([read_board(tmp_path / "loss.yaml")])
    with running(create_app([board_feature(site)])) as url, httpx.Client(base_url=url) as client:
        page = client.get("/board/loss/charts?column=loss").text
        twin = client.get("/board/loss/charts.json?column=loss").json()
        averages = client.get("/board/loss/charts").text
    assert "<b>lower is better</b>" in page
    assert "Loss &lt;b&gt; (lower is better)</text>" in page
    assert "Loss <b>" not in page
    assert [bar["model"] for bar in twin["bars"]] == ["org/b", "org/c", "org/a"]
    assert twin["column"] == {"key": "loss", "title": "Loss <b>", "is_share": False, "higher_is_better": False}
    assert page.index("org/b</text>") < page.index("org/c</text>") < page.index("org/a</text>")
    assert "No row with an average" in averages


def test_charts_of_incomplete_rows_compare_what_has_the_same_columns(tmp_path: Path) -> None:
    """No row is complete: the averages are of the two with most columns, beside the baseline with just these."""
    lines = ["model,A,B,C", "o/a,80,70,", "o/b,60,75,", "o/c,,,90", "o/d,99,,"]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "board.yaml").write_text(
        "title: P\ntable: {file: table.csv, columns: {A: A, B: B, C: C}}\nbaselines:\n"
        "  - {name: Same, source: x, scores: {A: 25, B: 25}}\n  - {name: Other, source: x, scores: {A: 25}}\n"
    )
    site = Site([read_board(tmp_path / "board.yaml")])
    with running(create_app([board_feature(site)])) as url, httpx.Client(base_url=url) as client:
        page = client.get("/board/board/charts").text
        twin = client.get("/board/board/charts.json").json()
        of_c = client.get("/board/board/charts.json?column=c").json()
        nobody = client.get("/board/board/charts.json?q=o/nobody").json()
    assert [bar["model"] for bar in twin["bars"]] == ["o/a", "o/b", "Same"]
    assert twin["n_averaged"] == 2
    assert "4 rows. No row has every score: averages are of the rows with the same 2 of 3 benchmarks." in page
    assert [bar["model"] for bar in of_c["bars"]] == ["o/c"]
    assert nobody["bars"] == []  # no baseline stands alone
