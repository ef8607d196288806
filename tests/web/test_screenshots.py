"""Screenshots of each kind of page beside the committed ones: normal, hovered, 320 pixels, dark, without a script.

Tolerated: pictures are averaged over blocks of 4 x 4 pixels; a block differs where a channel is more than 40 of 255
levels off, and at most 1% of a picture's blocks may differ. That covers another smoothing of letters and another
version of the same font. Where the browser's own font is not DejaVu Sans, which Debian's Chromium brings, lines have
other widths, and nothing is compared: the tests are skipped with that reason. Dates, times, hashes and the command of a
run are replaced by constant ones. `make screenshots` writes the pictures again; look at what changed before you commit
them. A missing Chromium skips the tests, and fails them where the environment variable CI is set.
"""

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
import pytest
from PIL import Image

from assaymark.documents.pdf import find_browser
from tests.served import Served
from tests.web.test_narrow_charts import ratings_url  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

COMMITTED = Path(__file__).resolve().parent / "screenshots"
RENEW = bool(os.environ.get("RENEW_SCREENSHOTS"))
BLOCK, LEVELS, SHARE = 4, 40, 0.01  # pixels, of 255, of blocks
COLOURS = 48  # of a committed picture
LINE_WIDTH = 273.6  # pixels of a line in DejaVu Sans
WIDE, NARROW = {"width": 1000, "height": 700}, {"width": 320, "height": 640}
STEADY = """() => {
  const commands = document.querySelectorAll("pre.command, .copied + .note code");
  for (const command of commands) command.textContent = "assaymark run";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) walker.currentNode.textContent = walker.currentNode.textContent
    .replace(/\\d{4}-\\d\\d-\\d\\d/g, "2026-01-01").replace(/\\b\\d\\d:\\d\\d\\b/g, "00:00")
    .replace(/\\b(?=[0-9a-f]*\\d)[0-9a-f]{8,}\\b/g, hash => "0".repeat(hash.length));
}"""
PAGES = {
    "boards": "/boards", "board": "/board/exam", "about": "/board/exam/about", "charts": "/board/wide/charts",
    "run": "/run/{0}", "samples": "/run/{0}/samples/plain", "sample": "/run/{0}/samples/plain/3",
    "compare": "/compare?runs={1},{2}", "choose": "/compare", "model": "/model/fake-random-1", "task": "/task/plain",
    "guide": "/guide", "recommend": "/recommend", "missing": "/no-such-page",
}  # fmt: skip
VARIANTS: dict[str, tuple[str, dict[str, Any], str]] = {  # address, options of the window, what the pointer is on
    **{name: (path, {"viewport": WIDE}, "") for name, path in PAGES.items()},
    "board-hover": ("/board/wide", {"viewport": WIDE}, "table.board tbody tr:nth-child(3) a.pin"),
    "charts-hover": ("/board/wide/charts", {"viewport": WIDE}, "svg.chart:not(.narrow) a:nth-of-type(4)"),
    "board-narrow": ("/board/wide", {"viewport": NARROW}, ""),
    "charts-narrow": ("/board/wide/charts", {"viewport": NARROW}, ""),
    "sample-narrow": ("/run/{0}/samples/plain/3", {"viewport": NARROW}, ""),
    "board-dark": ("/board/exam", {"viewport": WIDE, "color_scheme": "dark"}, ""),
    "charts-dark": ("/board/wide/charts", {"viewport": WIDE, "color_scheme": "dark"}, ""),
    "board-no-script": ("/board/exam", {"viewport": WIDE, "java_script_enabled": False}, ""),
}


@pytest.fixture(scope="module", autouse=True)
def chromium_in_ci() -> None:
    """Fail where CI has no Chromium, which would skip every test here."""
    if os.environ.get("CI") and find_browser() is None:
        pytest.fail("CI has no Chromium, so no screenshot is compared; install one")


@pytest.fixture(scope="module", autouse=True)
def same_fonts(browser: Any) -> None:
    """Skip where a line in the browser's own font is not as wide as in the committed pictures."""
    page = browser.new_page()
    page.set_content('<span id="line" style="font: 16px system-ui">The quick brown fox, 0123456789</span>')
    width = page.evaluate("document.getElementById('line').getBoundingClientRect().width")
    page.close()
    if abs(width - LINE_WIDTH) > 1:
        pytest.skip(f"the browser's font is another one: a line has {width:.1f} pixels, expected {LINE_WIDTH:.1f}")


