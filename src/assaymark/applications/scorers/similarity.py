"""Similarities of values in [0, 1] as autoevals defines them, each exact and without a package of its own.

Source: autoevals 0.4.1 (`string.py`, `number.py`, `json.py`, `list.py`), whose own code is the oracle of the tests.
"""

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from assaymark.errors import DataError
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue

LONGEST_TEXT = 100_000  # characters; two texts of this length take about four seconds
LONGEST_LIST = 2_000  # items; two lists of this length take a few seconds


def levenshtein(first: str, second: str) -> int:
    """Return the least number of insertions, deletions and replacements of characters that make `second` of `first`.

    Source: Myers 1999, the bit-vector algorithm, in Hyyro's form; a whole column is one integer.

    Raises: DataError for texts too long to be compared in reasonable time.
    """
    if max(len(first), len(second)) > LONGEST_TEXT:
        raise DataError(
            f"a text has {max(len(first), len(second)):,} characters; at most {LONGEST_TEXT:,} are compared"
        )
    if len(first) > len(second):
        first, second = second, first
    if not first:
        return len(second)
    at: dict[str, int] = {}
    for position, character in enumerate(first):
        at[character] = at.get(character, 0) | 1 << position
    mask, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    up, down, distance = mask, 0, len(first)
    for character in second:
        same = at.get(character, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        grows, shrinks = down | (mask & ~(diagonal | up)), up & diagonal
        distance += bool(grows & last) - bool(shrinks & last)
        grows = (grows << 1 | 1) & mask
        up, down = (shrinks << 1 & mask) | (mask & ~(diagonal | grows)), grows & diagonal
    return distance


def text_similarity(first: str, second: str) -> float:
    """Return 1 - distance / length of the longer text; 1 for two empty texts."""
    longest = max(len(first), len(second))
    return 1.0 - levenshtein(first, second) / longest if longest else 1.0


def number_similarity(first: float, second: float) -> float:
    """Return 1 - |a - b| / (|a| + |b|); 1 for two zeros. Numbers of different sign have 0."""
    if first == 0 and second == 0:
        return 1.0
    largest = max(abs(first), abs(second))  # so that neither sum nor difference overflows
    first, second = first / largest, second / largest
    return 1.0 - abs(first - second) / (abs(first) + abs(second))


def json_similarity(first: JsonValue, second: JsonValue) -> float:
    """Return the similarity of two JSON values; texts that are JSON lists or objects are parsed first, at any depth.

    Objects: the mean over the union of their keys, a missing one being null. Lists: the sum over positions, divided by
    the length of the longer. Texts and numbers as above; null is like null alone; other pairs are compared as text.
    """
    first, second = _parsed(first), _parsed(second)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        keys = {**first, **second}
        return sum(json_similarity(first.get(key), second.get(key)) for key in keys) / len(keys) if keys else 1.0
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        longest = max(len(first), len(second))
        pairs = zip(first, second, strict=False)
        return sum(json_similarity(left, other) for left, other in pairs) / longest if longest else 1.0
    if isinstance(first, str) and isinstance(second, str):
        return text_similarity(first, second)
    if isinstance(first, int | float) and isinstance(second, int | float):
        return number_similarity(first, second)
    if first is None or second is None:
        return float(first is second)
    return text_similarity(_canonical(first), _canonical(second))


def _parsed(value: JsonValue) -> JsonValue:
    """Return the list or object in a JSON text; any other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return value


def _canonical(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def list_similarity(first: Sequence[str], second: Sequence[str], *, allow_extra: bool = False) -> float:
    """Return the sum of the similarities of the best pairs of items, divided by the length of the longer list.

    allow_extra: divided by the length of `second`, so that further items of `first` cost nothing.
    """
    if not first or not second:
        return float(not first and not second)
    if max(len(first), len(second)) > LONGEST_LIST:
        raise DataError(f"a list has {max(len(first), len(second)):,} items; at most {LONGEST_LIST:,} are compared")
    table = np.array([[text_similarity(left, other) for other in second] for left in first])
    total = sum(float(table[row, column]) for row, column in best_match(table))
    return min(1.0, total / (len(second) if allow_extra else max(len(first), len(second))))


def best_match(table: "np.ndarray") -> list[tuple[int, int]]:
    """Return the pairs (row, column) of the assignment with the largest sum; each row and column occurs at most once.

    The Hungarian method by shortest augmenting paths, O(rows^2 columns). Source: Jonker and Volgenant 1987.

    Shapes: [rows, columns].
    """
    if table.shape[0] > table.shape[1]:
        return sorted((row, column) for column, row in best_match(table.T))
    cost = -np.asarray(table, dtype=np.float64)
    n_rows, n_columns = cost.shape
    of_row, of_column = np.zeros(n_rows + 1), np.zeros(n_columns + 1)  # potentials; position 0 is the free start
    row_of = np.zeros(n_columns + 1, dtype=np.int64)  # row, from 1, that a column is matched with
    for row in range(1, n_rows + 1):
        row_of[0] = row
        least, before = np.full(n_columns + 1, np.inf), np.zeros(n_columns + 1, dtype=np.int64)
        is_used = np.zeros(n_columns + 1, dtype=bool)
        column = 0
        while row_of[column]:
            is_used[column] = True
            here = row_of[column]
            reduced = cost[here - 1] - of_row[here] - of_column[1:]
            is_less = ~is_used[1:] & (reduced < least[1:])
            least[1:][is_less], before[1:][is_less] = reduced[is_less], column
            free = np.where(is_used, np.inf, least)
            free[0] = np.inf
            following = int(free.argmin())
            step = free[following]
            np.add.at(of_row, row_of[is_used], step)
            of_column[is_used] -= step
            least[~is_used] -= step
            column = following
        while column:
            row_of[column] = row_of[before[column]]
            column = int(before[column])
    return sorted((int(row_of[column]) - 1, column - 1) for column in range(1, n_columns + 1) if row_of[column])


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of two vectors, at most 1; 0 where one has no length.

    Raises: DataError for vectors of different lengths, or with values that are not finite.
    """
    if len(first) != len(second):
        raise DataError(f"the embeddings have {len(first)} and {len(second)} numbers; expected as many")
    product = math.sqrt(math.fsum(x * x for x in first)) * math.sqrt(math.fsum(y * y for y in second))
    dot = math.fsum(x * y for x, y in zip(first, second, strict=True))
    if not math.isfinite(dot) or not math.isfinite(product):
        raise DataError("an embedding has values that are not finite")
    return min(dot / product, 1.0) if product else 0.0
