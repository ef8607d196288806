"""Plots with axes: where points lie, which ticks there are, and that names are text."""

import re
from collections.abc import Sequence
from datetime import date
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.web.plots import (
    LEFT,
    RADIUS,
    TOP,
    WIDTH,
    LinkedBar,
    PlotEvent,
    PlotPoint,
    PlotSeries,
    bar_plot,
    front_plot,
    history_plot,
    series_plot,
    time_plot,
)
from assaymark.web.svg import date_axis, log_axis, number_axis, time_axis

YEARS = (date(1900, 1, 1), date(2099, 12, 31))
NUMBERS = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))


def path_of(drawn: str, kind: str) -> list[tuple[float, float]]:
    """Return the pixels at which a path's parts begin."""
    (path,) = [each for each in ET.fromstring(drawn).iter("path") if each.attrib["class"] == kind]
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.attrib["d"])]


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_an_axis_of_numbers_holds_them_and_has_few_round_ticks(values: Sequence[float]) -> None:
    """All values lie inside; one to eight ticks, in order, each where its number is."""
    axis = number_axis(values, "{:.12g}".format)
    assert all(0 <= axis.at(value) <= 1 for value in values)
    places = [place for place, _ in axis.ticks]
    assert 1 <= len(places) <= 8
    assert places == sorted(places)
    assert all(place == pytest.approx(axis.at(float(text)), abs=1e-3) for place, text in axis.ticks)


@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=20))
def test_a_logarithmic_axis_holds_its_values(values: Sequence[float]) -> None:
    """Equal ratios are equal distances."""
    axis = log_axis(values)
    assert all(0 <= axis.at(value) <= 1 for value in values)
    assert axis.all_at(np.array(values)) == pytest.approx([axis.at(value) for value in values])
    assert axis.at(20.0) - axis.at(2.0) == pytest.approx(axis.at(50.0) - axis.at(5.0))
    assert len(axis.ticks) <= 10


@given(st.lists(st.dates(*YEARS), min_size=1, max_size=20))
def test_an_axis_of_days_has_ticks_at_the_first_of_months(days: Sequence[date]) -> None:
    """At most eight, each inside."""
    axis = date_axis(days)
    assert all(0 <= axis.at(day.toordinal()) <= 1 for day in days)
    assert len(axis.ticks) <= 8
    assert all(re.fullmatch(r"[A-Z][a-z]{2} \d{4}", text) for _, text in axis.ticks)
    assert all(0 <= place <= 1 for place, _ in axis.ticks)


def test_a_series_is_drawn_to_scale() -> None:
    """Distances of pixels are in the ratio of the steps and of the values; the band closes around them."""
    points = [PlotPoint(100, 0.5, 0.4, 0.6), PlotPoint(200, 0.6, 0.5, 0.7), PlotPoint(400, 0.4, 0.3, 0.5)]
    drawn = series_plot(points, "values", is_share=True)
    (x0, y0), (x1, y1), (x2, y2) = path_of(drawn, "steps")
    assert (x2 - x1) == pytest.approx(2 * (x1 - x0), abs=0.3)
    assert (y2 - y1) == pytest.approx(-2 * (y1 - y0), abs=0.3)
    assert len(path_of(drawn, "area")) == 6
    assert 'aria-label="values"' in drawn
    assert "50%" in drawn


def test_the_front_is_above_the_others_and_pixels_are_drawn_once() -> None:
    """A thousand models in one place are one dot."""
    sizes = np.array([1.0, *[7.0] * 1000, 70.0])
    values = np.array([0.3, *[0.2] * 1000, 0.8])
    drawn = front_plot(sizes, values, values > 0.25, "front")
    assert len(path_of(drawn, "dots")) == 1
    assert len(path_of(drawn, "dots best")) == 2
    ((x, y),) = path_of(drawn, "dots")
    assert LEFT < x < LEFT + WIDTH
    assert y > max(level for _, level in path_of(drawn, "dots best")) > TOP


def test_the_best_so_far_reaches_the_last_day() -> None:
    """The line has a step for each new best score, and goes on to the end."""
    first, last = date(2024, 1, 1).toordinal(), date(2024, 12, 1).toordinal()
    drawn = time_plot([PlotPoint(first, 0.2, 0.1, 0.3), PlotPoint(first + 100, 0.4)], last, 'best "so" <far>')
    tree = ET.fromstring(drawn)
    (steps,) = [each.attrib["d"] for each in tree.iter("path") if each.attrib["class"] == "steps"]
    assert steps.count("H") == 2
    assert sum(item.attrib["class"] == "span" for item in tree.iter("line")) == 1
    assert tree.attrib["aria-label"] == 'best "so" <far>'


