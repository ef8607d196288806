"""The arena and a study in a real browser: by keyboard only, without JavaScript, 320 px wide, two tabs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.ballots import Publishing
from assaymark.arena.battles import Arena
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.routes.arena import arena_feature
from assaymark.arena.routes.studies import studies_feature
from assaymark.arena.studies.results import export_study
from assaymark.arena.studies.sessions import StudySessions, invitations, store_study
from assaymark.arena.studies.study_file import read_study, write_example
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.secret import server_secret
from tests.arena.stored_votes import NO_LIMITS, answers, cast
from tests.served import running

pytestmark = pytest.mark.slow


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    """Return an arena with 150 votes."""
    with Store.open(str(tmp_path / "s.sqlite")) as store:
        result = Arena(store, answers(), NO_LIMITS, Publishing(50, 1e9, 10), seed=1)
        cast(result, 150)
        yield result


@pytest.fixture
def url(arena: Arena) -> Iterator[str]:
    """Serve it."""
    with running(create_app([arena_feature(arena, Ratings(arena.store))])) as result:
        yield result


def is_within(page: Any) -> bool:
    """Return whether a page is not wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scripts", [True, False])
def test_a_battle_by_keyboard(browser: Any, url: str, arena: Arena, width: int, scripts: bool) -> None:
    """Begin and vote with the keyboard alone; names appear after the vote, and nothing is wider than the window."""
    context = browser.new_context(
        viewport={"width": width, "height": 700}, java_script_enabled=scripts, color_scheme="dark"
    )
    page = context.new_page()
    page.goto(f"{url}/arena")
    page.get_by_role("button", name="Start a battle").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/arena/battle/*")
    assert not any(name in page.content() for name in arena.source.models)
    if scripts:
        assert is_within(page)
        page.keyboard.press("2")
    else:
        page.get_by_role("button", name="B is better").focus()
        page.keyboard.press("Enter")
    page.get_by_role("status").wait_for()
    vote = list(ArenaLog(arena.store).votes())[-1]
    assert vote.choice == "b"
    assert f"A was {vote.model_a}, B was {vote.model_b}" in page.get_by_role("status").inner_text()
    if scripts:
        page.wait_for_load_state()  # keys are listened to by the page's script
        page.keyboard.press("n")
        page.get_by_role("button", name="A is better").wait_for()
        page.goto(f"{url}/arena/ratings")
        assert is_within(page)
    context.close()


def test_two_tabs_show_one_vote(browser: Any, url: str, arena: Arena) -> None:
    """The second tab's vote is refused, and reloading shows the first one."""
    context = browser.new_context()
    first, other = context.new_page(), context.new_page()
    first.goto(f"{url}/arena")
    first.get_by_role("button", name="Start a battle").click()
    first.wait_for_url("**/arena/battle/*")
    other.goto(first.url)
    first.get_by_role("button", name="A is better").click()
    first.get_by_role("status").wait_for()
    with other.expect_navigation():
        other.get_by_role("button", name="B is better").click()
    assert "has a vote already" in other.inner_text("main")
    other.goto(first.url)
    assert "A is better" in other.get_by_role("status").inner_text()
    assert [vote.choice for vote in ArenaLog(arena.store).votes(after=150)] == ["a"]
    context.close()


def test_pages_are_accessible(browser: Any, url: str, axe: Callable[[Any], list[str]]) -> None:
    """No serious finding of axe-core on the arena's pages, in light and dark."""
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(f"{url}/arena")
    page.get_by_role("button", name="Start a battle").click()
    page.wait_for_url("**/arena/battle/*")
    for address in (page.url, f"{url}/arena", f"{url}/arena/ratings"):
        page.goto(address)
        assert axe(page) == []
    context.close()


def test_a_study_from_invitation_to_export(browser: Any, tmp_path: Path) -> None:
    """Three raters with the keyboard alone, one of them 320 px wide; the export has all their choices."""
    study = read_study(write_example(tmp_path))
    place = str(tmp_path / "s.sqlite")
    with Store.open(place) as store:
        store_study(store, study, server_secret(), 0.0)
        paths = invitations(store, study.study, server_secret())
        with running(create_app([studies_feature(StudySessions(store))])) as url:
            for width, path in zip((1280, 320, 700), paths.values(), strict=True):
                context = browser.new_context(viewport={"width": width, "height": 700})
                page = context.new_page()
                page.goto(url + path)
                page.get_by_role("checkbox").press("Space")
                page.keyboard.press("Enter")
                page.get_by_role("heading", name="Which answer is better?").wait_for()
                while page.locator(".progress").count():
                    page.wait_for_load_state()  # keys are listened to by the page's script
                    assert is_within(page)
                    page.get_by_role("radio", name="content").press("Space")
                    with page.expect_navigation():
                        page.keyboard.press("3")
                assert "Thank you" in page.inner_text("h1")
                context.close()
    assert export_study("example", tmp_path / "x.jsonl", place) == 8
    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert {(row["winner"], row["reason"]) for row in rows} == {("tie", "content")}
    assert all(row["seconds"] is not None for row in rows)
