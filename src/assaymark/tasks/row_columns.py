"""Find the columns of question, options and answer in a user's file, and the rows that lack one of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from assaymark.datasets import Rows
from assaymark.datasets.csv_files import csv_lines
from assaymark.datasets.files import MOST_FAULTS
from assaymark.errors import DataError, few
from assaymark.registry import nearest
from assaymark.tasks.answer_readings import (
    FROM_0,
    FROM_1,
    LETTER,
    LETTERS,
    TEXT,
    AnswerCounts,
    is_same_text,
    text_index,
    whole_number,
)
from assaymark.tasks.messages import ChatColumns, are_messages, text_key

LABEL = "label"  # how answers name an option of a list with labels
MOST_OPTIONS = 6  # options that a message lists
_QUESTIONS = ("question", "prompt", "stem", "input", "query", "problem", "instruction", "ctx")
_ANSWERS = (
    *("answer", "reference", "target", "output", "label", "solution", "gold", "correct", "correct_answer"),
    *("correct_option", "answer_key", "answerkey", "expected", "ground_truth", "ideal", "completion", "response"),
    *("answers", "references"),
)
_OTHER_ANSWERS = frozenset(_ANSWERS) - {"output", "completion", "response", "solution"}  # these may be a model's
_CALLS = ("calls", "expected_calls", "tool_calls", "ground_truth", "answer", "reference", "target", "expected")
_LISTS = ("choices", "options", "endings")
PASSAGES = ("passage", "context", "article", "paragraph")
_CHATS = ("messages", "conversations", "conversation")
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
    passage: str | None = None  # the text that the question is about; it may be empty
    input: str | None = None  # what follows an instruction, as in Alpaca's files; it may be empty
    others: tuple[str, ...] = ()  # further columns of answers, which must not say otherwise

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that may not be empty."""
        return (self.question, self.answer, *self.options, *([self.choices] if self.choices else []))

    @property
    def used(self) -> tuple[str, ...]:
        """All of these columns."""
        return (*self.needed, *(name for name in (self.passage, self.input) if name))

    @property
    def asked(self) -> str:
        """The question as an expression of a template: with its input, where it has one."""
        if self.input is None:
            return self.question
        return f"{self.question} ~ ('\\n\\n' ~ {self.input} if {self.input} else '')"


def find_columns(columns: Mapping[str, str]) -> QuestionColumns | None:
    """Return the columns of a question; None where there is no column of a question or of an answer.

    columns: lower-case name -> name in the file.

    Raises: DataError for columns of options with a gap between them.
    """
    question = next((columns[name] for name in _QUESTIONS if name in columns), None)
    answer = next((columns[name] for name in _ANSWERS if name in columns), None)
    if question is None or answer is None:
        return None
    passage = next((columns[name] for name in PASSAGES if name in columns), None)
    input_: str | None = None
    if question == columns.get("input") and "instruction" in columns:
        question, input_ = columns["instruction"], question
    others = tuple(own for name, own in columns.items() if name in _OTHER_ANSWERS and own not in (answer, question))
    for pattern in ("{letter}", *_OPTIONS):
        names = [pattern.format(letter=letter.lower(), number=i + 1) for i, letter in enumerate(LETTERS)]
        n_options = next((i for i, name in enumerate(names) if name not in columns), len(names))
        _refuse_gap(columns, names, pattern, n_options)
        if n_options >= 2:
            return QuestionColumns(
                question, answer, tuple(columns[name] for name in names[:n_options]), None, passage, input_, others
            )
    choices = next((columns[name] for name in _LISTS if name in columns), None)
    return QuestionColumns(question, answer, (), choices, passage, input_, others)


NEAR = 8  # letters up to which a column after a gap is one of the options; `option10` is one after any


