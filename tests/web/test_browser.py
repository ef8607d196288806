"""In a real browser: search, sort, drill down, keyboard only, no JavaScript, 320 px, dark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Served

pytestmark = pytest.mark.slow
FINDINGS = """axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))
    .map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ').slice(0, 300)))"""
PAGES = ("/boards", "/board/exam", "/board/exam/about", "/board/wide/charts", "/run/{0}", "/run/{0}/samples/plain/3",
         "/recommend", "/model/fake-random-1")  # fmt: skip
AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def complaints() -> list[str]:
    """Collect what the browser complains of."""
    return []


@pytest.fixture
def open_page(browser: Any, served: Served, complaints: list[str]) -> Iterator[Any]:
    """Return a function that opens an address in a fresh context with these options; nothing may be complained of."""
    contexts = []

    def opened(path: str, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in {"error", "warning"} else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if served.url not in request.url else None)
        page.goto(served.url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def names(page: Any) -> list[str]:
    """Return the names of the table's models, in order."""
    return [str(text) for text in page.locator("table.board tbody a.name").all_inner_texts()]


def test_search_and_sort_change_the_table_and_the_address(open_page: Any) -> None:
    """Typing filters without a reload; a click on a heading sorts; both can be undone with the back button."""
    page = open_page("/board/exam")
    assert len(names(page)) == 3
    page.evaluate("window.kept = true")
    page.fill("#q", 'prompts:="plain text"')
    page.wait_for_url("**q=prompts*")
    page.wait_for_function("document.querySelectorAll('table.board tbody a.name').length === 2")
    page.click("#sort-plain")
    page.wait_for_url("**sort=-plain*")
    page.wait_for_selector("th[aria-sort=descending] #sort-plain")
    assert page.evaluate("window.kept") is True  # no reload
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending] #sort-average")


def test_from_the_table_to_a_single_answer(open_page: Any) -> None:
    """A score opens its samples, wrong ones are filtered, a sample shows its choices."""
    page = open_page("/board/exam")
    page.locator("td.num a[href*='/samples/plain']").first.click()
    page.wait_for_selector("table.samples")
    page.locator("input[name=wrong]").check()
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**wrong=1*")
    page.locator("table.samples tbody th a").first.click()
    page.wait_for_selector("table.choices")
    assert page.locator("table.choices tbody tr").count() == 3
    assert "Which letter follows" in page.locator("pre.text").first.inner_text()


def test_without_javascript_everything_is_there(open_page: Any) -> None:
    """The form, the sort links, the pins and the theme work as plain links and a plain form."""
    page = open_page("/board/exam", java_script_enabled=False)
    page.fill("#q", 'prompts:="plain text"')
    page.get_by_role("button", name="Apply").click()
    assert len(names(page)) == 2
    page.click("#sort-plain")
    assert "sort=-plain" in page.url
    assert "q=prompts" in page.url
    page.get_by_role("link", name="dark", exact=True).click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert "sort=-plain" in page.url


def test_with_the_keyboard_alone(open_page: Any) -> None:
    """Tab reaches the skip link first, then search; a filter and a model's page work with Enter and Space."""
    page = open_page("/board/exam")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "q":
            break
    page.keyboard.type("fake")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=fake*")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('name')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/model/**")


@pytest.mark.parametrize(
    "path",
    [
        "/boards",
        "/board/exam",
        "/board/wide",
        "/board/exam/about",
        "/run/{0}",
        "/run/{0}/samples/plain",
        "/run/{0}/samples/plain/3",
        "/compare?runs={1},{2}",
        "/task/plain",
        "/model/fake-random-1",
    ],
)
def test_at_320_pixels_no_page_scrolls_sideways(open_page: Any, served: Served, path: str) -> None:
    """Only tables scroll, inside of their frames."""
    page = open_page(path.format(*served.run_ids), viewport={"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_dark_follows_the_system_and_can_be_chosen(open_page: Any) -> None:
    """The background is dark under a dark system, and light again when light is chosen."""
    page = open_page("/board/exam", color_scheme="dark")
    luminance = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    assert page.evaluate(luminance) < 150
    page.get_by_role("link", name="light", exact=True).click()
    assert page.evaluate(luminance) > 600


def test_no_serious_finding_of_axe(open_page: Any, served: Served) -> None:
    """axe-core finds nothing serious or critical on any family of pages, in light and dark."""
    if not AXE.is_file():
        pytest.skip(f"no {AXE}; install it with: npm install --no-save axe-core")
    for scheme in ("light", "dark"):
        for path in PAGES:
            page = open_page(path.format(*served.run_ids), color_scheme=scheme, bypass_csp=True)
            page.add_script_tag(path=str(AXE))
            found = page.evaluate(FINDINGS)
            assert found == [], (path, scheme)