def test_bars_begin_at_zero_and_are_drawn_to_scale() -> None:
    """Widths are in the ratio of the values, below zero too; intervals surround the ends; names and titles are text."""
    rows = [
        LinkedBar('a <b>"', 0.8, 0.6, 0.9, "80.0", "first <i>", "/model/a"),
        LinkedBar("b", 0.4, None, None, "40.0", "second", "/model/b"),
        LinkedBar("c", -0.2, -0.3, -0.1, "-20.0", "third"),
    ]
    tree = ET.fromstring(bar_plot(rows, "Column <u>", 'label "x"', is_share=True))
    rectangles = [part.attrib for part in tree.iter("rect")]
    widths = [float(rectangle["width"]) for rectangle in rectangles]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    assert widths[0] == pytest.approx(4 * widths[2], abs=0.4)
    zero = float(rectangles[0]["x"])
    assert float(rectangles[2]["x"]) + widths[2] == pytest.approx(zero, abs=0.2)
    whiskers = [part.attrib for part in tree.iter("line") if part.attrib["class"] == "whisker"]
    assert len(whiskers) == 2
    assert float(whiskers[0]["x1"]) < zero + widths[0] < float(whiskers[0]["x2"])
    assert [link.attrib["href"] for link in tree.iter("a")] == ["/model/a", "/model/b"]
    assert [title.text for title in tree.iter("title")] == ["first <i>", "second", "third"]
    assert {'a <b>"', "Column <u>", "0%", "80.0"} <= {text.text for text in tree.iter("text")}
    assert tree.attrib["aria-label"] == 'label "x"'


def test_a_front_of_falling_measures_rises_to_the_left() -> None:
    """Of speeds, the fastest first: its line goes left and up, and keeps a level until the next model's speed."""
    speeds, values = np.array([100.0, 50.0, 10.0]), np.array([0.2, 0.3, 0.9])
    drawn = front_plot(speeds, values, np.array([True, True, True]), "front", title="Tokens per second")
    (steps,) = [part.attrib["d"] for part in ET.fromstring(drawn).iter("path") if part.attrib["class"] == "steps"]
    xs = [float(x) for x in re.findall(r"[MH]([\d.]+)", steps)]
    ys = [float(y) for y in re.findall(r"[ V]([\d.]+)", steps)]
    assert xs == sorted(xs, reverse=True)
    assert ys == sorted(ys, reverse=True)
    assert ">Tokens per second</text>" in drawn


def test_one_point_alone_is_drawn() -> None:
    """The axes have a length even where all values are equal."""
    assert "h0" in series_plot([PlotPoint(0, 0.0, 0.0, 0.0)], "one", is_share=True)
    assert "h0" in front_plot(np.array([7.0]), np.array([0.5]), np.array([True]), "one")
    assert "h0" in series_plot([PlotPoint(0, -1.7e308), PlotPoint(1, 1.7e308)], "the largest", is_share=False)


def test_a_history_has_a_line_a_band_and_links_for_each_series() -> None:
    """Series keep their colours where one is empty; points and events are links; names are escaped."""
    points = tuple(PlotPoint(86_400.0 * day, 0.5 + day / 10, 0.4, 0.7, "<b>", f"/d{day}") for day in range(3))
    svg = history_plot(
        [PlotSeries("a", ()), PlotSeries("b", points)], "Quality", "{:.1f}".format, [PlotEvent(86_400.0, "<i>", "/e")]
    )
    root = ET.fromstring(svg)
    classes = [each.get("class") for each in root.iter()]
    assert classes.count("series s1") == classes.count("series-band s1") == 1
    assert classes.count("mark series-mark s1") == classes.count("series-span s1") == 3
    assert not any(name and name.endswith("s0") for name in classes)
    assert [each.get("href") for each in root.iter() if each.get("href")] == ["/e", "/d0", "/d1", "/d2"]
    assert "<b>" not in svg
    assert classes.count("alarm") == 1


def test_points_of_one_time_do_not_hide_each_other() -> None:
    """Two that would overlap stand side by side, in the order of their series; one apart keeps its place."""
    series = [PlotSeries(name, (PlotPoint(0.0, value), PlotPoint(86_400.0, 0.5)))
              for name, value in (("a", 0.5), ("b", 0.9), ("c", 0.5))]  # fmt: skip
    root = ET.fromstring(history_plot(series, "Quality", "{:g}".format))
    places = [float(each.get("cx", "")) for each in root.iter() if each.tag.endswith("circle")]
    (a, a_later), (b, b_later), (c, c_later) = places[:2], places[2:4], places[4:]
    assert c - a == pytest.approx(2 * RADIUS + 1)
    assert (a + c) / 2 == pytest.approx(b)
    assert [b_later - a_later, c_later - b_later] == pytest.approx([2 * RADIUS + 1] * 2)


def test_long_labels_of_an_axis_have_their_room() -> None:
    """The plot begins behind the longest one, and the drawing keeps its width; what axes reach is theirs too."""
    series, widths = [PlotSeries("a", (PlotPoint(0.0, 0.00012),))], set()
    for shown in ("{:.1f}", "${:.9f}"):
        root = ET.fromstring(history_plot(series, "Cost", shown.format, reach=([0.0, 86_400.0], [0.0])))
        labels = [each for each in root.iter() if each.get("text-anchor") == "end"]
        assert all(float(each.get("x", "")) > 6 * len(each.text or "") for each in labels)
        assert "0" in (labels[0].text or "")
        assert "02 Jan" in [each.text for each in root.iter()]
        widths.add(root.get("width"))
    assert len(widths) == 1


def test_a_time_axis_has_whole_hours_or_days() -> None:
    """Ticks of a day's axis are hours, of a month's are days."""
    hours = [text for _, text in time_axis([0.0, 20 * 3600.0]).ticks]
    days = [text for _, text in time_axis([0.0, 29 * 86_400.0]).ticks]
    assert hours[:3] == ["01 Jan", "06:00", "12:00"]
    assert "11 Jan" in days or "06 Jan" in days
    assert 2 < len(days) < 9
