"""Families of pages beside those of boards in a browser: findings of axe-core, and none is wider than 320 pixels."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.web.app import create_app
from tests.applications.traces.sending import TRACE, receiving
from tests.applications.traces.test_pages import conversation
from tests.leaderboard.pages.test_correlations import board as rated_board  # noqa: F401 - a fixture
from tests.leaderboard.pages.test_queue import SubmissionServer, queue  # noqa: F401 - a fixture
from tests.leaderboard.pages.test_series import site as series_site  # noqa: F401 - a fixture
from tests.served import running
from tests.web.test_answers_browser import chat, study

pytestmark = pytest.mark.slow

Walk = Callable[[Any, pytest.FixtureRequest, Path], Iterator[str]]  # leads a page from one state to the next


def queue_pages(page: Any, request: pytest.FixtureRequest, _: Path) -> Iterator[str]:
    """Submissions that wait, run and have failed, a report, forms, and a moderator's page."""
    behind: SubmissionServer = request.getfixturevalue("queue")
    name = behind.submit(behind.token()).json()["submission"]
    job = SubmissionQueue(behind.store).claim("", 60)
    assert job is not None
    SubmissionQueue(behind.store).fail(job, "submission", "the model's folder has no tokenizer " * 3, "log <img src=x>")
    waiting = behind.submit(behind.token("bob"), model="large").json()["submission"]
    page.goto(f"{behind.url}/sign-in")
    yield "/sign-in"
    page.fill("#account", behind.token("boss", "moderator"))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/queue")
    assert page.get_by_role("button", name="Vote for large").is_visible()
    for path in ("/queue", "/submit", f"/submission/{name}", f"/submission/{waiting}", "/flags", "/flags?model=small",
                 "/moderation"):  # fmt: skip
        page.goto(behind.url + path)
        yield path
    page.goto(f"{behind.url}/submit")
    page.fill("#model", "x,trust_remote_code=True")
    page.get_by_role("button", name="Check and submit").click()
    page.wait_for_selector(".problems")
    yield "/submit with a problem"


def chat_pages(page: Any, _: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """A chat with two answers, and an empty one."""
    with chat(page, folder) as url:
        yield "/chat with answers"
        page.locator("#raw-text").check()
        yield "/chat with raw answers"
        page.goto(f"{url}/chat")
        yield "/chat"


def study_pages(page: Any, _: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """A comparison, raw, and those that come after it, to the end."""
    with study(page, folder):
        yield "a comparison"
        page.locator("#raw-text").check()
        yield "a raw comparison"
        while page.locator(".progress").count():
            page.get_by_role("radio", name="content").check(force=True)
            with page.expect_navigation():
                page.locator(".ballot .choices button").first.click()
        yield "thanks"


def trace_pages(page: Any, _: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """The form for a token, the list, sessions, a trace and one of its steps."""
    with receiving(folder / "traces.sqlite") as receiver:
        assert receiver.send(*conversation()).json() == {}
        page.goto(f"{receiver.url}/traces")
        yield "/traces/sign-in"
        page.fill("input[name=key]", receiver.token)
        page.click("text=Read >> nth=-1")
        page.wait_for_selector("table.traces")
        for path in ("/traces", "/traces/sessions", f"/trace/{TRACE}", f"/trace/{TRACE}?span=0000000000000003"):
            page.goto(receiver.url + path)
            yield path


def series_pages(page: Any, request: pytest.FixtureRequest, _: Path) -> Iterator[str]:
    """Two checkpoints of one training."""
    site: Site = request.getfixturevalue("series_site")
    with running(create_app([board_feature(site)])) as url:
        page.goto(f"{url}/series/train")
        assert page.locator("svg.chart").count() > 0
        yield "/series/train"


def correlation_pages(page: Any, request: pytest.FixtureRequest, _: Path) -> Iterator[str]:
    """A board with ratings."""
    board: Path = request.getfixturevalue("rated_board")
    with running(create_app([board_feature(Site([read_board(board)]))])) as url:
        for path in ("/board/exam/correlations", "/board/exam/charts"):
            page.goto(url + path)
            yield path


WALKS = pytest.mark.parametrize(
    "walk", [queue_pages, chat_pages, study_pages, trace_pages, series_pages, correlation_pages]
)


@WALKS
def test_no_finding_of_axe(
    browser: Any,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    axe: Callable[[Any], list[str]],
    walk: Walk,
) -> None:
    """axe-core finds nothing in any state."""
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(15_000)
    findings = {state: axe(page) for state in walk(page, request, tmp_path)}
    context.close()
    assert findings
    assert {state: lines for state, lines in findings.items() if lines} == {}


@WALKS
def test_at_320_pixels_no_page_scrolls_sideways(
    browser: Any, request: pytest.FixtureRequest, tmp_path: Path, walk: Walk
) -> None:
    """Only tables, charts and code scroll, inside of their frames."""
    context = browser.new_context(viewport={"width": 320, "height": 640})
    page = context.new_page()
    page.set_default_timeout(15_000)
    width = "document.documentElement.scrollWidth"
    widths = {state: page.evaluate(width) for state in walk(page, request, tmp_path)}
    context.close()
    assert widths
    assert {state: pixels for state, pixels in widths.items() if pixels > 320} == {}
