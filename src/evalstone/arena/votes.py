"""Votes from a file: read, checked, and counted where they cannot be used."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalstone.arena.style import STYLES, style_of
from evalstone.arena.vote_columns import VoteColumns, find_columns, outcome_of
from evalstone.datasets.files import read_files
from evalstone.errors import DataError, UnknownName, UsageError
from evalstone.registry import nearest
from evalstone.statistics.battles import Battles

__all__ = ["ORDER", "By", "Votes", "read_votes", "votes_of_rows"]

Floats = NDArray[np.float64]
NumberedRow = tuple[int, Mapping[str, Any]]
By = Literal["prompt", "judge", "vote"]

ORDER: tuple[By, ...] = ("prompt", "judge", "vote")
"""What votes are taken to go together by: the first of these that a file tells of."""


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The usable votes of a file, and what was left out of it.

    Shapes: labels and styles hold one value per vote; styles [votes, 2], side A and side B.
    """

    models: tuple[str, ...]
    battles: Battles
    labels: Mapping[By, NDArray[Any]]  # prompt, judge: which votes belong together
    styles: Mapping[str, Floats]
    columns: VoteColumns
    n_rows: int
    n_repeated: int | None  # rows that say again what an earlier one says; None: the file cannot tell
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> rows

    def groupings(self) -> dict[By, NDArray[Any]]:
        """Return a label per vote for each thing by which votes may go together, as far as the file tells."""
        every = {**self.labels, "vote": np.arange(len(self.battles))}
        return {name: every[name] for name in ORDER if name in every}

    def with_style(self) -> "Votes":
        """Return the votes whose answers' style is known.

        Raises: UsageError where the file tells of no style.
        """
        known = [~np.isnan(values).any(axis=1) for values in self.styles.values()]
        if not known:
            raise UsageError(
                "the file tells nothing of the answers' style; expected columns such as tokens_a and tokens_b "
                "(headers_a, lists_a, bold_a), conv_metadata, or the answers as response_a and response_b"
            )
        kept = np.logical_and.reduce(known)
        if not kept.any():
            raise UsageError(f"no vote tells of all of {', '.join(self.styles)}, so none can be controlled for style")
        battles = self.battles
        chosen = Battles(battles.first[kept], battles.second[kept], battles.outcome[kept], battles.n_models)
        return self.chosen(kept, chosen, self.models)

    def chosen(self, kept: NDArray[np.bool_], battles: Battles, models: Sequence[str]) -> "Votes":
        """Return some of the votes, whose battles number these models."""
        labels = {name: values[kept] for name, values in self.labels.items()}
        styles = {name: values[kept] for name, values in self.styles.items()}
        return replace(self, models=tuple(models), battles=battles, labels=labels, styles=styles)


def read_votes(path: Path, *, language: str | None = None) -> Votes:
    """Return the votes of a CSV, JSON lines, JSON or Parquet file.

    Raises: DataError as `votes_of_rows`, or where the file cannot be read; UnknownName for a language it lacks.
    """
    rows = read_files([path])
    return votes_of_rows(rows, rows.column_names, language=language)


def votes_of_rows(rows: Iterable[Mapping[str, Any]], names: Sequence[str], *, language: str | None = None) -> Votes:
    """Return the votes that rows hold, those of one language if it is given.

    Rows without a verdict or a model, and battles of a model with itself, are left out and counted. A verdict that is
    not known refuses the file: to leave out one spelling of "B won" would turn the board.

    Raises: DataError for missing columns, an unknown verdict, or no vote at all; UnknownName for a language.
    """
    columns = find_columns(names)
    numbered = list(enumerate(rows, start=1))
    if language is not None:
        numbered = _in_language(numbered, columns, language)
    left_out: Counter[str] = Counter()
    used: list[Mapping[str, Any]] = []
    outcomes: list[float] = []
    for number, row in numbered:
        outcome = outcome_of(row, columns)
        if (reason := _unusable(row, columns, outcome)) is not None:
            left_out[reason] += 1
        elif isinstance(outcome, str):
            raise DataError(
                f"row {number} has the winner '{outcome}'; expected model_a, model_b, tie, 'tie (bothbad)', or the "
                f"name of one of its models ({row[columns.first]}, {row[columns.second]})"
            )
        elif outcome is not None:
            used.append(row)
            outcomes.append(outcome)
    if not used:
        told = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise DataError(f"none of {len(numbered)} rows is a vote: {told or 'the file has no rows'}")
    models, battles = _battles(used, columns, outcomes)
    named: tuple[tuple[By, str | None], ...] = (("prompt", columns.prompt), ("judge", columns.judge))
    labels = {by: _labels(used, column) for by, column in named if column}
    n_repeated = _n_repeated(used, columns)
    return Votes(models, battles, labels, _styles(used), columns, len(numbered), n_repeated, dict(left_out))


def _in_language(numbered: Sequence[NumberedRow], columns: VoteColumns, language: str) -> list[NumberedRow]:
    if columns.language is None:
        raise DataError(f"the file has no column 'language', so its votes in {language} cannot be told from others")
    known = sorted({str(row[columns.language]) for _, row in numbered})
    if language not in known:
        raise UnknownName("language in this file", language, nearest(language, known) or known[:5])
    return [(number, row) for number, row in numbered if str(row[columns.language]) == language]


def _unusable(row: Mapping[str, Any], columns: VoteColumns, outcome: float | str | None) -> str | None:
    first, second = row[columns.first], row[columns.second]
    if any(name is None or not str(name).strip() for name in (first, second)):
        return "without a model"
    if str(first) == str(second):
        return "of a model against itself"
    return "without a verdict" if outcome is None else None


def _battles(
    rows: Sequence[Mapping[str, Any]], columns: VoteColumns, outcomes: Sequence[float]
) -> tuple[tuple[str, ...], Battles]:
    names = [(str(row[columns.first]), str(row[columns.second])) for row in rows]
    models = tuple(sorted({name for pair in names for name in pair}))
    place = {name: number for number, name in enumerate(models)}
    sides = np.array([(place[first], place[second]) for first, second in names], dtype=np.int64)
    return models, Battles(sides[:, 0], sides[:, 1], np.array(outcomes), len(models))


def _labels(rows: Sequence[Mapping[str, Any]], column: str) -> NDArray[Any]:
    """Return a number per vote; a row without a label stands alone."""
    places: dict[str, int] = {}
    keys = [f"row {number}" if row[column] is None else f"is {row[column]}" for number, row in enumerate(rows)]
    return np.array([places.setdefault(key, len(places)) for key in keys])


def _styles(rows: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """Return the styles that at least one vote tells of; NaN where a vote does not."""
    found = [style_of(row) for row in rows]
    unknown = (np.nan, np.nan)
    return {
        style: np.array([one.get(style, unknown) for one in found])
        for style in STYLES
        if any(style in one for one in found)
    }


def _n_repeated(rows: Sequence[Mapping[str, Any]], columns: VoteColumns) -> int | None:
    """Return how many rows equal an earlier one in every column; told only where prompt and judge are known."""
    if columns.prompt is None or columns.judge is None:
        return None
    return len(rows) - len({tuple(str(value) for value in row.values()) for row in rows})
