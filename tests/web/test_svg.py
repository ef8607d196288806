"""The charts that pages draw: where values lie, and names that are text."""

import re
from xml.etree import ElementTree as ET

import pytest

from assaymark.web.svg import LETTER_WIDTH, PLOT_WIDTH, PlottedValue, heatmap, spans


def test_differences_have_a_line_at_zero_and_a_band() -> None:
    """The band reaches as far to both sides of zero, the point and its interval lie to scale."""
    tree = ET.fromstring(spans([PlottedValue("Law", 4.0, 2.0, 6.0, 5.0), PlottedValue("Music", -1.0, None, None, 2.5)]))
    (zero,) = [float(each.attrib["x1"]) for each in tree.iter("line") if each.attrib["class"] == "zero"]
    bands = [(float(item.attrib["x"]), float(item.attrib["width"])) for item in tree.iter("rect")]
    assert [x + width / 2 for x, width in bands] == pytest.approx([zero, zero], abs=0.11)
    points = [float(result.attrib["cx"]) for result in tree.iter("circle")]
    per_unit = (points[0] - points[1]) / 5.0
    assert points[0] - zero == pytest.approx(4.0 * per_unit, abs=0.2)
    assert bands[0][1] == pytest.approx(10.0 * per_unit, abs=0.2)
    (whisker,) = [result for result in tree.iter("line") if result.attrib["class"] == "span"]
    assert float(whisker.attrib["x2"]) - float(whisker.attrib["x1"]) == pytest.approx(4.0 * per_unit, abs=0.2)
    left = LETTER_WIDTH * len("Music") + 16
    assert all(left <= x <= left + PLOT_WIDTH for x in points)
    texts = [result.text or "" for result in tree.iter("text")]
    assert "0" in texts
    assert any(re.fullmatch(r"\+\d+", text) for text in texts)


@pytest.mark.parametrize("name", ["a <b>&\"'", "\u202e\x00x", "]]>", "x" * 100])
def test_names_are_text(name: str) -> None:
    """No markup and no control characters of a name reach the drawing; a long one is cut."""
    for drawn in (spans([PlottedValue(name, 1.0, 0.5, 1.5)]), heatmap([name], [name], [[(0.3, name)]], name)):
        tree = ET.fromstring(drawn)
        assert not list(tree.iter("b"))
        texts = [each.text or "" for each in tree.iter("text")]
        assert all(len(text) <= 60 for text in texts if text != name)


def test_a_heat_map_has_a_cell_for_each_score() -> None:
    """The strength of the colour follows the standing, an absent score is not a cell, long titles are slanted."""
    tree = ET.fromstring(heatmap(["m", "n"], ["Law", "Instructions"], [[(0.0, "1"), (1.0, "2")], [None, (0.5, "3")]]))
    strengths = [float(each.attrib["fill-opacity"]) for each in tree.iter("rect")]
    assert strengths == [0.08, 0.58, 0.33]
    assert sum("transform" in item.attrib for item in tree.iter("text")) == 2