def picture(browser: Any, url: str, options: dict[str, Any], pointer: str = "", style: str = "") -> Image.Image:
    """Return a picture of one window of a page, with constant dates and hashes."""
    context = browser.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    page.goto(url)
    page.evaluate(STEADY)
    if style:
        page.add_style_tag(content=style)
    if pointer:
        page.hover(pointer)
    body = page.screenshot(animations="disabled", caret="hide")
    context.close()
    return Image.open(BytesIO(body)).convert("RGB")


def differing(first: Image.Image, second: Image.Image) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which blocks of two pictures differ; all where their sizes do. Shape: [rows, columns] of blocks."""
    shape = (-(-first.height // BLOCK), -(-first.width // BLOCK))
    if first.size != second.size:
        return np.ones(shape, dtype=np.bool_)
    small = [np.asarray(each.reduce(BLOCK), dtype=np.int16) for each in (first, second)]
    return np.asarray((np.abs(small[0] - small[1]) > LEVELS).any(axis=2))


def check(name: str, taken: Image.Image) -> None:
    """Compare a picture with the committed one, or write it where they are renewed."""
    path = COMMITTED / f"{name}.png"
    if RENEW:
        COMMITTED.mkdir(exist_ok=True)
        taken.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
        return
    assert path.is_file(), f"{path} does not exist; `make screenshots` writes it"
    blocks = differing(Image.open(path).convert("RGB"), taken)
    if blocks.mean() > SHARE:
        mask = Image.fromarray(np.uint8(blocks) * 255).resize(taken.size, Image.Resampling.NEAREST)
        marked = Image.composite(
            Image.new("RGB", taken.size, (230, 0, 90)), taken, mask.point(lambda level: level // 2)
        )
        folder = Path(gettempdir()) / "assaymark-screenshots"  # pytest deletes its own folders
        folder.mkdir(exist_ok=True)
        marked.save(folder / f"{name}-difference.png")
        taken.save(folder / f"{name}.png")
        pytest.fail(f"{blocks.mean():.1%} of {path.name} differs; see {folder / f'{name}-difference.png'}")


@pytest.fixture
def addresses(served: Served) -> Callable[[str], str]:
    """Return a function from a path with places for ids of runs to an address."""
    return lambda path: served.url + path.format(*served.run_ids)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_page_looks_as_it_did(browser: Any, addresses: Callable[[str], str], name: str) -> None:
    """Its picture is the committed one, within what the module tolerates."""
    path, options, pointer = VARIANTS[name]
    check(name, picture(browser, addresses(path), options, pointer))


@pytest.mark.parametrize(("name", "viewport"), [("ratings", WIDE), ("ratings-narrow", NARROW)])
def test_the_ratings_look_as_they_did(
    browser: Any,
    ratings_url: str,  # noqa: F811 - the fixture above
    name: str,
    viewport: dict[str, int],
) -> None:
    """The arena's ratings of 150 votes that are always the same."""
    check(name, picture(browser, ratings_url, {"viewport": viewport}))


@pytest.mark.parametrize(
    "style", ["th.model { display: none }", "main { margin-top: 12px }", ".board td.num { text-align: left }"]
)
def test_a_changed_style_is_seen(browser: Any, addresses: Callable[[str], str], style: str) -> None:
    """A column that is gone, and a page or cells that moved, differ by more than is tolerated."""
    url = addresses("/board/exam")
    before = picture(browser, url, {"viewport": WIDE})
    assert differing(before, picture(browser, url, {"viewport": WIDE})).mean() <= SHARE / 10
    assert differing(before, picture(browser, url, {"viewport": WIDE, "bypass_csp": True}, style=style)).mean() > SHARE


def test_the_pictures_stay_small() -> None:
    """All of them together have less than 3 MB, and each is compared by a test."""
    pictures = list(COMMITTED.glob("*.png"))
    assert sum(path.stat().st_size for path in pictures) < 3e6
    assert {path.stem for path in pictures} == {*VARIANTS, "ratings", "ratings-narrow"}
