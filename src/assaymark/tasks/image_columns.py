"""Columns of images in rows of one's own, in MMMU's layout: `image`, or `image_1` to `image_7`."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from assaymark.datasets import Row, Rows
from assaymark.errors import DataError

__all__ = ["image_columns", "is_image_column", "refuse_other_media", "with_option_lists"]

_IMAGE = re.compile(r"image(_[1-7])?", re.IGNORECASE)
_OTHER = re.compile(r"(audio|video|sound|clip)(_\d+)?", re.IGNORECASE)
_FILES = (".mp4", ".webm", ".mov", ".avi", ".mkv", ".wav", ".mp3", ".flac", ".ogg", ".m4a")
_LISTS = ("options", "choices")


def is_image_column(name: str) -> bool:
    """Return whether a column is one of images, by its name."""
    return _IMAGE.fullmatch(name) is not None


def image_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of images, in the order of their numbers."""
    return sorted(filter(is_image_column, names), key=str.lower)


def refuse_other_media(where: object, rows: Rows) -> None:
    """Raise DataError where a column has audio or video: as the Hub stores them, or the name of such a file."""
    for name in filter(_OTHER.fullmatch, rows.column_names):
        value = next((one for one in rows.values(name) if one is not None), None)
        if isinstance(value, Mapping | bytes) or (isinstance(value, str) and value.lower().endswith(_FILES)):
            raise DataError(
                f"{where}: column '{name}' has audio or video, which no model here takes; rows have texts and images: "
                "give frames of a video as columns image_1 to image_7"
            )


def with_option_lists(rows: Rows) -> Rows:
    """Return rows of which options that are the text of a list, as in MMMU's files, are lists; no options: None."""
    named = [name for name in rows.column_names if name.lower() in _LISTS]
    if not named or not image_columns(rows.column_names):
        return rows

    def change(row: Row) -> Row:
        return {**row, **{name: _listed(row[name]) for name in named}}

    return rows.changed(change)


def _listed(value: Any) -> Any:
    if isinstance(value, list):
        return value or None
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return value
    try:
        found = ast.literal_eval(value)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return value
    return (found or None) if isinstance(found, list) and all(isinstance(each, str) for each in found) else value
