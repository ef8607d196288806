"""Columns of a file of votes: the names that published files use, and the meaning of their verdicts.

Files with several votes per row, split into one vote per row: PandaLM's test set has a column for each annotator.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import SupportsFloat

from assaymark.datasets.rows import Rows
from assaymark.errors import DataError, UnknownName
from assaymark.registry import nearest

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


def _votes_of(row: Mapping[str, object], number: int, annotators: Sequence[str]) -> list[dict[str, object]]:
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


def _verdict(value: object) -> str | None:
    text = "" if value is None else str(value).strip().removesuffix(".0")
    return _VERDICTS.get(text, text) if text not in {"", "nan"} else None


NUMBERED = (("model_1", "model_2"), ("generator_1", "generator_2"))  # MT-bench's and PandaLM's; AlpacaEval's
SIDES = (("model_a", "model_b"), ("left", "right"), *NUMBERED)
PROMPTS = ("prompt_group", "prompt_id", "question_id", "instruction_idx", "idx", "prompt", "question", "instruction")
JUDGES = ("judge", "judge_id", "voter", "worker", "annotator", "user")
LANGUAGES = ("language", "lang")
CATEGORIES = ("category",)
TIMES = ("tstamp", "timestamp", "cast_at", "created_at", "date")
ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")  # a column of 0 and 1 for each verdict
BOTH_ORDERS = ("g1_winner", "g2_winner")  # MT-bench: the judge's verdicts with the answers in both orders
PREFERENCE = "preference"  # AlpacaEval: from 1, the first is preferred, to 2, the second; 0 and 1.5 are ties
CHOOSABLE = ("model_a", "model_b", "winner", "prompt", "judge", "language", "category", "time")
FIRST_WON = {"model_a", "a", "left"}
SECOND_WON = {"model_b", "b", "right"}
TIED = re.compile(r"tie( \(.+\))?|both_?bad")


@dataclass(frozen=True, slots=True)
class VoteColumns:
    """The columns of one file; None for a kind that it lacks."""

    first: str
    second: str
    winner: str | None  # None: one column for each verdict, or for each order of the answers
    prompt: str | None = None
    judge: str | None = None
    language: str | None = None
    category: str | None = None
    time: str | None = None

    def describe(self) -> str:
        """Return the columns that were read under another name, as text."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        standard = {"first": "model_a", "second": "model_b"}
        read = {standard.get(what, what): column for what, column in named.items() if column}
        nearer = " (a value between the two sides counts for the nearer one)" if self.winner == PREFERENCE else ""
        return ", ".join(f"{what} from '{column}'" for what, column in read.items() if what != column) + nearer


def find_columns(names: Sequence[str], chosen: Mapping[str, str] | None = None) -> VoteColumns:
    """Return the columns of models, verdict and labels.

    chosen: columns set by the caller: one of `CHOOSABLE` -> column.

    Raises: DataError if there are no columns of two models and a verdict; UnknownName for a column that does not exist.
    """
    chosen = chosen or {}
    for what, column in chosen.items():
        if what not in CHOOSABLE:
            raise UnknownName("part of a vote", what, nearest(what, CHOOSABLE), f"known: {', '.join(CHOOSABLE)}")
        if column not in names:
            raise UnknownName(f"column for {what}", column, nearest(column, names), f"columns: {', '.join(names)}")
    pair = next((pair for pair in SIDES if set(pair) <= set(names)), (None, None))
    first, second = chosen.get("model_a", pair[0]), chosen.get("model_b", pair[1])
    winner = chosen.get("winner") or _first_of(("winner", *([PREFERENCE] if pair in NUMBERED else [])), names)
    if first is None or second is None or not (winner or _several(names)):
        raise DataError(
            f"the file has columns {', '.join(names) or '(none)'}; expected model_a, model_b (or left, right; model_1, "
            f"model_2; generator_1, generator_2) and winner (or preference; {', '.join(ONE_HOT)}): name them with "
            "--columns model_a=...,model_b=...,winner=..."
        )
    kinds = ("prompt", "judge", "language", "category", "time")
    labels = zip(kinds, (PROMPTS, JUDGES, LANGUAGES, CATEGORIES, TIMES), strict=True)
    return VoteColumns(first, second, winner, *(chosen.get(what) or _first_of(known, names) for what, known in labels))


def _several(names: Sequence[str]) -> tuple[str, ...] | None:
    return next((columns for columns in (ONE_HOT, BOTH_ORDERS) if set(columns) <= set(names)), None)


def verdicts_in(rows: Rows, columns: VoteColumns) -> list[object]:
    """Return each row's verdict in the words of `outcome_of`, or unchanged if it is unknown; None without a verdict."""
    is_numbered = columns.first.endswith("1") and columns.second.endswith("2")
    sides = {columns.first: "model_a", columns.second: "model_b"} if is_numbered else {}
    if columns.winner is not None:
        return [_numbered(value, sides) if is_numbered else value for value in rows[columns.winner]]
    several = _several(rows.column_names) or ONE_HOT
    values = zip(*(rows[name] for name in several), strict=True)
    return [_agreed(row_values, sides) if several == BOTH_ORDERS else _marked(row_values) for row_values in values]


def _marked(values: Sequence[object]) -> str | None:
    words = ("model_a", "model_b", "tie")
    marked = [word for word, value in zip(words, values, strict=True) if str(value).lower() in {"1", "1.0", "true"}]
    return " and ".join(marked) or None


def _agreed(values: Sequence[object], sides: Mapping[str, str]) -> object:
    """Return the verdict of both orders; as in MT-bench, two that differ are a tie, and an error is not a verdict."""
    if any(value is None or value == "error" for value in values):
        return None
    verdict, other = (_numbered(value, sides) for value in values)
    return verdict if verdict == other else "tie (inconsistent)"


def _numbered(value: object, sides: Mapping[str, str]) -> object:
    """Return a verdict on numbered sides: 1, 2, a preference from 1 to 2, or a side's column.

    Ratings use wins and ties only, so a preference in between counts for the nearer side.
    """
    if isinstance(value, str) and value in sides:
        return sides[value]
    if not isinstance(value, str | SupportsFloat):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    if math.isnan(number):
        return None
    if number in {0.0, 1.5}:
        return "tie"
    return value if not 1.0 <= number <= 2.0 else "model_a" if number < 1.5 else "model_b"


def outcome_of(verdict: object, first: str, second: str) -> float | str | None:
    """Return 1 if the first model won, 0 if the second, 0.5 for a tie; None without a verdict; an unknown one as text.

    A verdict is model_a, model_b (also a, b, left, right), the winning model's name, tie, `tie (bothbad)` or both_bad.
    """
    text = "" if verdict is None else str(verdict).strip()
    word = text.lower()
    if not word:
        return None
    if word in FIRST_WON or text == first:
        return 1.0
    if word in SECOND_WON or text == second:
        return 0.0
    return 0.5 if TIED.fullmatch(word) else text


def _first_of(known: Iterable[str], names: Sequence[str]) -> str | None:
    return next((name for name in known if name in names), None)
