"""The charts that pages draw: where values lie, and names that are text."""

import re
from xml.etree import ElementTree as ET

import pytest

from evalstone.web.svg import NAME_WIDTH, PLOT_WIDTH, Span, spans


def test_differences_have_a_line_at_zero_and_a_band() -> None:
    """The band reaches as far to both sides of zero, the point and its interval lie to scale."""
    tree = ET.fromstring(spans([Span("Law", 4.0, 2.0, 6.0, 5.0), Span("Music", -1.0, None, None, 2.5)]))
    (zero,) = [float(one.attrib["x1"]) for one in tree.iter("line") if one.attrib["class"] == "zero"]
    bands = [(float(one.attrib["x"]), float(one.attrib["width"])) for one in tree.iter("rect")]
    assert [x + width / 2 for x, width in bands] == pytest.approx([zero, zero], abs=0.11)
    points = [float(one.attrib["cx"]) for one in tree.iter("circle")]
    per_unit = (points[0] - points[1]) / 5.0
    assert points[0] - zero == pytest.approx(4.0 * per_unit, abs=0.2)
    assert bands[0][1] == pytest.approx(10.0 * per_unit, abs=0.2)
    (whisker,) = [one for one in tree.iter("line") if one.attrib["class"] == "span"]
    assert float(whisker.attrib["x2"]) - float(whisker.attrib["x1"]) == pytest.approx(4.0 * per_unit, abs=0.2)
    assert all(NAME_WIDTH <= x <= NAME_WIDTH + PLOT_WIDTH for x in points)
    texts = [one.text or "" for one in tree.iter("text")]
    assert "0" in texts
    assert any(re.fullmatch(r"\+\d+", text) for text in texts)


@pytest.mark.parametrize("name", ["a <b>&\"'", "\u202e\x00x", "]]>", "x" * 100])
def test_names_are_text(name: str) -> None:
    """No markup and no control characters of a name reach the drawing; a long one is cut."""
    tree = ET.fromstring(spans([Span(name, 1.0, 0.5, 1.5)]))
    assert not list(tree.iter("b"))
    assert all(len(one.text or "") <= 60 for one in tree.iter("text"))
