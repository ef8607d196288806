"""Styles of the answers to rate for: length, and numbers of headers, list items and bold texts."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from assaymark.datasets.rows import Rows
from assaymark.statistics.arrays import Floats

STYLES = ("length", "headers", "lists", "bold")

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


def styles_in(rows: Rows) -> dict[str, Floats]:
    """Return the styles that the rows have, for both sides; NaN for a row without it.

    Styles are read from columns such as tokens_a and tokens_b, headers_a, lists_a, bold_a; from the counts in
    `conv_metadata` of LMArena's published votes; or counted in response_a and response_b, without code blocks.

    Shapes: each [rows, 2], side A and side B.
    """
    metadata = [_parsed(value) for value in rows["conv_metadata"]] if "conv_metadata" in rows.column_names else []
    styles: dict[str, Floats] = {}
    for style in STYLES:
        sides = [_column(rows, metadata, style, side) for side in "ab"]
        if sides[0] is not None and sides[1] is not None:
            styles[style] = np.column_stack([sides[0], sides[1]])
    return styles


def _column(rows: Rows, metadata: Sequence[Mapping[str, object]], style: str, side: str) -> Floats | None:
    """Return one side's style over all rows, from the first source that has it; None if there is none."""
    names = [name.format(side=side) if "{" in name else f"{name}_{side}" for name in COLUMNS[style]]
    for name in names:
        if name in rows.column_names:
            return np.array([_amount(value) for value in rows[name]])
    for name in names:
        if any(name in row for row in metadata):
            return np.array([_amount(row.get(name)) for row in metadata])
    if {"response_a", "response_b"} <= set(rows.column_names):
        texts = rows[f"response_{side}"]
        return np.array([math.nan if text is None else _in_text(str(text), style) for text in texts])
    return None


def _parsed(value: object) -> Mapping[str, object]:
    """Return the nested counts, which are JSON in CSV files."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def _amount(value: object) -> float:
    """Return a count; counts by level or kind ({"h1": 2, "h2": 0}) are summed; NaN if there is none."""
    if isinstance(value, Mapping):
        return float(sum(part for part in value.values() if part is not None))
    return float(value) if isinstance(value, int | float) else math.nan


@lru_cache(maxsize=50_000)  # battles over stored answers show the same text many times
def _in_text(text: str, style: str) -> float:
    if style == "length":
        return float(len(text))
    return float(len(_MARKS[style].findall(_CODE.sub("", text))))