def _refuse_gap(columns: Mapping[str, str], names: Sequence[str], pattern: str, n_options: int) -> None:
    """Raise DataError for options of which one in between, or the first, has no column: A, B, D; choice0, choice1.

    Also for more of them than there are letters.
    """
    further = [pattern.format(letter=chr(ord("a") + i), number=i + 1) for i in range(len(names), 26)]
    if n_options == len(names) and further[0] in columns:
        raise DataError(
            f"columns '{columns[names[0]]}' to '{columns[further[0]]}'; expected at most {len(names)} options: rename "
            "those that are none"
        )
    among = [*names[n_options + 1 :], *further] if "number" in pattern else names[n_options + 1 : NEAR]
    later = [columns[name] for name in among if name in columns]
    zeroth = columns.get(pattern.format(letter="", number=0)) if "number" in pattern and n_options else None
    if zeroth is not None:
        raise DataError(
            f"column '{zeroth}' is before '{columns[names[0]]}'; expected options numbered from 1: rename them"
        )
    if later and (n_options or (names[1] in columns and len(later) >= 2)):
        known = ", ".join(f"'{each}'" for each in [*(columns[name] for name in names[:n_options]), *later])
        missing = names[n_options].upper() if pattern == "{letter}" else names[n_options]
        raise DataError(
            f"columns {known}, and no column '{missing}' "
            "in between; expected the options' columns without a gap: add it, or rename those that are no options"
        )


def find_chat_columns(columns: Mapping[str, str], first: Callable[[str], object]) -> ChatColumns | None:
    """Return the columns of a chat; None where no column has messages, or a question and an answer are texts.

    columns: lower-case name -> name in the file. first: the first value of a column, of those that are not missing.

    Raises: DataError where only one of question and answer can be read.
    """
    plain = find_columns(columns)
    names = [plain.question] if plain else [columns[name] for name in _CHATS if name in columns]
    answer = plain.answer if plain else next((columns[name] for name in _ANSWERS if name in columns), None)
    of_answer = None if answer is None else first(answer)
    for name in names:
        value = first(name)
        if isinstance(value, str) and value.lstrip().startswith("[{"):
            raise DataError(f"column '{name}' has lists as text, beginning {value!r:.40}; save them as JSON lines")
        if not are_messages(value):
            continue
        if plain is not None and (plain.options or plain.choices):
            raise DataError(f"column '{name}' has messages; expected texts for questions with options")
        last = value if answer is None else of_answer if are_messages(of_answer) else None
        return ChatColumns(name, answer, None if last is None else text_key(last))
    if plain is not None and are_messages(of_answer):
        raise DataError(f"column '{answer}' has messages and '{plain.question}' has none; expected both or neither")
    return None


def plain_name(name: str) -> str | None:
    """Return the name under which a template can use a column, of a column whose name it cannot use.

    None for a name that is as it should be, and for columns that are none of those that are recognised.
    """
    plain = re.sub(r"\W+", "_", name.strip()).strip("_")
    is_known = plain.lower() in _KNOWN and plain.isidentifier()
    return plain if plain != name and is_known else None


_KNOWN = frozenset((
    *_QUESTIONS, *_ANSWERS, *_CALLS, *_LISTS, *PASSAGES, *_CHATS, "tools", "text", *LETTERS.lower(),
    *(pattern.format(letter=letter.lower(), number=i + 1)
      for pattern in _OPTIONS for i, letter in enumerate(LETTERS)),
))  # fmt: skip


@dataclass(slots=True)
class Faults:
    """The first faults of a file, and the number of all."""

    n: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, fault: str) -> None:
        """Count a fault, and keep it if it is among the first."""
        self.n += 1
        if len(self.first) < MOST_FAULTS:
            self.first.append(fault)

    def refuse(self, path: Path) -> None:
        """Raise DataError that lists the first faults, if there is any."""
        if self.n:
            more = f"; and {self.n - len(self.first):,} more" if self.n > len(self.first) else ""
            remedy = "correct them, skip them (--skip_bad_rows), or write a task file"
            raise DataError(f"{path}: {'; '.join(self.first)}{more}; {remedy}")


@dataclass(frozen=True, slots=True)
class ToolColumns:
    """The columns of a question with tools, as the file spells them."""

    question: str  # a text, or (`are_messages`) a list of messages
    tools: str
    calls: str
    are_messages: bool = False


