"""Which columns of a user's file hold the question, the options and the answer, and which rows lack one of them."""

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
_QUESTIONS = ("question", "prompt", "input", "query", "problem", "instruction", "stem", "ctx")
_ANSWERS = (
    *("answer", "reference", "target", "output", "label", "solution", "gold", "correct", "correct_answer"),
    *("correct_option", "answer_key", "answerkey", "expected", "ground_truth", "ideal", "completion"),
)
_LISTS = ("choices", "options", "endings")
# how the options of one question are named, for letter and number: A, option_a, choice1, ...
_OPTIONS = tuple(
    pattern
    for word in ("option", "choice", "answer", "op")
    for pattern in (f"{word}_{{letter}}", f"{word}{{letter}}", f"{word}_{{number}}", f"{word}{{number}}")
)


@dataclass(frozen=True, slots=True)
class QuestionColumns:
    """The columns of a question, as the file spells them; `options` or `choices` where it offers some."""

    question: str
    answer: str
    options: tuple[str, ...] = ()  # one column each
    choices: str | None = None  # one column with a list

    @property
    def used(self) -> tuple[str, ...]:
        """All of them."""
        return (self.question, self.answer, *self.options, *([self.choices] if self.choices else []))


def find_columns(columns: Mapping[str, str]) -> QuestionColumns | None:
    """Return the columns of a question, None where there is no question or no answer.

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
    """Check every line of a CSV file: as many cells as the header has, nothing missing, an answer among the options.

    Returns: the place of each row (`line 2`, ...), for messages.

    Raises: DataError that lists the faults with their lines, the first 20 of them.
    """
    lines = csv_lines(path, delimiter)
    header = next(lines, None)
    if header is None:
        return []
    names = header.cells
    faults = [f"line {header.number}: two columns are called '{name}'" for name in _repeated(names)]
    faults += [f"line {header.number}: the name {name!r:.80} holds the character NUL" for name in names if "\0" in name]
    whole: list[tuple[str, Mapping[str, Any]]] = []
    for line in lines:
        if len(line.cells) != len(names):
            faults.append(f"line {line.number}: {len(line.cells)} cells, but the header has {len(names)}")
        elif any("\0" in cell for cell in line.cells):
            faults.append(f"line {line.number}: the character NUL, which no text has")
        else:
            cells = {name: cell or None for name, cell in zip(names, line.cells, strict=True)}
            whole.append((f"line {line.number}", cells))
    columns = find_columns({name.strip().lower(): name for name in names})
    faults += _row_faults(whole, columns) if columns else []
    if faults:
        raise DataError(f"{path}: {at_most(sorted(faults, key=_line_of))}; correct them, or write a task file")
    return [place for place, _ in whole]


def refuse_faulty_rows(path: Path, rows: Rows, columns: QuestionColumns, places: Sequence[str]) -> None:
    """Check every row: nothing missing, an answer among the options.

    Args:
        path: the file.
        rows: its rows, as they are asked.
        columns: those that are read.
        places: where each row stands, as messages name it; row numbers where there is none for each.

    Raises: DataError that lists the faults with their places, the first 20 of them.
    """
    known = places if len(places) == len(rows) else [f"row {number}" for number in range(1, len(rows) + 1)]
    faults = _row_faults(list(zip(known, rows, strict=True)), columns)
    if faults:
        raise DataError(f"{path}: {at_most(faults)}; correct them, or write a task file")


def answer_kind(answers: Sequence[Any], n_options: int) -> str:
    """Return how answers name an option: `number from 0`, `number from 1`, `letter` or `text`.

    A few that fit nothing are faults of their rows, so most answers decide.
    """
    texts = [str(answer).strip() for answer in answers if answer is not None]
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 4]
    letters = [text for text in texts if text.upper() in LETTERS[:n_options] and len(text) == 1]
    if len(numbers) * 2 > len(texts):
        return "number from 1" if 0 not in numbers and n_options in numbers else "number from 0"
    return "letter" if len(letters) * 2 > len(texts) else "text"


def _row_faults(rows: Sequence[tuple[str, Mapping[str, Any]]], columns: QuestionColumns) -> list[str]:
    faults = []
    kind = answer_kind([row[columns.answer] for _, row in rows], len(columns.options)) if columns.options else ""
    for place, row in rows:
        empty = [column for column in columns.used if row[column] is None or row[column] != row[column]]
        if empty:
            faults.append(f"{place} has nothing in column {', '.join(repr(column) for column in empty)}")
        elif columns.options and not _is_option(row, columns, kind):
            faults.append(
                f"{place}: '{row[columns.answer]!s:.40}' in column '{columns.answer}' is {_NOT[kind](columns)}"
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
