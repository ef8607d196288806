"""The charts: their data, distinguishable marks, and parts that fit a page."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from assaymark.documents import charts
from assaymark.documents.charts import (
    COLOURS,
    NOT_SIGNIFICANT,
    TALLEST,
    DifferencePoint,
    IntervalPoint,
    calibration_chart,
    can_draw,
    difference_charts,
    interval_charts,
    to_svg,
)
from assaymark.errors import MissingExtra
from assaymark.statistics.calibration import calibration_error

drawn = pytest.mark.skipif(not can_draw(), reason="the extra 'charts' is not installed")

WHITE, DARK = "#ffffff", "#161618"
# linear RGB as seen with three kinds of colour blindness; Machado, Oliveira and Fernandes 2009, severity 1
BLIND = {
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


def linear(colour: str) -> NDArray[np.float64]:
    """Return linear RGB of `#rrggbb`."""
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours as the Web Content Accessibility Guidelines define it."""
    darker, lighter = sorted(float(linear(colour) @ LUMINANCE) for colour in (first, second))
    return (lighter + 0.05) / (darker + 0.05)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return CIE L*a*b* of linear RGB, in which distances are perceptually uniform."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(np.maximum(xyz / np.array([0.9505, 1.0, 1.089]), 0.008856))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", [*COLOURS, NOT_SIGNIFICANT])
def test_marks_have_contrast_on_white_and_on_dark(colour: str) -> None:
    """Every colour has the contrast of 3 to 1 that graphics need, on both backgrounds."""
    assert contrast(colour, WHITE) >= 3
    assert contrast(colour, DARK) >= 3


@pytest.mark.parametrize("kind", BLIND)
def test_runs_have_distinguishable_colours(kind: str) -> None:
    """No two runs' colours are close for readers with any kind of colour blindness."""
    seen = [lab(np.clip(np.array(BLIND[kind]) @ linear(colour), 0, 1)) for colour in COLOURS]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 15


def values_in(spec: Any, key: str) -> list[dict[str, Any]]:
    """Return the rows of a specification's layers that have a key."""
    sets = [spec.get("data", {}).get("values", []), *spec.get("datasets", {}).values()]
    sets += [layer.get("data", {}).get("values", []) for layer in spec.get("layer", [])]
    unique = {str(row): row for rows in sets for row in rows if key in row}
    return list(unique.values())


def points(n_tasks: int, runs: tuple[str, ...] = ("a",), name: str = "task_{}") -> list[IntervalPoint]:
    """Return synthetic values."""
    return [
        IntervalPoint(name.format(i), run, 0.4 + i / 1000, 0.3, 0.5 + i / 1000, 0.25)
        for i in range(n_tasks)
        for run in runs
    ]


@drawn
def test_a_chart_holds_every_value_with_its_interval_and_chance() -> None:
    """Each point is in the specification once, and chance once per task however many runs there are."""
    (spec,) = interval_charts(points(5, ("a", "b")))
    rows = values_in(spec, "value")
    assert len(rows) == 10
    assert {(row["low"], row["value"], row["high"]) for row in rows} == {
        (0.3, 0.4 + i / 1000, 0.5 + i / 1000) for i in range(5)
    }
    assert len(values_in(spec, "chance")) == 5


@drawn
@pytest.mark.parametrize("runs", [("a",), ("a", "b"), ("a", "b", "c", "d")])
def test_long_lists_are_split_into_pages(runs: tuple[str, ...]) -> None:
    """With 57 subjects no part is taller than a page, and no subject is missing."""
    specs = interval_charts(points(57, runs))
    assert len(specs) > 1
    heights = [spec["height"] for spec in specs]
    assert all(isinstance(height, int | float) and height <= TALLEST for height in heights)
    assert sum(len(values_in(spec, "value")) for spec in specs) == 57 * len(runs)


@drawn
def test_long_names_are_shortened_in_their_middle_and_stay_distinct() -> None:
    """Names that differ only at their ends or middles keep rows of their own."""
    names = "a_very_long_family_of_benchmarks_with_{}_in_the_middle_and_an_end"
    (spec,) = interval_charts(points(12, name=names))
    results = {row["task"] for row in values_in(spec, "value")}
    assert len(results) == 12
    assert max(map(len, results)) < 60
    (spec,) = interval_charts(points(12, name="a_very_long_family_of_benchmarks_that_goes_on_{}"))
    assert len({row["task"][-4:] for row in values_in(spec, "value")}) == 12


@drawn
def test_differences_are_drawn_in_points_with_their_verdict() -> None:
    """A difference of 0.1 is drawn at +10 points, with its interval and verdict."""
    (spec,) = difference_charts([DifferencePoint("t", 0.1, 0.05, 0.15, "better")])
    (row,) = values_in(spec, "gain")
    assert (row["gain"], row["low"], row["high"], row["verdict"]) == (10.0, 5.0, 15.0, "better")


@drawn
def test_the_calibration_chart_has_the_bins_of_the_error() -> None:
    """Every bin is drawn at its confidence with its accuracy."""
    rng = np.random.default_rng(1)
    confidence = rng.random(200)
    error = calibration_error(confidence, (rng.random(200) < confidence).astype(float))
    rows = values_in(calibration_chart([("a", error)]), "run")
    assert [(row["confidence"], row["right"]) for row in rows] == [(b.confidence, b.accuracy) for b in error.bins]
    assert all(row["low"] <= row["right"] <= row["high"] for row in rows)


@drawn
def test_an_svg_is_static_labelled_and_takes_the_text_colour_of_its_page() -> None:
    """The drawing has no script, loads nothing and has a description; a separate file has a colour of its own."""
    (spec,) = interval_charts(points(3))
    page = to_svg(spec, 'values of "a" & b')
    assert "<script" not in page
    assert "href=" not in page
    assert 'aria-label="values of &quot;a&quot; &amp; b"' in page
    assert "currentColor" in page
    assert "currentColor" not in to_svg(spec, "values", ink="#1c1c1e")


def test_without_the_extra_the_message_has_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a chart without altair raises an error that names what to install."""
    import sys

    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[charts\]'"):
        interval_charts(points(1))
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    assert not can_draw()
