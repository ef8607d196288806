"""In a real browser: search, sort, drill down, keyboard only, no JavaScript, 320 px, dark."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.served import Served

pytestmark = pytest.mark.slow
PAGES = ("/boards", "/board/exam", "/board/exam?q=((", "/board/wide", "/board/exam/about", "/board/wide/charts",
         "/board/wide/charts?column=b&against=speed&sort=nope", "/board/exam/charts",
         "/run/{0}", "/run/{0}/samples/plain", "/run/{0}/samples/plain/3", "/compare", "/compare?runs={1},{2}",
         "/task/plain", "/guide", "/recommend", "/model/fake-random-1", "/no-such-page")  # fmt: skip
SMALL_TARGETS = """() => [...document.querySelectorAll("a.pin, button, nav a, thead a, summary, .chip")]
    .filter(e => e.checkVisibility()).filter(e => { const r = e.getBoundingClientRect(); return r.height < 23.9; })
    .map(e => e.outerHTML.slice(0, 160))"""


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
    page.wait_for_function("() => document.querySelectorAll('table.board tbody a.name').length === 2")
    page.click("#sort-plain")
    page.wait_for_url("**sort=-plain*")
    page.wait_for_selector("th[aria-sort=descending] #sort-plain")
    assert page.evaluate("window.kept") is True  # no reload
    page.go_back()
    page.wait_for_selector("th[aria-sort=descending] #sort-average")


def test_an_order_that_could_not_be_loaded_is_opened(browser: Any, served: Served) -> None:
    """A server that fails for a moment does not leave the table in another order than the one that was asked for."""
    page = browser.new_page()
    page.goto(f"{served.url}/board/exam")
    page.route("**/board/exam?*", lambda route: route.fulfill(status=503, body="busy"), times=1)
    page.click("#sort-plain")
    page.wait_for_selector("th[aria-sort=descending] #sort-plain")
    page.close()


def test_from_the_table_to_a_single_answer(open_page: Any) -> None:
    """A score opens its samples, filtered at once, and after Back as the form says; a sample shows its choices."""
    page = open_page("/board/exam")
    page.locator("td.num a[href*='/samples/plain']").first.click()
    page.wait_for_selector("table.samples")
    page.wait_for_load_state()  # the filter is applied by a script
    wrong, verdicts = page.locator("input[name=wrong]"), page.locator("table.samples .verdict")
    wrong.check()
    page.wait_for_url("**wrong=1")
    assert set(verdicts.all_inner_texts()) == {"wrong"}
    page.go_back()
    page.wait_for_url("**/samples/plain")
    page.wait_for_function("() => !document.querySelector('input[name=wrong]').checked")
    assert set(verdicts.all_inner_texts()) == {"right", "wrong"}
    page.fill("#q", '"number 7"')
    page.wait_for_function("() => document.querySelectorAll('table.samples tbody tr').length === 1")
    page.fill("#q", "")
    page.locator("table.samples tbody th a").first.click()
    page.wait_for_selector("table.choices")
    assert page.locator("table.choices tbody tr").count() == 3
    assert "Which letter follows" in page.locator("pre.text").first.inner_text()


def test_without_javascript_everything_is_there(open_page: Any) -> None:
    """The form, the sort links, the pins and the theme work as plain links and a plain form."""
    page = open_page("/board/exam", java_script_enabled=False)
    page.fill("#q", 'prompts:="plain text"')
    with page.expect_navigation():
        page.get_by_role("button", name="Apply").click()
    assert len(names(page)) == 2
    with page.expect_navigation():
        page.click("#sort-plain")
    assert "sort=-plain" in page.url
    assert "q=prompts" in page.url
    with page.expect_navigation():
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


def test_samples_are_read_with_j_and_k_inside_a_filter(open_page: Any, served: Served) -> None:
    """A row has answer and target; j and k move among rows, and on a sample among those that the filter leaves."""

    def wait_for_sample(number: str) -> None:
        page.get_by_role("heading", name=f"plain, sample {number}").wait_for()
        page.wait_for_load_state()  # keys are listened to by the page's script

    page = open_page(f"/run/{served.run_ids[0]}/samples/plain?wrong=1")
    numbers = page.locator("table.samples tbody th").all_inner_texts()
    assert len(numbers) > 3
    assert page.locator("table.samples thead th").all_inner_texts()[-2:] == ["Answer", "Target"]
    assert all(answer != target for answer, target in (
        row.locator("td.reply").all_inner_texts() for row in page.locator("table.samples tbody tr").all()))  # fmt: skip
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") == numbers[0]
    page.keyboard.press("Enter")
    wait_for_sample(numbers[0])
    page.keyboard.press("j")
    wait_for_sample(numbers[1])
    assert "wrong=1" in page.url
    page.keyboard.press("k")
    wait_for_sample(numbers[0])
    assert page.locator("nav.pager a[rel=prev]").count() == 0
    page.keyboard.press("?")
    assert "back to the list" in page.get_by_role("dialog", name="Keys").inner_text()
    page.keyboard.press("Escape")  # closes the keys
    page.keyboard.press("Escape")  # leads to the list, also while the closed dialog still has the focus
    page.wait_for_selector("table.samples")
    assert "wrong=1" in page.url


def test_a_button_copies_what_stands_beside_it(open_page: Any, served: Served) -> None:
    """The prompt of a sample, and a board's command."""
    page = open_page(f"/run/{served.run_ids[0]}/samples/plain/3", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="copy").first.click()
    page.get_by_role("button", name="copied").wait_for()
    prompt = page.locator("pre.text").first.text_content()
    assert page.evaluate("navigator.clipboard.readText()") == prompt
    page.goto(f"{served.url}/board/exam/about")
    page.get_by_role("button", name="copy").first.click()
    page.get_by_role("button", name="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").endswith("--tasks plain.csv,hostile.csv")


