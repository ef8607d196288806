"""Charts on a phone: a drawing of its own, whose texts are neither cut nor too small, and no page scrolls sideways."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assaymark.arena.ballots import Publishing
from assaymark.arena.battles import Arena
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.routes.arena import arena_feature
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.arena.stored_votes import NO_LIMITS, answers, cast
from tests.leaderboard.pages.test_series import site as series_site  # noqa: F401 - a fixture
from tests.served import Served, running

pytestmark = pytest.mark.slow
SMALLEST = 9.0  # pixels of a text on the screen

CHARTS = """() => [...document.querySelectorAll("svg.chart")].filter(svg => svg.getBoundingClientRect().width > 0)
  .map(svg => {
    const frame = svg.getBoundingClientRect(), region = svg.parentElement;
    const texts = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    const cut = texts.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 ||
                                          box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    const scale = frame.width / svg.viewBox.baseVal.width;
    return {narrow: svg.classList.contains("narrow"), cut: cut.map(([text]) => text), n: texts.length,
            size: parseFloat(getComputedStyle(svg).fontSize) * scale,
            scrolls: region.scrollWidth > region.clientWidth, links: svg.querySelectorAll("a title").length};
  })"""


@pytest.fixture
def ratings_url(tmp_path: Path) -> Iterator[str]:
    """Serve the ratings of 150 votes; return their address."""
    with Store.open(str(tmp_path / "s.sqlite")) as store:
        arena = Arena(store, answers(), NO_LIMITS, Publishing(50, 1e9, 10), seed=1)
        cast(arena, 150)
        with running(create_app([arena_feature(arena, Ratings(store))])) as url:
            yield f"{url}/arena/ratings"


@pytest.fixture
def series_url(series_site: Site) -> Iterator[str]:  # noqa: F811 - the fixture above
    """Serve the page of a series of checkpoints; return its address."""
    with running(create_app([board_feature(series_site)])) as url:
        yield f"{url}/series/train"


@pytest.fixture
def charts_url(served: Served) -> str:
    """Return the address of the charts of a board with 130 rows and long names."""
    return f"{served.url}/board/wide/charts"


@pytest.mark.parametrize("kind", ["charts", "series", "ratings"])
def test_at_320_pixels_charts_have_a_drawing_that_fits(browser: Any, kind: str, request: pytest.FixtureRequest) -> None:
    """Each chart is drawn once; its texts lie in it and are legible, no region scrolls; wide windows have others."""
    page = browser.new_page(viewport={"width": 320, "height": 640})
    page.goto(request.getfixturevalue(f"{kind}_url"))
    charts = page.evaluate(CHARTS)
    assert charts
    for chart in charts:
        assert chart["narrow"]
        assert chart["n"] > 2
        assert chart["cut"] == []
        assert chart["size"] >= SMALLEST
        assert not chart["scrolls"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert any(chart["links"] for chart in charts)
    for width in (1280, 900):
        page.set_viewport_size({"width": width, "height": 800})
        wide = page.evaluate(CHARTS)
        assert [chart["narrow"] for chart in wide] == [False] * len(charts)
        assert [chart["cut"] for chart in wide] == [[]] * len(charts)
    page.close()