def find_tool_columns(columns: Mapping[str, str]) -> ToolColumns | None:
    """Return the columns of a question with tools and expected calls; None where one of them is missing.

    columns: lower-case name -> name in the file.
    """
    calls = next((columns[name] for name in _CALLS if name in columns), None)
    question = next((columns[name] for name in ("messages", *_QUESTIONS) if name in columns), None)
    if question is None or calls is None or "tools" not in columns:
        return None
    return ToolColumns(question, columns["tools"], calls, question == columns.get("messages"))


def refuse_faulty_lines(path: Path, delimiter: str, answers: str | None = None) -> None:
    """Check every line of a CSV file: as many cells as the header has, no empty cell, an answer among the options.

    The file is read twice, once for how answers name their options (unless `answers`, a reading, says so); no row is
    kept.

    Raises: DataError that lists the first 20 faults with their lines; for answers with two readings.
    """
    header = next(csv_lines(path, delimiter), None)
    if header is None:
        return
    names, faults = header.cells, Faults()
    for i, name in enumerate(names):
        if name in names[:i]:
            remedy = (
                f"'{name}'" if name.strip() else "'', as separators at the end of each line make them; remove those"
            )
            faults.add(f"line {header.number}: two columns are called {remedy}")
    for name in names:
        if "\0" in name:
            faults.add(f"line {header.number}: the name {name!r:.80} has the character NUL")
    try:
        columns = find_columns({(plain_name(name) or name).strip().lower(): name for name in names})
    except DataError as error:
        raise DataError(f"{path}, line {header.number}: {error}") from None
    kind = _reading_of_lines(path, delimiter, names, columns, answers) if columns and columns.options else ""
    check = row_check(columns, kind) if columns else None
    lines = csv_lines(path, delimiter)
    next(lines)
    for line in lines:
        if len(line.cells) != len(names):
            faults.add(f"line {line.number}: {len(line.cells)} cells, but the header has {len(names)}")
        elif any("\0" in cell for cell in line.cells):
            faults.add(f"line {line.number}: the character NUL, which is not allowed in texts")
        elif check is not None:
            row = {name: cell or None for name, cell in zip(names, line.cells, strict=True)}
            if (fault := check(row)) is not None:
                faults.add(f"line {line.number}{fault}")
    faults.refuse(path)


def _reading_of_lines(
    path: Path, delimiter: str, names: Sequence[str], columns: QuestionColumns, answers: str | None
) -> str:
    counts, position = AnswerCounts(), list(names).index(columns.answer)
    places = [list(names).index(option) for option in columns.options]
    lines = csv_lines(path, delimiter)
    next(lines)
    for line in lines:
        if len(line.cells) == len(names):
            counts.add(line.cells[position] or None, [line.cells[place] or None for place in places])
    try:
        return counts.reading(columns.answer, answers)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def refuse_faulty_rows(path: Path, rows: Rows, check: Callable[[Mapping[str, object]], str | None]) -> None:
    """Check every row by a function as `row_check` returns it.

    Raises: DataError that lists the first 20 faults with their locations.
    """
    faulty_rows = ((index, fault) for index, row in enumerate(rows.passing()) if (fault := check(row)))
    faults = Faults()
    kept: list[tuple[int, str]] = []
    for index, fault in faulty_rows:
        if len(kept) < MOST_FAULTS:
            kept.append((index, fault))
        faults.n += 1
    places = rows.places([index for index, _ in kept])
    faults.first = [f"{place}{fault}" for place, (_, fault) in zip(places, kept, strict=True)]
    faults.refuse(path)


_NO_VALUE = re.compile(r"\s*#(?:N/A|REF!|VALUE!|DIV/0!|NAME\?|NULL!|NUM!|SPILL!|CALC!|NV|BEZUG!|WERT!|ZAHL!)\s*")


