"""A static site in a real browser: filters find what the server finds; every row is there without JavaScript."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.exports import found_rows
from assaymark.leaderboard.pages.board import board_page
from assaymark.leaderboard.shown import all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.static.export import export_site
from assaymark.leaderboard.view import HIDDEN_BY
from tests.leaderboard.pages.test_static_export import serving

pytestmark = pytest.mark.slow
N_ROWS = 240
QUERIES = (
    *(
        "llama",
        "LLAMA; gemma",
        "llama license:apache-2.0",
        "license:mit",
        "license:mit; llama; qwen",
        "@license:mit; llama",
    ),
    *("type:chat params:<8", "-merged:true qwen", "params:7", "params:7.5", "params:3..9", "params:..5", "average:>60"),
    *(
        "law:<=40",
        "law:=50",
        "date:2025-03",
        "date:>2025-06",
        "date:<=2025-06-15",
        "precision:bf16",
        "precision:float16",
    ),
    *(
        "license:=mit",
        "license:apache",
        "type:ft -license:llama3",
        '"org1/llama"',
        "moe:no",
        "-law:>50",
        "params:>=7B x",
    ),
    *("model:gemma", "base:org", "sha:abc", "license:2.0"),
)
WRONG = ("nothing:1", "params:many", "merged:perhaps", "type:odd", "date:soon", "license:<3", "params:")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a board file of a table with names, facts and gaps of every kind."""
    folder = tmp_path_factory.mktemp("static_browser")
    with (folder / "scores.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "params", "license", "type", "precision", "merged", "date", "base", "Law", "Books"])
        for at in range(N_ROWS):
            rows.writerow(
                [f"Org{at % 7}/{('Llama', 'qwen', 'Gemma')[at % 3]}-{at}",
                 "" if at % 11 == 0 else round(0.37 * (at % 40), 2),
                 ("mit", "apache-2.0", "Llama3", "")[at % 4], ("chat", "base", "merge", "finetuned", "odd")[at % 5],
                 ("bf16", "float16", "")[at % 3], ("true", "false", "")[at % 3],
                 f"2025-{1 + at % 12:02}-{1 + at % 28:02}",
                 f"org{at % 5}/base", 20 + (at * 37) % 71, "" if at % 13 == 0 else 10 + (at * 53) % 83]
            )  # fmt: skip
    (folder / "board.yaml").write_text(
        "title: Table\ntable: {file: scores.csv, format: csv, columns: {Law: Law, Books: Books}, "
        "sizes: {Law: 500, Books: 200}}\n"
    )
    return folder / "board.yaml"


@pytest.fixture(scope="module")
def url(board: Path) -> Iterator[str]:
    """Serve the exported site as files."""
    done = export_site([read_board(board)], None, board.parent / "site")
    assert done.n_written == done.n_files
    with serving(board.parent / "site") as result:
        yield result


def shown_models(page: Any) -> list[str]:
    """Return the models of the table, in order."""
    names: list[str] = page.eval_on_selector_all("table.board tbody a.name", "all => all.map(one => one.textContent)")
    return names


def test_searches_and_orders_find_what_the_server_finds(browser: Any, url: str, board: Path) -> None:
    """The script's search language and order are those of the server, over every page of the result."""
    site = Site([read_board(board)])
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    wrong = []
    for at, query in enumerate(QUERIES):
        sort = ("-average", "model", "law", "-params", "type", "-date", "licence")[at % 7]
        _, rows, _ = found_rows(site, query, sort)
        expected = [row.row.model for row in rows]
        page.goto(f"{url}/index.html?{urlencode({'q': query, 'sort': sort, 'per': 100})}")
        page.wait_for_selector("html[data-rows]")
        assert page.locator(".problems[role=alert]").count() == 0, (
            query,
            page.locator(".problems[role=alert]").first.inner_text(),
        )
        result, number = shown_models(page), 1
        while page.locator("nav.pager a[rel=next]").count():
            number += 1
            page.locator("nav.pager a[rel=next]").click()
            page.locator("nav.pager", has_text=f"page {number} of").wait_for()
            result += shown_models(page)
        if result != expected:
            wrong.append((query, sort, len(result), len(expected)))
    assert wrong == []
    assert complaints == []


def test_every_filter_leaves_the_same_rows_everywhere(
    browser: Any, url: str, board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The live page, its JSON, the static site, the command line and the search agree on each filter."""
    site = Site([read_board(board)])
    page = browser.new_page()
    of_kind = {"merged": "-merged:true", "moe": "-moe:true", "flagged": "-flagged:true", "unavailable": "-available:no"}
    filters = [({"hide": key}, ["--hide", key], of_kind.get(key, "")) for key in HIDDEN_BY if key != "baselines"]
    filters += [({"types": "merge"}, ["type:merge"], ""), ({"precisions": "bf16"}, ["precision:bf16"], ""),
                ({"params": "3..9"}, ["params:3..9"], ""), ({"origins": "published"}, ["origin:published"], ""),
                ({"origins": "measured"}, ["origin:measured"], "")]  # fmt: skip
    sizes = set()
    for parameters, words, search in filters:
        live = board_page(site, "board", list(parameters.items()))
        names = {row.row.model for row in all_rows(live.table, live.view, live.board.shown_columns)}
        document = live.to_json()
        assert isinstance(document, dict)
        assert document["n_matching"] == len(names)
        page.goto(f"{url}/index.html?{urlencode(parameters)}")
        page.wait_for_selector("html[data-rows]")
        assert page.evaluate("document.documentElement.dataset.rows") == str(len(names)), parameters
        capsys.readouterr()
        assert main(["board", "query", str(board), *words, "--json"]) == 0
        assert {row["model"] for row in json.loads(capsys.readouterr().out)} == names, parameters
        if search:
            assert {row.row.model for row in found_rows(site, search, "-average")[1]} == names, parameters
        sizes.add(len(names))
    assert len(sizes) > 3


def test_a_search_that_cannot_be_read_is_reported(browser: Any, url: str) -> None:
    """The reason stands above the table, which shows all rows."""
    page = browser.new_page()
    for query in WRONG:
        page.goto(f"{url}/index.html?q={query}")
        page.wait_for_selector("html[data-rows]")
        assert page.locator(".problems[role=alert]").inner_text().startswith("search: "), query
        assert page.evaluate("document.documentElement.dataset.rows") == str(N_ROWS)


def test_typing_filtering_and_sorting_by_hand(browser: Any, url: str) -> None:
    """What a reader types and clicks changes the table and the address; the address alone shows the same."""
    page = browser.new_page()
    page.goto(f"{url}/index.html")
    page.fill("#q", "llama")
    page.wait_for_selector("html[data-rows='80']")
    page.click("label.chip:has(input[name=types][value=chat])")
    page.wait_for_selector("html[data-rows='16']")
    page.click("#sort-law")
    page.wait_for_url("**sort=-law*")
    before = shown_models(page)
    assert len(before) == 16
    page.reload()
    page.wait_for_selector("html[data-rows='16']")
    assert shown_models(page) == before
    assert page.input_value("#q") == "llama"


def test_without_javascript_every_row_is_on_a_page(browser: Any, url: str) -> None:
    """The page says what filters need; following Next shows all rows."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{url}/index.html")
    assert "need JavaScript" in page.inner_text("main")
    results = [each.inner_text() for each in page.locator("table.board tbody a.name").all()]
    while page.locator("nav.pager a[rel=next]").count():
        with page.expect_navigation():  # else the page that is left may be read
            page.locator("nav.pager a[rel=next]").click()
        results += [item.inner_text() for item in page.locator("table.board tbody a.name").all()]
    assert len({"".join(result.split()) for result in results}) == N_ROWS
    context.close()
