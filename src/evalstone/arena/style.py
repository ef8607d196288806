"""What answers look like, apart from what they say: length, headers, lists, bold text, for style-controlled ratings."""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["STYLES", "StylePair", "style_of"]

STYLES = ("length", "headers", "lists", "bold")

StylePair = tuple[float, float]
"""How much of a style side A's answer has, and side B's."""

COLUMNS = {
    "length": ("tokens", "length", "len", "sum_assistant_{side}_tokens"),
    "headers": ("headers", "header_count"),
    "lists": ("lists", "list_count"),
    "bold": ("bold", "bold_count"),
}
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKS = {
    "headers": re.compile(r"^ {0,3}#{1,6}\s", re.MULTILINE),
    "lists": re.compile(r"^\s*(?:[-*+]|\d+[.)])\s", re.MULTILINE),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__"),
}


def style_of(row: Mapping[str, Any]) -> dict[str, StylePair]:
    """Return each style that a vote's row tells of, for both sides.

    Read from columns such as tokens_a and tokens_b, headers_a, lists_a, bold_a; from the counts in `conv_metadata` of
    LMArena's published votes; or counted in response_a and response_b, without code blocks.
    """
    counted = {**_metadata(row.get("conv_metadata")), **row}
    found: dict[str, StylePair] = {}
    texts = [row.get(f"response_{side}") for side in "ab"]
    for style in STYLES:
        pair = [_count(counted, style, side) for side in "ab"]
        if None in pair and None not in texts:
            pair = [_in_text(str(text), style) for text in texts]
        if pair[0] is not None and pair[1] is not None:
            found[style] = (pair[0], pair[1])
    return found


def _metadata(value: Any) -> Mapping[str, Any]:
    """Return the nested counts; in CSV files they are JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def _count(row: Mapping[str, Any], style: str, side: str) -> float | None:
    for name in COLUMNS[style]:
        value = row.get(name.format(side=side) if "{" in name else f"{name}_{side}")
        if isinstance(value, Mapping):  # by level or kind: {"h1": 2, "h2": 0}
            return float(sum(part for part in value.values() if part is not None))
        if isinstance(value, int | float):
            return float(value)
    return None


def _in_text(text: str, style: str) -> float:
    if style == "length":
        return float(len(text))
    return float(len(_MARKS[style].findall(_CODE.sub("", text))))
