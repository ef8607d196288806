"""Boards, pages of runs, samples and comparisons show an application's runs as any others."""

from pathlib import Path
from typing import Any

import httpx
import pytest

import assaymark

pytest.importorskip("uvicorn")

from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import running

ROWS = [
    {
        "inputs": {"question": f"<b>{number}</b> + 1?"},
        "expected": str(number + 1),
        "metadata": {"category": ("even sums", "odd sums")[number % 2]},
    }
    for number in range(12)
]


def adds(question: str) -> str:
    """Answer all but one question."""
    number = int(question.removeprefix("<b>").partition("<")[0])
    if number == 7:
        raise ValueError("<i>seven</i>")
    return str(number + 1)


def adds_badly(question: str) -> dict[str, Any]:
    """Answer with a mapping that is wrong for every other question."""
    number = int(question.removeprefix("<b>").partition("<")[0])
    return {"answer": str(number + 1 + number % 2), "contexts": ["<script>alert(1)</script>"]}


def mood(output: str) -> str:
    """Return a label."""
    return "<u>odd</u>" if int(output) % 2 else "even"


def test_a_label_is_beside_its_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On its page and in the terminal, as the text that it is; a label alone is neither right nor wrong."""
    place = str(tmp_path / "runs.sqlite")
    run = assaymark.evaluate(adds, ROWS, scorers=[mood], store=place)
    with running(create_app([board_feature(Site([], StoredRuns(Store.open_to_read(place))))])) as url:
        page = httpx.get(f"{url}/run/{run.id}/samples/rows/0", timeout=30).text
    assert "<span>mood <b>&lt;u&gt;odd&lt;/u&gt;</b></span>" in page
    assert main(["show", run.id, "--store", place, "--samples", "rows"]) == 0
    printed = capsys.readouterr().out
    assert "mood even" in printed
    assert "right" not in printed


def test_the_pages_of_an_application(tmp_path: Path) -> None:
    """Each page has the names, scores and answers; texts of rows and of targets are shown, never run."""
    place = str(tmp_path / "runs.sqlite")
    first = assaymark.evaluate(adds, ROWS, scorers=["exact"], store=place)
    second = assaymark.evaluate(adds_badly, ROWS, scorers=["exact"], store=place, version="bad")
    (tmp_path / "board.yaml").write_text("title: Apps\nname: apps\ntasks:\n- {task: rows, column: Sums}\n")
    runs = StoredRuns(Store.open_to_read(place))
    app = create_app([board_feature(Site([read_board(tmp_path / "board.yaml")], runs))])
    pages = {
        "/board/apps": ["adds_badly@bad", "100.0", "Sums"],
        f"/run/{first.id}": ["adds", "exact"],
        f"/run/{second.id}/samples/rows": ["&lt;b&gt;1&lt;/b&gt; + 1?", "even sums"],
        f"/run/{second.id}/samples/rows/1": ["&#34;answer&#34;", "&lt;script&gt;"],
        f"/run/{first.id}/samples/rows/7": ["ValueError", "&lt;i&gt;seven"],
        f"/compare?runs={first.id},{second.id}": [
            "adds_badly@bad",
            "Rows, those that got worse first",
            "latency_s",
            "&lt;i&gt;seven",
            "&lt;script&gt;",
            f"/run/{second.id}/samples/rows/7",
            "exact 1 → 0",
        ],
    }
    with running(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        for path, expected in pages.items():
            page = client.get(path)
            assert page.status_code == 200, (path, page.text[:2000])
            assert [text for text in expected if text not in page.text] == [], (path, page.text[-6000:])
            assert "<script>alert" not in page.text
        twin = client.get(f"/compare.json?runs={first.id},{second.id}").json()
        gains = [row["gain"] for row in twin["rows"][second.id]]
        assert (len(gains), gains[0], gains) == (12, -1.0, sorted(gains))
