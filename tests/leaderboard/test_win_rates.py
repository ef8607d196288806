"""`board win-rates`: HELM's mean win rate of stored runs, with intervals where the samples are stored."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

import assaymark
from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.win_rates import board_win_rates, with_win_rates
from assaymark.models.fake import FakeModel
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import running

N = 60


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A board of three models on two tasks, one of which the last model lacks."""
    monkeypatch.chdir(tmp_path)
    for name in ("plants", "stars"):
        rows = [{"question": f"{name} {at}?", "choices": ["a", "b", "c"], "answer": at % 3} for at in range(N)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for accuracy, tasks in (
        (0.9, "plants.jsonl,stars.jsonl"),
        (0.6, "plants.jsonl,stars.jsonl"),
        (0.2, "plants.jsonl"),
    ):
        model = FakeModel(mode="gold", accuracy=accuracy, seed=int(10 * accuracy))
        assaymark.evaluate(model, tasks, store=str(tmp_path / "s.sqlite"), perturb="lowercase,space")
    (tmp_path / "board.yaml").write_text("title: Fields\ntasks: [{task: plants}, {task: stars}]\n")
    return tmp_path / "board.yaml"


def test_rates_follow_the_columns_values(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two columns, one of which a model lacks, the rates are those computed by hand; intervals contain them."""
    assert main(["board", "win-rates", str(board), "--store", str(board.parent / "s.sqlite"), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    rates = [row["mean_win_rate"] for row in output["models"]]
    assert [row["n_columns"] for row in output["models"]] == [2, 2, 1]
    assert rates == pytest.approx([1.0, np.mean([0.5, 0.0]), 0.0])
    assert output["why_no_intervals"] is None
    assert all(row["low"] <= row["mean_win_rate"] <= row["high"] for row in output["models"])
    assert all(row["mean_low"] < row["mean"] < row["mean_high"] for row in output["models"])
    assert output["order"] == {"n_models": 3, "n_pairs": 3, "n_dependent": 0}


def test_ratings_count_in_no_win_rate(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column of ratings changes neither rates nor intervals: it counts in no average."""
    command = ["board", "win-rates", str(board), "--store", str(board.parent / "s.sqlite"), "--json"]
    assert main(command) == 0
    plain = json.loads(capsys.readouterr().out)
    (board.parent / "votes.csv").write_text(f"model,rating\n{plain['models'][-1]['model']},2000\n")
    board.write_text(board.read_text() + "ratings: [{file: votes.csv, column: Arena}]\n")
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == plain


def test_the_terminal_says_how_the_order_depends_on_others(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the table is the number of pairs that change places; copies of perturbed samples are no columns."""
    assert main(["board", "win-rates", str(board), "--store", str(board.parent / "s.sqlite")]) == 0
    printed = capsys.readouterr().out
    assert "0 of 3 pairs of the best 3 models change places" in printed
    assert "~" not in printed
    assert "mean score" in printed


@pytest.mark.slow
def test_the_page_its_twin_and_the_static_site_have_the_commands_numbers(
    board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`win_rates: true` in the board's file adds a tab; without it the page says how to have it."""
    store = str(board.parent / "s.sqlite")
    assert main(["board", "win-rates", str(board), "--store", store, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    with Store.open(store) as opened:
        plain = create_app([board_feature(Site([read_board(board)], StoredRuns(opened)))])
        with running(plain) as url, httpx.Client(base_url=url) as client:
            assert "win_rates: true" in client.get("/board/board/win-rates").text
            assert "/win-rates" not in client.get("/board/board").text
        board.write_text(board.read_text() + "win_rates: true\n")
        asked = create_app([board_feature(Site([read_board(board)], StoredRuns(opened)))])
        with running(asked) as url, httpx.Client(base_url=url) as client:
            page = client.get("/board/board/win-rates")
            assert client.get("/board/board/win-rates.json").json()["win_rates"] == printed
            assert 'href="/board/board/win-rates"' in client.get("/board/board").text
    assert page.status_code == 200
    assert "0 of 3 pairs of the best 3 models change places" in page.text
    assert "100.0%" in page.text
    site = board.parent / "site"
    assert main(["board", "export", str(board), "-o", str(site), "--store", store]) == 0
    exported = next(path for path in site.rglob("*.html") if "win-rates" in str(path))
    assert "100.0%" in exported.read_text()


def test_both_aggregates_are_columns_of_the_table_and_of_downloads(
    board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The columns sort, have the command's numbers and intervals everywhere, and change neither average nor rank."""
    store = str(board.parent / "s.sqlite")
    assert main(["board", "win-rates", str(board), "--store", store, "--json"]) == 0
    printed = {row["model"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    with Store.open(store) as opened:
        plain = create_app([board_feature(Site([read_board(board)], StoredRuns(opened)))])
        with TestClient(plain, base_url="http://127.0.0.1") as client:
            before = client.get("/board/board.json").json()
            assert "mean-win-rate" not in client.get("/board/board.csv").text
        board.write_text(board.read_text() + "win_rates: true\n")
        asked = create_app([board_feature(Site([read_board(board)], StoredRuns(opened)))])
        with TestClient(asked, base_url="http://127.0.0.1") as client:
            made = client.get("/board/board.json").json()
            rows = list(csv.DictReader(client.get("/board/board.csv").text.splitlines()))
            lines = [json.loads(line) for line in client.get("/board/board.jsonl").text.splitlines()]
            ordered = client.get("/board/board.json", params={"sort": "mean-win-rate"}).json()["rows"]
            page = client.get("/board/board").text
            assert client.get("/board/board/win-rates.json").json()["win_rates"]["models"] == [*printed.values()]
    assert [column["title"] for column in made["columns"]] == ["Mean win rate", "Mean score", "plants", "stars"]
    assert {row["origin"] for row in made["rows"] if "mean-win-rate" not in row["scores"]} <= {"baseline"}
    for row in [each for each in made["rows"] if each["model"] in printed]:
        rate = row["scores"]["mean-win-rate"]
        of_model = printed[row["model"]]
        assert [rate["value"], rate["low"], rate["high"]] == [of_model[key] for key in ("mean_win_rate", "low", "high")]
        assert "resampled" in rate["method"]
        mean = row["scores"]["mean-score"]
        assert [mean["value"], mean["low"], mean["high"]] == [
            of_model[key] for key in ("mean", "mean_low", "mean_high")
        ]
    for flat in [each for each in (*rows, *lines) if each["model"] in printed]:
        assert float(flat["mean-win-rate"]) == printed[flat["model"]]["mean_win_rate"]
        assert float(flat["mean-win-rate_low"]) == printed[flat["model"]]["low"]
        assert float(flat["mean-score"]) == printed[flat["model"]]["mean"]
        assert float(flat["mean-score_high"]) == printed[flat["model"]]["mean_high"]
    own = [(row["rank"], row["average"]) for row in before["rows"]]
    assert [(row["rank"], row["average"]) for row in made["rows"]] == own
    rates = [row["scores"]["mean-win-rate"]["value"] for row in ordered if row["model"] in printed]
    assert rates == sorted(rates)
    assert 'id="sort-mean-win-rate"' in page
    assert 'title="mean of plants: not ordered' in page


@pytest.mark.parametrize("title", ["Mean win rate", "Mean score"])
def test_a_score_with_the_columns_title_is_refused(board: Path, title: str) -> None:
    """A column of the board that has the title already is named."""
    board.write_text(f"title: Fields\ntasks: [{{task: plants, column: {title}}}]\nwin_rates: true\n")
    with Store.open(str(board.parent / "s.sqlite")) as opened:
        site = Site([read_board(board)], StoredRuns(opened))
        with pytest.raises(DataError, match=f"'{title}', which is also a score; choose another title"):
            site.table(site.board("board"))


def test_columns_of_both_directions_have_no_mean_score(tmp_path: Path) -> None:
    """HELM refuses to average them; here the win rate's column stands alone, without a mean on its page."""
    (tmp_path / "t.csv").write_text("model,Law,Errors\na,0.5,0.1\nb,0.4,0.2\n")
    (tmp_path / "two.yaml").write_text("title: Two\ntable: {file: t.csv, columns: {Law: Law, Errors: Errors}}\n")
    site = Site([read_board(tmp_path / "two.yaml")])
    table = site.table(site.board("two"))
    assert [column.title for column in with_win_rates(table, None).columns][:2] == ["Mean win rate", "Mean score"]
    law, errors = table.columns
    mixed = replace(table, columns=(law, replace(errors, higher_is_better=False)))
    assert [column.title for column in with_win_rates(mixed, None).columns] == ["Mean win rate", "Law", "Errors"]
    assert [each.mean for each in board_win_rates(mixed, None).models] == [None, None]


def test_a_board_of_one_model_says_why_it_has_no_rates(tmp_path: Path) -> None:
    """A win rate needs another model; the page says so in place of a table."""
    (tmp_path / "t.csv").write_text("model,Law\na,0.5\n")
    (tmp_path / "one.yaml").write_text("title: One\ntable: {file: t.csv, columns: {Law: Law}}\nwin_rates: true\n")
    app = create_app([board_feature(Site([read_board(tmp_path / "one.yaml")]))])
    with running(app) as url, httpx.Client(base_url=url) as client:
        assert "The board has 1 model; win rates need at least two." in client.get("/board/one/win-rates").text
