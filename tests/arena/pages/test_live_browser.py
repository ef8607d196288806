"""Live battles in a real browser: the demo's models, by keyboard only, 320 px wide, without JavaScript, in two tabs."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assaymark.arena.arena_log import ArenaLog
from assaymark.store import Store
from tests.arena.pages.test_arena_browser import is_within
from tests.arena.pages.test_live_battles import live_arena

pytestmark = pytest.mark.slow

NAMED = re.compile(r"\b(small|large)\b")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Run `assaymark arena serve --demo` as a user does; return its address and its store."""
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("demo")
    words = ["arena", "serve", "--demo", "--store", str(folder / "s.sqlite"), "--port", "0", "--cooldown", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "assaymark", *words, "--cadence", "60"], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "ASSAYMARK_HOME": str(folder / "home"), "ASSAYMARK_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    result = re.search(r"http://[\d.:]+/", process.stdout.readline())
    assert result is not None
    yield result[0].rstrip("/"), folder / "s.sqlite"
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()


@pytest.mark.parametrize("width", [320, 1280])
def test_a_battle_of_the_demo_by_keyboard(browser: Any, demo: tuple[str, Path], width: int) -> None:
    """Begin, ask, ask again, vote and go on with the keyboard alone; names appear after the vote and not before."""
    url, store = demo
    context = browser.new_context(viewport={"width": width, "height": 700})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(url)  # leads to the arena, where the button has the focus
    page.keyboard.press("Enter")
    page.wait_for_url("**/arena/battle/*")
    for question in ("Quinhaven is a town of the east. Quinhaven lies on", "And then?"):
        page.locator("#text").focus()
        page.keyboard.type(question)
        page.keyboard.press("Enter")
        page.locator("[data-events]").wait_for()
        assert page.locator(".ballot").count() == 0
        page.locator(".ballot").wait_for(timeout=30_000)
        results = [*page.locator(".duel h2").all_inner_texts(), page.url, page.title()]
        assert not any(NAMED.search(text) for text in results)
        assert is_within(page)
    page.keyboard.press("2")
    page.locator(".result").wait_for()
    with Store.open(str(store)) as opened:
        vote = list(ArenaLog(opened).votes())[-1]
        assert opened.runs() == []
    assert (vote.choice, vote.is_counted, {vote.model_a, vote.model_b}) == ("b", True, {"small", "large"})
    assert f"A was {vote.model_a}, B was {vote.model_b}" in page.locator(".result").inner_text()
    assert is_within(page)
    page.wait_for_load_state()  # keys are listened to by the page's script
    page.keyboard.press("n")
    page.get_by_role("heading", name="Ask two models").wait_for()
    assert complaints == []
    context.close()


def test_a_suggested_text_is_continued_in_sentences(browser: Any, demo: tuple[str, Path]) -> None:
    """Without a script too: one press asks, and both models of the demo write sentences."""
    url, _ = demo
    for scripts in (True, False):
        context = browser.new_context(java_script_enabled=scripts)
        page = context.new_page()
        page.goto(f"{url}/arena")
        page.get_by_role("button", name="Start a battle").click()
        page.get_by_role("button", name="One evening Berin had to").click()
        page.locator(".ballot").wait_for(timeout=60_000)
        answers = page.locator(".duel .rendered").all_inner_texts()
        assert len(answers) == 2
        assert all(text.count(". ") >= 2 and len(text.split()) > 15 for text in answers), answers
        page.get_by_role("button", name="Skip").click()
        page.get_by_role("heading", name="Ask two models").wait_for()
        context.close()


