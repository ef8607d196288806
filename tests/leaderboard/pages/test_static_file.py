"""A static site opened from a disk, as `file:` pages: no server, no request for anything else, and no error."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.store import Store
from tests.served import BOARD, N_PLAIN, write_questions, write_wide

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> Path:
    """Return the exported site of a board of three runs, one of them left out by the board, and of a table."""
    folder = tmp_path_factory.mktemp("static_file")
    write_questions(folder)
    write_wide(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder / "home"))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        patch.chdir(folder)
        for seed in (1, 2, 3):
            assert main(["run", "--model", "fake", "--model_args", f"seed={seed}", "--tasks", "plain.csv,hostile.csv",
                         "--store", "runs.sqlite", "--quiet"]) == 0  # fmt: skip
        [hidden] = [run.run_id for run in Store.open_to_read("runs.sqlite").runs() if run.model == "fake-random-3"]
        (folder / "exam.yaml").write_text(f"{BOARD}runs: {{exclude: ['{hidden}']}}\n")
        assert main(["board", "export", "exam.yaml", "wide.yaml", "-o", "site", "--store", "runs.sqlite"]) == 0
    return folder / "site"


@pytest.fixture
def page(browser: Any, site: Path) -> Iterator[Any]:
    """Return a browser's page without a network; what it complains of or asks for elsewhere fails the test."""
    context = browser.new_context(offline=True)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda line: complaints.append(line.text) if line.type in {"error", "warning"} else None)
    # fmt: off
    opened.on("requestfailed", lambda request: complaints.append(f"{request.failure}: {request.url}")
              if request.failure != "net::ERR_ABORTED" else None)  # an icon, when the next page is opened at once
    opened.on("request", lambda request: complaints.append(request.url)
              if not request.url.startswith(site.as_uri()) else None)
    # fmt: on
    yield opened
    context.close()
    assert complaints == []


def models(page: Any) -> list[str]:
    """Return the models of the table, in order."""
    names: list[str] = page.eval_on_selector_all("table.board tbody a.name", "all => all.map(a => a.textContent)")
    return names


def test_a_board_sorts_and_filters_without_a_server(page: Any, site: Path) -> None:
    """The rows are a script beside the page: search, sort, paging and reload work on a disk."""
    page.goto((site / "index.html").as_uri())
    page.click("text=Wide")
    assert len(models(page)) == 50
    with page.expect_navigation():
        page.click("nav.pager a[rel=next]")
    page.locator("nav.pager", has_text="page 2 of 3").wait_for()
    page.goto((site / "board/wide.html").as_uri())
    page.fill("#q", "Model-12")
    page.wait_for_selector("html[data-rows='11']")
    assert models(page)[0].endswith("Model-12-Instruct-v0.5")
    page.click("#sort-b")
    page.click("#sort-b")
    page.wait_for_url("**sort=b*")
    assert models(page)[0].endswith("Model-129-Instruct-v0.3")
    before = models(page)
    page.reload()
    page.wait_for_selector("html[data-rows='11']")
    assert models(page) == before
    uses = page.eval_on_selector_all("table.board use", "all => all.map(use => use.getBoundingClientRect().width)")
    assert len(uses) == 11
    assert all(width > 5 for width in uses)  # icons are drawn: the page holds them


def test_a_run_its_samples_and_a_comparison_can_be_read(page: Any, site: Path) -> None:
    """From the board to a model, a run, a sample and a comparison of two models, by links alone."""
    page.goto((site / "board/exam.html").as_uri())
    with page.expect_navigation():
        page.click("table.board tbody a.name >> text=fake-random-2")
    assert page.inner_text("h1") == "fake-random-2"
    with page.expect_navigation():
        page.click("table[aria-label='Runs'] th a, [aria-label='Runs'] tbody th a")
    assert page.inner_text("h1").startswith("Run ")
    with page.expect_navigation():
        page.click("text=compare with another run")
    with page.expect_navigation():
        page.click("main a:has-text('fake-random-1')")
    assert "fake-random-2" in page.inner_text("main")
    assert "Answers that changed" in page.inner_text("main")
    page.click("[aria-label='Answers that changed'] td a >> nth=0")
    assert "Which letter follows number" in page.inner_text("article:target")
    with page.expect_navigation():
        page.click("text=All samples")
    assert page.locator("table.samples tbody tr").count() == 50
    with page.expect_navigation():
        page.click("nav.pager a[rel=next]")
    assert page.locator("table.samples tbody tr").count() == N_PLAIN - 50
    assert page.locator("form").count() == 0


def test_charts_are_drawn_and_name_the_nearest_point(page: Any, site: Path) -> None:
    """Each chart of the board has its marks, other columns are links, and the script names what a pointer is at."""
    page.goto((site / "board/wide.html").as_uri())
    with page.expect_navigation():
        page.click("nav.tabs >> text=Charts")
    assert page.locator("svg.chart").count() >= 3
    assert page.locator("svg.chart rect.mark").count() > 5
    assert page.locator("svg.chart circle.mark").count() > 50
    page.hover("svg.chart a >> nth=3")
    assert "Model-" in page.inner_text(".nearest >> nth=0")
    with page.expect_navigation():
        page.get_by_role("link", name="B", exact=True).click()
    assert page.inner_text("main h2 >> nth=0") == "B"


def test_the_guide_and_recommendations_are_part_of_it(page: Any, site: Path) -> None:
    """The guide leads to a capability's recommendation and to a benchmark; conditions are said to need a server."""
    page.goto((site / "index.html").as_uri())
    page.click("header >> text=Guide")
    with page.expect_navigation():
        page.click("text=Models for it >> nth=0")
    assert page.inner_text("h1") == "Recommend a model"
    assert "A copy in files has one page for each capability" in page.inner_text("main")
    page.go_back()
    page.click("section table th a >> nth=0")
    assert "Samples" in page.inner_text("dl.facts")


def test_every_kind_of_page_opens_without_a_complaint(page: Any, site: Path) -> None:
    """The first and the last page of each folder log no error and ask for nothing that is not in the site."""
    by_folder: dict[Path, list[Path]] = {}
    for path in sorted(site.rglob("*.html")):
        by_folder.setdefault(path.parent, []).append(path)
    assert len(by_folder) > 10
    for path in {path for paths in by_folder.values() for path in (paths[0], paths[-1])}:
        page.goto(path.as_uri())
        assert page.locator("main h1").count() == 1, path


def test_what_a_board_leaves_out_is_in_no_file(site: Path) -> None:
    """The run that the board excludes is neither a row nor offered for comparison."""
    for path in site.rglob("*"):
        assert not path.is_file() or b"fake-random-3" not in path.read_bytes(), path
    listed = (site / "compare.html").read_text()
    assert set(re.findall(r"fake-random-\d", listed)) == {"fake-random-1", "fake-random-2"}
