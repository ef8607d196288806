"""The page on the correlation of a board's benchmarks with its ratings, on a real server and in a static site."""

import json
from pathlib import Path

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.web.app import create_app
from tests.leaderboard.test_rating_columns import RATINGS, SCORES
from tests.served import running


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Return a board with ratings."""
    (tmp_path / "scores.csv").write_text(SCORES)
    (tmp_path / "arena.csv").write_text(RATINGS)
    place = tmp_path / "exam.yaml"
    place.write_text(
        "title: Exam\ntable: {file: scores.csv, columns: {Law: Law, Loss: Loss}}\n"
        "ratings: {file: arena.csv, column: 'Arena <b>'}\n"
    )
    return place


def test_page_twin_and_command_have_the_same_numbers(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page names each benchmark with coefficient, interval and n; its JSON is the command's; titles are escaped."""
    with running(create_app([board_feature(Site([read_board(board)]))])) as url, httpx.Client(base_url=url) as client:
        page = client.get("/board/exam/correlations")
        twin = client.get("/board/exam/correlations.json").json()
        table = client.get("/board/exam").text
    assert page.status_code == 200
    for text in ("Arena &lt;b&gt;", "1.00", "-1.00", "7 of its 7 models"):
        assert text in page.text
    assert "Arena <b>" not in page.text
    assert '/board/exam/correlations">Correlations</a>' in table
    assert "1,009" in table or "1009" in table
    assert main(["board", "correlations", str(board), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == twin["correlations"]
    assert main(["board", "correlations", str(board)]) == 0
    assert "1.00 to 1.00" in capsys.readouterr().out


def test_a_board_without_ratings_says_how_to_add_them(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page says it without an error, has no tab on the table, and the command exits with 2."""
    board.write_text(board.read_text().split("ratings:")[0])
    with running(create_app([board_feature(Site([read_board(board)]))])) as url, httpx.Client(base_url=url) as client:
        page = client.get("/board/exam/correlations")
        assert "/correlations" not in client.get("/board/exam").text
    assert page.status_code == 200
    assert "The board has no ratings; add" in page.text
    assert main(["board", "correlations", str(board)]) == 2
    assert "ratings: {file" in capsys.readouterr().err


def test_the_static_site_has_the_page(board: Path, tmp_path: Path) -> None:
    """An exported board has the correlations, linked from its table."""
    assert main(["board", "export", str(board), "-o", str(tmp_path / "site")]) == 0
    pages = list((tmp_path / "site").rglob("correlations.html"))
    assert len(pages) == 1
    assert "Spearman" in pages[0].read_text()
    assert "correlations.html" in (tmp_path / "site/index.html").read_text()
