"""Contrast sets: rows that people changed a little so that the answer is another one, from a list of the user.

A list has one JSON object in a line: the columns that change (`row`), and whose they are, by the sample's position
(`id`) or by the value of columns (`where`). Of several for one sample one is drawn, with HELM's generator.
Source: Gardner et al. 2020, arXiv 2004.02709; HELM 63754d05, benchmark/augmentations/contrast_sets_perturbation.py.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from assaymark.errors import DataError
from assaymark.records import JsonValue, canonical_json

CONTRAST_FORM = (
    'lines such as {"id": 7, "row": {"question": "...", "label": 1}}, or with "where": {"question": "..."} for "id"'
)


@dataclass(frozen=True, slots=True)
class ContrastRow:
    """One changed row: of which sample, and the values of the columns that change."""

    position: int | None
    where: Mapping[str, JsonValue]
    row: Mapping[str, JsonValue]


class ContrastList:
    """The rows of a list, found by their samples."""

    def __init__(self, rows: Sequence[ContrastRow]) -> None:
        self.rows = rows
        self._places: dict[tuple[str, ...], dict[str, list[int]]] = {}  # columns of `where` -> their values -> places
        for place, each in enumerate(rows):
            names = tuple(sorted(each.where))
            key = canonical_json([each.position, *(each.where[name] for name in names)])
            self._places.setdefault(names, {}).setdefault(key, []).append(place)

    def places_of(self, position: int, row: Mapping[str, JsonValue]) -> list[int]:
        """Return the places in the list of the variants of the sample at a position of the evaluated split."""
        places: list[int] = []
        for names, by_value in self._places.items():
            if all(name in row for name in names):
                values = [row[name] for name in names]
                places += by_value.get(canonical_json([None if names else position, *values]), [])
        return sorted(places)


@lru_cache(maxsize=4)
def contrast_list(text: str, where: str) -> ContrastList:
    """Return the rows of a list. Raises: DataError naming the line, and what was expected."""
    made = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{where}, line {number}"
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place} is not JSON: {error}; expected {CONTRAST_FORM}") from error
        if not isinstance(content, dict) or {*content} not in ({"id", "row"}, {"where", "row"}):
            raise DataError(f"{place} is {line[:80]!r}; expected {CONTRAST_FORM}")
        position, named, row = content.get("id"), content.get("where", {}), content["row"]
        if not isinstance(row, dict) or not row:
            raise DataError(f"{place}: row is {row!r:.80}; expected the columns that change, with their values")
        if "id" in content and (not isinstance(position, int) or isinstance(position, bool) or position < 0):
            raise DataError(f"{place}: id is {position!r:.80}; expected the position of a sample, from 0")
        if "where" in content and (not isinstance(named, dict) or not named):
            raise DataError(f"{place}: where is {named!r:.80}; expected columns with their values in the sample")
        made.append(ContrastRow(position, named, row))
    if not made:
        raise DataError(f"{where} has no rows; expected {CONTRAST_FORM}")
    return ContrastList(made)
