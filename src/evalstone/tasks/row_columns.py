"""Find the columns of question, options and answer in a user's file, and the rows that lack one of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalstone.datasets import Rows
from evalstone.datasets.csv_files import csv_lines
from evalstone.datasets.files import at_most
from evalstone.errors import DataError

__all__ = ["LETTERS", "QuestionColumns", "answer_kind", "find_columns", "refuse_faulty_lines", "refuse_faulty_rows"]

LETTERS = "ABCDEFGHIJ"
_QUESTIONS = ("question", "prompt", "input", "query", "problem", "stem", "instruction", "ctx")
_ANSWERS = (
    *("answer", "reference", "target", "output", "label", "solution", "gold", "correct", "correct_answer"),
    *("correct_option", "answer_key", "answerkey", "expected", "ground_truth", "ideal", "completion"),
)
_LISTS = ("choices", "options", "endings")
# names of the columns of a question's options, by letter or number: A, option_a, choice1, ...
_OPTIONS = tuple(
    pattern
    for word in ("option", "choice", "answer", "op")
    for pattern in (f"{word}_{{letter}}", f"{word}{{letter}}", f"{word}_{{number}}", f"{word}{{number}}")
)


@dataclass(frozen=True, slots=True)
class QuestionColumns:
    """The columns of a question, as the file spells them; with `options` or `choices` for multiple choice."""

    question: str
    answer: str
    options: tuple[str, ...] = ()  # one column each
    choices: str | None = None  # one column with a list

    @property
    def used(self) -> tuple[str, ...]:
        """All of these columns."""
        return (self.question, self.answer, *self.options, *([self.choices] if self.choices else []))


def find_columns(columns: Mapping[str, str]) -> QuestionColumns | None:
    """Return the columns of a question; None where there is no column of a question or of an answer.

    Args:
        columns: lower-case name -> name in the file.
    """
    question = next((columns[name] for name in _QUESTIONS if name in columns), None)
    answer = next((columns[name] for name in _ANSWERS if name in columns), None)
    if question is None or answer is None:
        return None
    for pattern in ("{letter}", *_OPTIONS):
        names = [pattern.format(letter=letter.lower(), number=i + 1) for i, letter in enumerate(LETTERS)]
        n_options = next((i for i, name in enumerate(names) if name not in columns), len(names))
        if n_options >= 2:
            return QuestionColumns(question, answer, tuple(columns[name] for name in names[:n_options]))
    choices = next((columns[name] for name in _LISTS if name in columns), None)
    return QuestionColumns(question, answer, (), choices)


def refuse_faulty_lines(path: Path, delimiter: str) -> list[str]:
    """Check every line of a CSV file: as many cells as the header has, no empty cell, an answer among the options.

    Returns: the location of each row (`line 2`, ...), for messages.

    Raises: DataError that lists the first 20 faults with their lines.
    """
    lines = csv_lines(path, delimiter)
    header = next(lines, None)
    if header is None:
        return []
    names = header.cells
    faults = [f"line {header.number}: two columns are called '{name}'" for name in _repeated(names)]
    faults += [f"line {header.number}: the name {name!r:.80} has the character NUL" for name in names if "\0" in name]
    whole: list[tuple[str, Mapping[str, Any]]] = []
    for line in lines:
        if len(line.cells) != len(names):
            faults.append(f"line {line.number}: {len(line.cells)} cells, but the header has {len(names)}")
        elif any("\0" in cell for cell in line.cells):
            faults.append(f"line {line.number}: the character NUL, which is not allowed in texts")
        else:
            cells = {name: cell or None for name, cell in zip(names, line.cells, strict=True)}
            whole.append((f"line {line.number}", cells))
    columns = find_columns({name.strip().lower(): name for name in names})
    faults += _row_faults(whole, columns) if columns else []
    if faults:
        raise DataError(f"{path}: {at_most(sorted(faults, key=_line_of))}; correct them, or write a task file")
    return [location for location, _ in whole]


def refuse_faulty_rows(path: Path, rows: Rows, columns: QuestionColumns, locations: Sequence[str]) -> None:
    """Check every row: no empty cell, an answer among the options.

    Args:
        path: the file.
        rows: its rows.
        columns: the columns that are used.
        locations: the location of each row for messages; row numbers are used where it is not one for each row.

    Raises: DataError that lists the first 20 faults with their locations.
    """
    known = locations if len(locations) == len(rows) else [f"row {number}" for number in range(1, len(rows) + 1)]
    faults = _row_faults(list(zip(known, rows, strict=True)), columns)
    if faults:
        raise DataError(f"{path}: {at_most(faults)}; correct them, or write a task file")


def answer_kind(answers: Sequence[Any], n_options: int) -> str:
    """Return how answers name an option: `number from 0`, `number from 1`, `letter` or `text`.

    The majority of answers decides; a few that do not fit are faults of their rows.
    """
    texts = [str(answer).strip() for answer in answers if answer is not None]
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 4]
    letters = [text for text in texts if text.upper() in LETTERS[:n_options] and len(text) == 1]
    if len(numbers) * 2 > len(texts):
        return "number from 1" if 0 not in numbers and n_options in numbers else "number from 0"
    return "letter" if len(letters) * 2 >= len(texts) > 0 else "text"


def _row_faults(rows: Sequence[tuple[str, Mapping[str, Any]]], columns: QuestionColumns) -> list[str]:
    faults = []
    kind = answer_kind([row[columns.answer] for _, row in rows], len(columns.options)) if columns.options else ""
    for location, row in rows:
        empty = [column for column in columns.used if row[column] is None or row[column] != row[column]]
        if empty:
            faults.append(f"{location} has nothing in column {', '.join(repr(column) for column in empty)}")
        elif columns.options and not _is_option(row, columns, kind):
            faults.append(
                f"{location}: '{row[columns.answer]!s:.40}' in column '{columns.answer}' is {_NOT[kind](columns)}"
            )
    return faults


_NOT: Mapping[str, Any] = {
    "letter": lambda columns: f"no letter from A to {LETTERS[len(columns.options) - 1]}",
    "number from 0": lambda columns: f"no number from 0 to {len(columns.options) - 1}",
    "number from 1": lambda columns: f"no number from 1 to {len(columns.options)}",
    "text": lambda _: "none of the options",
}


def _is_option(row: Mapping[str, Any], columns: QuestionColumns, kind: str) -> bool:
    answer = str(row[columns.answer]).strip()
    n_options = len(columns.options)
    if kind == "letter":
        return len(answer) == 1 and answer.upper() in LETTERS[:n_options]
    if kind == "text":
        return row[columns.answer] in [row[column] for column in columns.options]
    least = int(kind == "number from 1")
    return answer in map(str, range(least, n_options + least))


def _repeated(names: Sequence[str]) -> Iterator[str]:
    return (name for i, name in enumerate(names) if name in names[:i])


def _line_of(fault: str) -> int:
    return int(fault.split()[1].rstrip(":"))