def row_check(columns: QuestionColumns, kind: str) -> Callable[[Mapping[str, object]], str | None]:
    """Return a function from a row to its fault, to be written after its location; None for a good row."""
    needed = columns.needed

    def fault(row: Mapping[str, object]) -> str | None:
        empty = [column for column in needed if _is_empty(row[column])]
        if empty:
            names = ", ".join(repr(column) for column in empty)
            is_shorter = columns.options and set(empty) <= set(columns.options[2:])
            how = " (questions with fewer options: JSON lines with a list in 'choices')" if is_shorter else ""
            return f" has nothing in column {names}{how}"
        for column in columns.used:
            if (form := _not_text(row[column])) and column not in (columns.choices, columns.answer):
                return f" has {form} in column '{column}'; expected a text"
            if isinstance(cell := row[column], str) and _NO_VALUE.fullmatch(cell):
                return f" has '{cell.strip()}' in column '{column}', a spreadsheet's sign for a formula without a value"
        options = options_of(row, columns) if kind else None
        of = (columns.choices if kind else columns.answer) or ""
        parts = options if kind else references_in(row[columns.answer])
        if parts is not None and not kind and (fault := _other_reference(row, columns, parts)):
            return fault
        if parts is None:
            expected = "the options of the other rows' form" if kind else "a text, or a list of right texts"
            return f" has {_not_text(row[of]) or 'a text'} in column '{of}'; expected {expected}"
        for number, part in enumerate(parts, start=1):
            if _is_empty(part) or _not_text(part):
                return f" has {_not_text(part) or 'nothing'} in entry {number} of column '{of}'; expected a text"
        if not parts:
            return f" has nothing in column '{of}'"
        if options is None:
            return None
        if (form := _not_text(row[columns.answer])) is not None:
            return f" has {form} in column '{columns.answer}'; expected one option"
        if len(options) < 2:
            return f" has {len(options)} option{'' if len(options) == 1 else 's'} in column '{columns.choices}'"
        if kind == LABEL and (unfit := _unfit_labels(row[of], row[columns.answer])):
            return f" has {unfit} in column '{columns.choices}'"
        if not _is_option(row[columns.answer], options, kind):
            answer = row[columns.answer]
            return f": '{answer!s:.40}' in column '{columns.answer}' is {_not(kind, answer, options)}"
        if kind == TEXT and (n := sum(is_same_text(row[columns.answer], option) for option in options)) > 1:
            return f": '{row[columns.answer]!s:.40}' in column '{columns.answer}' is the text of {n} options"
        if fault := _other_option(row, columns, options, kind):
            return fault
        right = _right_option(row[columns.answer], options, kind)
        if right is not None and (n := sum(is_same_text(right, option) for option in options)) > 1:
            return f" has the right option {n} times: '{right!s:.40}'"
        return None

    return fault


def _other_option(
    row: Mapping[str, object], columns: QuestionColumns, options: Sequence[object], kind: str
) -> str | None:
    """Describe another answer column that names a different option; values that name no option are ignored."""
    text = str(row[columns.answer]).strip()
    choices = row[columns.choices] if columns.choices else None
    labels = choices.get("label") if isinstance(choices, Mapping) else None
    if kind == LABEL:
        right = labels.index(row[columns.answer]) if isinstance(labels, list) else None
    elif kind == TEXT:
        right = text_index(row[columns.answer], options)
    else:
        right = LETTERS.index(text.upper()) if kind == LETTER else (whole_number(text) or 0) - (kind == FROM_1)
    for other in columns.others:
        value = row.get(other)
        if _is_empty(value) or _not_text(value):
            continue
        said = str(value).strip()
        named = {i for i, option in enumerate(options) if is_same_text(value, option)}
        if len(said) == 1 and said.upper() in LETTERS[: len(options)]:
            named.add(LETTERS.index(said.upper()))
        if (number := whole_number(said)) is not None:  # from 0 or from 1
            named |= {i for i in (number, number - 1) if 0 <= i < len(options)}
        if isinstance(labels, list) and value in labels:
            named.add(labels.index(value))
        if named and right not in named:
            return _both(columns.answer, text, other, said)
    return None


def _other_reference(row: Mapping[str, object], columns: QuestionColumns, parts: Sequence[object]) -> str | None:
    """Describe another answer column whose text differs; parts and equal numbers count as the same."""
    plain = [_plain(part) for part in parts]
    for other in columns.others:
        value = row.get(other)
        if other.lower() == "label" or _is_empty(value) or (texts := references_in(value)) is None:
            continue
        if not any(_agree(_plain(text), own) for text in texts for own in plain):
            return _both(columns.answer, parts[0] if parts else "", other, texts[0] if texts else "")
    return None