def test_two_tabs_give_one_vote(browser: Any, demo: tuple[str, Path]) -> None:
    """Both tabs show the same answers while they are written; the second vote is refused."""
    url, _ = demo
    context = browser.new_context()
    first, other = context.new_page(), context.new_page()
    first.goto(url)
    first.get_by_role("button", name="Start a battle").click()
    first.wait_for_url("**/arena/battle/*")
    first.fill("#text", "Where is the road?")
    first.press("#text", "Enter")
    first.locator("[data-events]").wait_for()
    other.goto(first.url)
    for page in (first, other):
        page.locator(".ballot").wait_for(timeout=30_000)
    assert first.locator(".said").all_inner_texts() == other.locator(".said").all_inner_texts()
    first.get_by_role("button", name="A is better").click()
    first.locator(".result").wait_for()
    with other.expect_navigation():
        other.get_by_role("button", name="B is better").click()
    assert "has a vote already" in other.inner_text("main")
    other.goto(first.url)
    assert "A is better" in other.locator(".result").inner_text()
    context.close()


def test_answers_appear_piece_by_piece(browser: Any, tmp_path: Path) -> None:
    """Both sides grow together, as text; a reloaded page goes on with them; a failure is said without names.

    A proxy that fails once, when the answers are complete, does not leave the page waiting.
    """
    with live_arena(tmp_path) as (url, _):
        page = browser.new_page()
        page.goto(url)
        page.get_by_role("button", name="Start a battle").click()
        page.wait_for_url("**/arena/battle/*")
        page.fill("#text", "Where is the ice?")
        page.press("#text", "Enter")
        page.locator("[data-side=a]:has-text('<b>1</b>')").wait_for()  # text of an answer, not markup
        page.reload()
        page.locator("[data-side=b]:has-text('<b>1</b>')").wait_for()
        page.route(page.url, lambda route: route.fulfill(status=502, body="Bad Gateway"), times=1)
        page.locator(".ballot").wait_for(timeout=20_000)
        page.fill("#text", "fail at once")
        page.press("#text", "Enter")
        page.get_by_role("button", name="Next battle").wait_for()
        assert "The battle ends without a vote" in page.inner_text("main")
        assert "walrus" not in page.content()
        page.close()


@pytest.mark.parametrize("scripts", [False, True])
def test_forms(browser: Any, tmp_path: Path, scripts: bool) -> None:
    """With and without JavaScript a question is answered whole and can be voted on by plain buttons.

    With JavaScript a form is sent once, however often its button is pressed before the answer, and again after Stop.
    """
    with live_arena(tmp_path) as (url, _):
        context = browser.new_context(java_script_enabled=scripts)
        page = context.new_page()
        page.goto(url)
        page.get_by_role("button", name="Start a battle").click()
        page.fill("#text", "Where is the ice?")
        page.get_by_role("button", name="Ask both models").click()
        votes: list[Any] = []
        page.route("**/vote", lambda route: votes.append(route) if scripts else route.continue_())  # a slow network
        box = page.get_by_role("button", name="Both are bad").bounding_box()
        with page.expect_request("**/vote"):
            for _ in range(2 if scripts else 1):
                page.mouse.click(box["x"] + 9, box["y"] + 9)
        if scripts:
            while not votes:
                page.wait_for_timeout(20)
            assert len(votes) == 1
            page.context.new_cdp_session(page).send("Page.stopLoading")
            with page.expect_request("**/vote"):
                page.mouse.click(box["x"] + 9, box["y"] + 9)
            while len(votes) < 2:
                page.wait_for_timeout(20)
            votes[1].continue_()
        page.locator(".result").wait_for()
        assert "Both are bad" in page.locator(".result").inner_text()
        context.close()


def test_no_finding_of_axe(browser: Any, tmp_path: Path, axe: Callable[[Any], list[str]]) -> None:
    """axe-core finds nothing on a battle before the question, before the vote and after it."""
    with live_arena(tmp_path) as (url, _):
        context = browser.new_context(bypass_csp=True)
        page = context.new_page()
        page.goto(url)
        assert axe(page) == []
        page.get_by_role("button", name="Start a battle").click()
        page.fill("#text", "Where is the ice?")
        page.get_by_role("button", name="Ask both models").click()
        page.get_by_role("button", name="Both are bad").wait_for()
        assert axe(page) == []
        page.get_by_role("button", name="Both are bad").click()
        page.locator(".result").wait_for()
        assert axe(page) == []
        context.close()
