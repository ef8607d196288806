"""How the answers in a user's file name an option of their question: by its text, its letter or its number.

The same answers may fit several readings: `2` beside the options 2, 3, 4 and 1 is the text of A, C counted from 0 and B
counted from 1. A wrong guess would make every score wrong without a sign of it, so apart from texts that fit every row
a reading is chosen only where the rows leave no other one; see decision 20.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assaymark.errors import DataError

LETTERS = "ABCDEFGHIJ"
TEXT, LETTER, FROM_0, FROM_1 = "text", "letter", "number from 0", "number from 1"
READINGS: Mapping[str, str] = {"text": TEXT, "letter": LETTER, "from_0": FROM_0, "from_1": FROM_1}
"""Value of the option `answers` -> reading."""
IN_WORDS = {TEXT: "the text of a choice", LETTER: "a letter", FROM_0: "a number from 0", FROM_1: "a number from 1"}
_PREFERRED = (LETTER, TEXT, FROM_0, FROM_1)  # where two readings fit equally many rows, but never the same row


@dataclass(slots=True)
class _Conflict:
    """Rows that two readings both fit, with different options."""

    example: str
    n: int = 0


@dataclass(slots=True)
class AnswerCounts:
    """Counts of the rows that each reading of the answers fits.

    is_typed: whether the file states types, as JSON does and CSV does not: there a number beside options that are texts
        may well be an index.
    """

    is_typed: bool = False
    n: int = 0
    n_unique: int = 0  # answers that are the text of exactly one option
    n_exact: int = 0  # answers that are an option without conversion to text
    n_indices: int = 0  # whole numbers that are the text of an option, which is a text
    fits: Counter[str] = field(default_factory=Counter)
    _conflicts: dict[tuple[str, str], _Conflict] = field(default_factory=dict)

    def add(self, answer: object, options: Sequence[object]) -> None:
        """Count one answer to a question with these options; None is not an answer."""
        if answer is None:
            return
        self.n += 1
        places = _places(answer, options)
        self.fits.update(list(places))  # a mapping would add its values
        if (place := places.get(TEXT)) is not None:
            self.n_unique += sum(is_same_text(answer, option) for option in options) == 1
            self.n_exact += answer in options
            self.n_indices += isinstance(answer, int) and isinstance(options[place], str)
        for reading, place in places.items():
            for other, elsewhere in places.items():
                if place != elsewhere:
                    example = f"'{answer!s:.40}' is {_option(place, options)}"
                    self._conflicts.setdefault((reading, other), _Conflict(example)).n += 1

    def reading(self, column: str, named: str | None = None) -> str:
        """Return how the answers in `column` name an option; `named` is the reading that the user has named.

        Answers that are the text of exactly one option in every row are that text. Otherwise the reading that fits most
        rows decides; rows that it does not fit are at fault.

        Raises: DataError where another reading fits as many rows, or is the text of an option in half of them.
        """
        if named is not None:
            return named
        if self.n_unique == self.n > 0:
            by_index = max((FROM_0, FROM_1), key=lambda number: self.fits[number])
            if not (self.is_typed and self.n_indices == self.n == self.fits[by_index]):
                return TEXT
            if self._n_both(TEXT, by_index):
                raise self._ambiguous(column, TEXT, by_index)
            return by_index
        best = max(_PREFERRED, key=lambda reading: self.fits[reading])
        if not self.fits[best]:
            return TEXT
        for other in _PREFERRED:
            n_both = self._n_both(best, other)
            is_rival = self.fits[other] == self.fits[best] or (other == TEXT and 2 * n_both >= self.n)
            if n_both and is_rival and not (other == TEXT and self.is_typed and self.n_indices):
                raise self._ambiguous(column, best, other)
        return best

    def _n_both(self, reading: str, other: str) -> int:
        conflict = self._conflicts.get((reading, other))
        return 0 if conflict is None else conflict.n

    def _ambiguous(self, column: str, reading: str, other: str) -> DataError:
        flags = {name: flag for flag, name in READINGS.items()}
        ways = [f"{IN_WORDS[a]} ({self._conflicts[a, b].example})" for a, b in ((reading, other), (other, reading))]
        return DataError(
            f"the answers in column '{column}' can be read in two ways: as {ways[0]}, or as {ways[1]}; say which with "
            f"--answers {flags[reading]} or --answers {flags[other]}"
        )


def _option(place: int, options: Sequence[object]) -> str:
    return f"{LETTERS[place]}, '{options[place]!s:.40}'" if place < len(LETTERS) else f"'{options[place]!s:.40}'"


def _places(answer: object, options: Sequence[object]) -> dict[str, int]:
    """Return the position of the option that an answer names, by reading; readings that do not fit are left out."""
    text, places = str(answer).strip(), {}
    if (place := text_index(answer, options)) is not None:
        places[TEXT] = place
    if len(text) == 1 and text.upper() in LETTERS[: len(options)]:
        places[LETTER] = LETTERS.index(text.upper())
    if (number := whole_number(answer)) is not None:
        places.update({name: number - first for name, first in ((FROM_0, 0), (FROM_1, 1))
                       if 0 <= number - first < len(options)})  # fmt: skip
    return places


def whole_number(answer: object) -> int | None:
    """Return the number that an answer is, from 0 to 999; 1.0 is one, as a column with an empty cell is stored."""
    match = re.fullmatch(r"([0-9]{1,3})(?:\.0)?", str(answer).strip())
    return None if match is None else int(match[1])


def text_index(answer: object, options: Sequence[object]) -> int | None:
    """Return the position of the first option whose text is the answer; None if there is none."""
    return next((i for i, option in enumerate(options) if is_same_text(answer, option)), None)


def is_same_text(answer: object, option: object) -> bool:
    """Return whether an answer is the text of an option."""
    return option is not None and (answer == option or str(answer).strip() == str(option).strip())


def counted_answers(pairs: Iterable[tuple[object, Sequence[object]]], *, is_typed: bool = False) -> AnswerCounts:
    """Return the counts of (answer, options) pairs."""
    counts = AnswerCounts(is_typed)
    for answer, options in pairs:
        counts.add(answer, options)
    return counts