def _both(answer: str, text: object, other: str, said: object) -> str:
    return (
        f" has '{text!s:.40}' in column '{answer}' and '{said!s:.40}' in column '{other}', both names of the right "
        "answer (rename the one that is something else)"
    )


def _plain(text: object) -> str:
    return " ".join(str(text).casefold().split()).strip(".!?")


def _agree(a: str, b: str) -> bool:
    """Return whether one text is the other or a part of it, or both are the same number."""
    if a in b or b in a:
        return True
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def _unfit_labels(choices: object, answer: object) -> str | None:
    """Return the fault of the options' labels; None if each option has its own, and one is the answer."""
    labels = choices.get("label") if isinstance(choices, Mapping) else None
    options = choices["text"] if isinstance(choices, Mapping) else []
    if not isinstance(labels, list) or len(labels) != len(options):
        return f"{len(labels) if isinstance(labels, list) else 'no'} labels for {len(options)} options"
    if len(set(map(str, labels))) < len(labels):
        return f"a label twice ({', '.join(map(str, labels)):.80})"
    return None if answer in labels else f"no label {answer!r:.40} (it has {', '.join(map(repr, labels)):.80})"


def _right_option(answer: object, options: Sequence[object], kind: str) -> object:
    """Return the option that a letter or a number names; None for other kinds of answers."""
    text = str(answer).strip()
    if kind == LETTER:
        return options[LETTERS.index(text.upper())]
    return options[(whole_number(answer) or 0) - (kind == FROM_1)] if kind in (FROM_0, FROM_1) else None


def references_in(value: object) -> Sequence[object] | None:
    """Return the texts any of which is a right answer: a list, or what TriviaQA's and SQuAD's files have; else None."""
    if isinstance(value, Mapping):
        texts = value.get("text") if "text" in value else [value.get("value"), *(value.get("aliases") or ())]
        return texts if isinstance(texts, list) and ("text" in value or "value" in value) else None
    if isinstance(value, list):
        return value
    return [value] if _not_text(value) is None else None


def _not_text(value: object) -> str | None:
    """Name the kind of a value that would be written in Python's notation; None for others."""
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else "bytes" if isinstance(value, bytes) else None


def _is_empty(value: object) -> bool:
    if isinstance(value, str | list):
        return not (value.strip() if isinstance(value, str) else value)
    return value is None or (isinstance(value, float) and isnan(value))


def options_of(row: Mapping[str, object], columns: QuestionColumns) -> Sequence[object] | None:
    """Return a row's options; None for a question without any."""
    if columns.options:
        return [row[column] for column in columns.options]
    value = row[columns.choices] if columns.choices else None
    if isinstance(value, Mapping):
        if "text" in value:
            return value["text"] if isinstance(value["text"], list) else None
        by_letter = [value.get(key) for key in LETTERS]  # with a letter missing in between, the others are not options
        return by_letter[: max((i for i, each in enumerate(by_letter, start=1) if not _is_empty(each)), default=0)]
    return value if isinstance(value, list) else None


def _not(kind: str, answer: object, options: Sequence[object]) -> str:
    """Say that an answer is no option, with the options and those most like it where they are compared as texts."""
    n_options = len(options)
    if kind == TEXT:
        texts = [str(option).strip() for option in options]
        listed = few([f"'{text:.40}'" for text in texts], MOST_OPTIONS)
        near = nearest(str(answer).strip(), texts, 1)
        return f"none of the options {listed}" + (f"; nearest: '{near[0]:.40}'" if near else "")
    return {
        LETTER: f"not a letter from A to {LETTERS[:n_options][-1]}",
        FROM_0: f"not a number from 0 to {n_options - 1}",
        FROM_1: f"not a number from 1 to {n_options}",
        LABEL: "none of the labels",
    }[kind]


def _is_option(answer: object, options: Sequence[object], kind: str) -> bool:
    text = str(answer).strip()
    if kind == LETTER:
        return len(text) == 1 and text.upper() in LETTERS[: len(options)]
    if kind == TEXT:
        return text_index(answer, options) is not None
    return kind == LABEL or whole_number(answer) in range(int(kind == FROM_1), len(options) + int(kind == FROM_1))
