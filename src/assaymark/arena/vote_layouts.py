"""Files with several votes per row, split into one vote per row: PandaLM's test set has a column for each annotator."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assaymark.datasets.rows import Rows
from assaymark.errors import DataError

__all__ = ["one_vote_a_row"]

_ANNOTATOR = re.compile(r"ann(otator)?_?\d+")
_KEPT = {
    "response1": "response_a",
    "response2": "response_b",
    "len1": "length_a",
    "len2": "length_b",
    "idx": "idx",
    "instruction": "instruction",
}
_VERDICTS = {"1": "model_1", "2": "model_2", "0": "tie"}  # PandaLM's README: 0 is a tie


def one_vote_a_row(rows: Rows) -> Rows:
    """Return the rows with one row for each annotator's verdict; rows in other layouts unchanged.

    Recognised: `cmp_key` (two names joined by `_`) or model_1 and model_2, with annotator1, annotator2, ... of 0, 1, 2.

    Raises: DataError for a cmp_key that is not a pair of names.
    """
    names = set(rows.column_names)
    annotators = [name for name in rows.column_names if _ANNOTATOR.fullmatch(name)]
    if not annotators or "winner" in names or not ("cmp_key" in names or {"model_1", "model_2"} <= names):
        return rows
    return Rows.of([vote for number, row in enumerate(rows, start=1) for vote in _votes_of(row, number, annotators)])


def _votes_of(row: Mapping[str, Any], number: int, annotators: Sequence[str]) -> list[dict[str, Any]]:
    if "model_1" in row and "model_2" in row:
        first, second = row["model_1"], row["model_2"]
    else:
        parts = str(row["cmp_key"]).split("_")
        if len(parts) != 2 or not all(parts):
            raise DataError(
                f"row {number} has the cmp_key '{row['cmp_key']}'; expected two model names joined by one _"
            )
        first, second = parts
    shared = {new: row[old] for old, new in _KEPT.items() if old in row}
    return [
        {**shared, "model_1": first, "model_2": second, "judge": name, "winner": _verdict(row[name])}
        for name in annotators
    ]


def _verdict(value: Any) -> str | None:
    text = "" if value is None else str(value).strip().removesuffix(".0")
    return _VERDICTS.get(text, text) if text not in {"", "nan"} else None