def test_a_chart_names_its_nearest_point_and_leads_to_its_model(open_page: Any) -> None:
    """The chart is as wide as its frame, its axes have titles, and the point below the pointer is a link."""
    page = open_page("/board/wide/charts")
    frame = page.locator(".plot:has(a)").last
    svg = frame.locator("svg:not(.narrow)")
    assert svg.bounding_box()["width"] > frame.bounding_box()["width"] - 4
    assert {"Parameters", "Average"} <= set(svg.locator("text").all_text_contents())
    points = svg.locator("a")
    assert points.count() == 129
    points.nth(2).scroll_into_view_if_needed()
    box = points.nth(2).bounding_box()
    title = points.nth(2).locator("title").text_content()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("t => [...document.querySelectorAll('.nearest')].at(-1).textContent === t", arg=title)
    said = "[...document.querySelectorAll('.nearest')].at(-1).textContent"
    svg.locator("a[tabindex='0']").focus()  # one stop of Tab, from which arrows lead to the next points
    assert page.evaluate(said) == points.nth(0).locator("title").text_content()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(said) == points.nth(1).locator("title").text_content()
    box = points.nth(2).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/model/**")


def test_a_finger_near_a_point_opens_it(open_page: Any) -> None:
    """On a touch screen a tap beside a point names it and leads to its model."""
    page = open_page("/board/wide/charts?max=5", viewport={"width": 390, "height": 800}, has_touch=True)
    point = page.locator(".plot svg.narrow").nth(1).locator("a").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.touchscreen.tap(box["x"] - 8, box["y"] - 4)
    page.wait_for_url("**/model/**")


def test_a_bar_is_named_at_both_of_its_ends_and_chosen_by_a_form(open_page: Any) -> None:
    """A long bar is nearest wherever the pointer is on it; the form changes the column and keeps the filters."""
    page = open_page("/board/wide/charts?max=20")
    page.select_option("select[name=column]", "b")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**column=b**")
    assert "params=..20" in page.url
    bars = page.locator(".plot").first.locator("svg:not(.narrow) a")
    assert bars.count() == 30
    bar = bars.nth(5).locator("rect")
    title = bars.nth(5).locator("title").text_content()
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    for x in (box["x"] + 2, box["x"] + box["width"] - 2):
        page.mouse.move(x, box["y"] - 60)  # off it and back
        page.mouse.move(x, box["y"] + box["height"] / 2)
        page.wait_for_function("t => document.querySelector('.nearest').textContent === t", arg=title)
    bar.click()
    page.wait_for_url("**/model/**")


@pytest.mark.parametrize(
    "path",
    [
        "/boards",
        "/board/exam",
        "/board/wide",
        "/board/exam/about",
        "/board/wide/charts?column=b&against=speed&sort=nope",
        "/board/exam/charts",
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
    with page.expect_navigation():  # a page that is not there yet has no body
        page.get_by_role("link", name="light", exact=True).click()
    assert page.evaluate(luminance) > 600


def test_no_finding_of_axe(
    open_page: Any, served: Served, complaints: list[str], axe: Callable[[Any], list[str]]
) -> None:
    """axe-core finds nothing at all on any family of pages, in light and dark; what is pressed is 24 pixels high."""
    for path in PAGES:
        page = open_page(path.format(*served.run_ids), bypass_csp=True)
        assert axe(page) == [], path
        assert page.evaluate(SMALL_TARGETS) == [], path
        page.close()
    assert {line for line in complaints if "404" in line or "400" in line} == set(complaints)
    complaints.clear()  # of the address that there is not


def test_the_pin_stays_where_the_mouse_is_and_keeps_the_focus(open_page: Any) -> None:
    """Pointing at a row's pin does not move it; pressing it pins the row, and the focus stays on it."""
    page = open_page("/board/wide")
    pin = page.locator("a.pin").nth(2)
    before = pin.bounding_box()
    pin.hover()
    assert pin.bounding_box() == before
    assert pin.evaluate("e => getComputedStyle(e).opacity") == "1"
    identity = pin.get_attribute("id")
    pin.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**pin=*")
    page.wait_for_function("() => document.querySelectorAll('tr.pinned').length === 1")
    assert page.evaluate("document.activeElement.id") == identity
    assert page.locator("tr.pinned a.pin").get_attribute("id") == identity


def test_the_head_of_the_choices_stands_above_its_body(open_page: Any, served: Served) -> None:
    """The columns of a sample's choices begin where their titles do."""
    page = open_page(f"/run/{served.run_ids[0]}/samples/plain/3")
    head, body = (page.locator(f"table.choices {part}").bounding_box() for part in ("thead", "tbody"))
    assert head["x"] == body["x"]
    assert head["y"] + head["height"] <= body["y"] + 1
