"""Files of votes: reading, checks, counts of rows that are not votes, and the style of the answers.

Votes can be divided by category or language of the prompt, and by month.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assaymark.arena.votes import By, Over, Votes
from assaymark.datasets.csv_files import delimiter_of
from assaymark.datasets.files import read_files
from assaymark.datasets.rows import Rows
from assaymark.datasets.vote_columns import VoteColumns, find_columns, one_vote_a_row, outcome_of, verdicts_in
from assaymark.errors import DataError, UnknownName
from assaymark.registry import nearest
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.battles import Battles

COUNTED = "is_counted"
_TRUTHS = {"": True, "true": True, "1": True, "1.0": True, "yes": True,
           "false": False, "0": False, "0.0": False, "no": False}  # fmt: skip
_MILLISECONDS = 1e11  # a number of seconds above it would be after the year 5000
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


def parts_of(rows: Rows, columns: VoteColumns, used: Sequence[int]) -> dict[Over, NDArray[np.object_]]:
    """Return the part of each used row for each kind that the file has; "" where it is not known. Shapes: [votes]."""
    parts: dict[Over, NDArray[np.object_]] = {}
    if columns.category is not None:
        parts["category"] = _texts(rows[columns.category], used)
    if columns.language is not None:
        parts["language"] = _texts(rows[columns.language], used)
    if columns.time is not None:
        values = rows[columns.time]
        parts["time"] = np.array([month_of(values[index]) for index in used], dtype=object)
    return parts


def month_of(value: object) -> str:
    """Return the month, in UTC, of a number of seconds or milliseconds since 1970, a date, or an ISO 8601 text.

    "" if it is none of these. Example: `2024-06`.
    """
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, int | float) or _is_number(str(value)):
            seconds = float(str(value))
            moment = datetime.fromtimestamp(seconds / 1000 if seconds > _MILLISECONDS else seconds, UTC)
        else:
            moment = datetime.fromisoformat(str(value).strip())
    except (ValueError, OverflowError, OSError):
        return ""
    return (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m")


def _is_number(text: str) -> bool:
    """Return whether a text is a number of seconds; 20240601 is a date."""
    try:
        return math.isfinite(float(text)) and len(text.partition(".")[0]) > len("20240601")
    except ValueError:
        return False


def _texts(values: Sequence[object], used: Sequence[int]) -> NDArray[np.object_]:
    return np.array(["" if values[index] is None else str(values[index]).strip() for index in used], dtype=object)


def read_votes(
    path: Path, *, language: str | None = None, style: bool = False, columns: Mapping[str, str] | None = None
) -> Votes:
    """Return the votes of a CSV (separated by `,` `;` tab or `|`), JSON lines, JSON or Parquet file.

    Raises: DataError as `votes_in`, or if the file cannot be read; UnknownName for a language it lacks.
    """
    is_csv = bool({".csv", ".tsv"} & set(path.suffixes)) and path.is_file() and path.stat().st_size > 0
    rows = read_files([path], {"delimiter": delimiter_of(path)} if is_csv else None)
    if not len(rows):
        raise DataError(f"{path} has no rows; expected one for each vote")
    return votes_in(rows, language=language, style=style, columns=columns)


def votes_in(
    rows: Rows, *, language: str | None = None, style: bool = False, columns: Mapping[str, str] | None = None
) -> Votes:
    """Return the votes in rows, optionally of one language only, and with the answers' style if `style`.

    Rows without a verdict or a model, battles of a model with itself, and rows whose `is_counted` is false (votes with
    the names known, or on an answer that names its model), are excluded and counted. An unknown verdict
    is an error: excluding one spelling of "B won" would bias the ratings.

    `columns` sets columns with other names (`model_a` -> column, see `find_columns`).

    Raises: DataError for missing columns, an unknown verdict, or no vote at all; UnknownName for a language or column.
    """
    rows = rows if columns else one_vote_a_row(rows)
    vote_columns = find_columns(rows.column_names, columns)
    wanted = range(len(rows)) if language is None else _in_language(rows, vote_columns, language)
    sides = [
        ["" if model is None else str(model).strip() for model in rows[column]]
        for column in (vote_columns.first, vote_columns.second)
    ]
    verdicts = verdicts_in(rows, vote_columns)
    counts = _are_counted(rows[COUNTED] if COUNTED in rows.column_names else [True] * len(rows))
    used, outcomes, left_out = _usable([index for index in wanted if counts[index]], sides, verdicts)
    if n_not_counted := sum(not counts[index] for index in wanted):
        left_out[f"with a false '{COUNTED}'"] = n_not_counted
    models, battles = _battles([sides[0][index] for index in used], [sides[1][index] for index in used], outcomes)
    named: tuple[tuple[By, str | None], ...] = (("prompt", vote_columns.prompt), ("judge", vote_columns.judge))
    chosen = np.array(used)
    return Votes(
        models,
        battles,
        {by: _labels(rows[column])[chosen] for by, column in named if column},
        {name: values[chosen] for name, values in styles_in(rows).items()} if style else {},
        vote_columns,
        n_rows=len(wanted),
        n_repeated=_n_repeated(rows, used) if vote_columns.prompt and vote_columns.judge else None,
        left_out=dict(left_out),
        parts=parts_of(rows, vote_columns, used),
        rows=chosen + 1,
    )


def _are_counted(values: Sequence[object]) -> list[bool]:
    """Return whether each row may count; an unknown one may. Raises: DataError for what is neither true nor false."""
    texts = ["" if value is None else str(value).strip().lower() for value in values]
    if unclear := next((number for number, text in enumerate(texts, 1) if text not in _TRUTHS), 0):
        raise DataError(f"row {unclear} has the {COUNTED} {values[unclear - 1]!r:.40}; expected true or false")
    return [_TRUTHS[text] for text in texts]


def _usable(
    wanted: Sequence[int], sides: Sequence[Sequence[str]], verdicts: Sequence[object]
) -> tuple[list[int], list[float], Counter[str]]:
    """Return the rows that are votes, their outcomes, and the numbers of excluded rows by reason.

    Raises: DataError for an unknown verdict, or no vote at all.
    """
    left_out: Counter[str] = Counter()
    used: list[int] = []
    outcomes: list[float] = []
    for index in wanted:
        first, second = sides[0][index], sides[1][index]
        outcome = outcome_of(verdicts[index], first, second)
        if (reason := _unusable(first, second, outcome)) is not None:
            left_out[reason] += 1
        elif isinstance(outcome, str):
            raise DataError(
                f"row {index + 1} has the winner '{outcome}'; expected model_a, model_b, tie, 'tie (bothbad)', or the "
                f"name of one of its models ({first}, {second})"
            )
        elif outcome is not None:
            used.append(index)
            outcomes.append(outcome)
    if not used:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise DataError(f"none of {len(wanted)} rows is a vote: {reasons or 'the file has no rows'}")
    return used, outcomes, left_out


def _in_language(rows: Rows, columns: VoteColumns, language: str) -> list[int]:
    if columns.language is None:
        raise DataError(f"the file has no column 'language', so its votes in {language} cannot be selected")
    languages = [str(value) for value in rows[columns.language]]
    known = sorted(set(languages))
    if language not in known:
        raise UnknownName("language in this file", language, nearest(language, known) or known[:5])
    return [index for index, value in enumerate(languages) if value == language]


def _unusable(first: str, second: str, outcome: float | str | None) -> str | None:
    if not first or not second:
        return "without a model"
    if first == second:
        return "of a model against itself"
    return "without a verdict" if outcome is None else None


def _battles(first: Sequence[str], second: Sequence[str], outcomes: Sequence[float]) -> tuple[tuple[str, ...], Battles]:
    models = tuple(sorted({*first, *second}))
    number_of = {name: number for number, name in enumerate(models)}
    sides = [np.array([number_of[name] for name in names], dtype=np.int64) for names in (first, second)]
    return models, Battles(sides[0], sides[1], np.array(outcomes), len(models))


def _labels(values: Sequence[object]) -> Ints:
    """Return a number per row, equal for equal labels; a row without a label has a number of its own."""
    numbers: dict[str, int] = {}
    keys = (f"row {row}" if value is None else f"is {value}" for row, value in enumerate(values))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _n_repeated(rows: Rows, used: Sequence[int]) -> int:
    """Return the number of these rows that equal an earlier one in every column."""
    columns = [[value if isinstance(value, str) else str(value) for value in rows[name]] for name in rows.column_names]
    return len(used) - len({hash(tuple(column[index] for column in columns)) for index in used})


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
