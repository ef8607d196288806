"""A table's rows as arrays, so that a search, a sort or a rank over all rows takes milliseconds.

Texts and choices are held as codes into their distinct values: a term is tried on each distinct value once.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assaymark.leaderboard.columns import FACTS, FROM_FILES
from assaymark.leaderboard.interval_ranks import Ranks, interval_ranks
from assaymark.leaderboard.query import NAME, Condition, Term
from assaymark.leaderboard.rows import BoardRow, IntervalValue, ScoreColumn, averaged
from assaymark.statistics.arrays import Floats

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scores:
    """One column's numbers over all rows; NaN where there is none."""

    values: Floats
    lows: Floats
    highs: Floats
    stderrs: Floats


@dataclass(frozen=True, slots=True)
class _Texts:
    """One column of texts."""

    codes: NDArray[np.int64]  # -1: the row has none
    distinct: list[str]  # lower case


class TableIndex:
    """Columns as arrays, made when first needed."""

    def __init__(self, columns: "Sequence[ScoreColumn]", rows: "Sequence[BoardRow]", *, rank_apart: bool) -> None:
        self._columns = {column.key: column for column in columns}
        self._rows = rows
        self._rank_apart = rank_apart
        self._texts: dict[str, _Texts] = {}
        self._numbers: dict[str, Floats] = {}
        self._flags: dict[str, NDArray[np.int8]] = {}
        self._counts: dict[str, tuple[tuple[str, int], ...]] = {}
        self._scores: dict[tuple[str, bool], Scores] = {}
        self._orders: dict[tuple[str, bool, bool], NDArray[np.int64]] = {}
        self._kinds = {column.key: column.kind for column in FACTS}

    @cached_property
    def is_baseline(self) -> Mask:
        """Whether each row is a baseline rather than a model."""
        return np.array([row.is_baseline for row in self._rows], dtype=bool)

    @cached_property
    def _averaged(self) -> list[ScoreColumn]:
        return averaged(list(self._columns.values()))

    @cached_property
    def is_complete(self) -> Mask:
        """Whether each row has a score in every column."""
        n = len(self._averaged)
        return np.array([row.average is not None and row.average.n_columns == n for row in self._rows], dtype=bool)

    @cached_property
    def parts(self) -> NDArray[np.int64]:
        """The part of an order by the average to which each row belongs: 0 models, 1 visitors' reports, 2 baselines."""
        return np.array([2 if row.is_baseline else int(row.is_upload) for row in self._rows], dtype=np.int64)

    @cached_property
    def average_groups(self) -> NDArray[np.int64]:
        """The place of each row's group in an order by the average; averages of different columns are never ordered.

        Complete rows come first, then rows with the same columns together, those with most columns first. Rows that
        visitors reported, which nothing here verifies, follow in the same way, and baselines come last.
        """
        answered = [tuple(column.key not in row.cells for column in self._averaged) for row in self._rows]
        keys = [
            (part, 0, ()) if is_complete else (part, 1 + sum(lacks), lacks)
            for part, is_complete, lacks in zip(self.parts.tolist(), self.is_complete.tolist(), answered, strict=True)
        ]
        place = {key: at for at, key in enumerate(sorted(set(keys)))}
        return np.array([place[key] for key in keys], dtype=np.int64)

    @cached_property
    def may_rank(self) -> Mask:
        """Whether each row may have a rank: models with numbers computed here or stated by the board's host."""
        return np.array([not (row.is_baseline or row.is_upload) for row in self._rows], dtype=bool)

    @cached_property
    def rank_groups(self) -> NDArray[np.int64]:
        """Codes of the groups in which rows are ranked together; those from files are apart from measured ones."""
        codes = self.texts("prompts").codes if self._rank_apart else np.zeros(len(self._rows), dtype=np.int64)
        is_from_files = np.array([row.origin in FROM_FILES for row in self._rows], dtype=np.int64)
        return np.asarray(2 * codes + is_from_files)

    @cached_property
    def ranks(self) -> Ranks:
        """Ranks by the board's average, over all complete rows that are models."""
        return self.ranks_among(self.scores("average"), self.is_complete & self.may_rank)

    def ranks_among(self, scores: Scores, among: Mask) -> Ranks:
        """Return ranks by these scores among some of the rows; the others have none."""
        values = np.where(among, scores.values, np.nan)
        return interval_ranks(values, scores.lows, scores.highs, groups=self.rank_groups)

    def scores(self, key: str, *, raw: bool = False) -> Scores:
        """Return a score column, or `average`, as it counts on the board or raw."""
        scores = self._scores.get((key, raw))
        if scores is None:
            scores = self._scores[key, raw] = self._scores_of(key, raw=raw)
        return scores

    def _scores_of(self, key: str, *, raw: bool) -> Scores:
        numbers: list[IntervalValue | None] = []
        for row in self._rows:
            if key == "average":
                numbers.append(None if row.average is None else row.average.number)
            else:
                cell = row.cells.get(key)
                numbers.append(None if cell is None else (cell.raw or cell.number) if raw else cell.number)
        return Scores(
            _floats([None if number is None else number.value for number in numbers]),
            _floats([None if number is None else number.low for number in numbers]),
            _floats([None if number is None else number.high for number in numbers]),
            _floats([None if number is None else number.stderr for number in numbers]),
        )

    def texts(self, key: str) -> _Texts:
        """Return a column of texts, choices or dates, or the models' names."""
        texts = self._texts.get(key)
        if texts is None:
            values = [row.model if key == NAME else row.facts.get(key) for row in self._rows]
            known: dict[str, int] = {}
            codes = [-1 if v is None or v == "" else known.setdefault(str(v).lower(), len(known)) for v in values]
            texts = self._texts[key] = _Texts(np.array(codes, dtype=np.int64), list(known))
        return texts

    def numbers(self, key: str) -> Floats:
        """Return a column of numbers; NaN where a row has none."""
        numbers = self._numbers.get(key)
        if numbers is None:
            values = [row.facts.get(key) for row in self._rows]
            numbers = _floats([v if isinstance(v, int | float) and not isinstance(v, bool) else None for v in values])
            self._numbers[key] = numbers
        return numbers

    def flags(self, key: str) -> NDArray[np.int8]:
        """Return a column of yes (1), no (0) and not stated (-1)."""
        flags = self._flags.get(key)
        if flags is None:
            values = [row.facts.get(key) for row in self._rows]
            flags = np.array([int(v) if isinstance(v, bool) else -1 for v in values], dtype=np.int8)
            self._flags[key] = flags
        return flags

    def counts(self, key: str) -> tuple[tuple[str, int], ...]:
        """Return a column's values, in their spelling, with their numbers of models."""
        counts = self._counts.get(key)
        if counts is None:
            counted = Counter(str(row.facts[key]) for row in self._rows if row.facts.get(key) and not row.is_baseline)
            counts = self._counts[key] = tuple(counted.items())
        return counts

    def order(self, name: tuple[str, bool, bool], make: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return an order of all rows (column, raw, descending), which `make` computes the first time."""
        order = self._orders.get(name)
        if order is None:
            order = self._orders[name] = make()
        return order

    @cached_property
    def name_order(self) -> Floats:
        """Each row's position in the order of names."""
        texts = self.texts(NAME)
        position = {text: place for place, text in enumerate(sorted(texts.distinct))}
        return np.array([*(position[text] for text in texts.distinct), -1.0], dtype=np.float64)[texts.codes]

    @cached_property
    def known_facts(self) -> frozenset[str]:
        """The columns in which some model has a value."""
        return frozenset(key for row in self._rows if not row.is_baseline for key in row.facts)

    @cached_property
    def hidable(self) -> frozenset[str]:
        """Those of `view.HIDDEN_BY` that would leave out any row."""
        models = ~self.is_baseline
        keys = {key for key in ("merged", "moe", "flagged") if bool((self.flags(key) == 1).any())}
        keys |= {"baselines"} if not models.all() else set()
        keys |= {"partial"} if bool((models & ~self.is_complete).any()) else set()
        return frozenset(keys | ({"unavailable"} if bool((self.flags("available") == 0).any()) else set()))

    # ------------------------------------------------------------------------------------- searching

    def matching(self, condition: Condition) -> Mask:
        """Return whether each row fulfils a condition."""
        if not condition.groups:
            return np.ones(len(self._rows), dtype=bool)
        mask = np.zeros(len(self._rows), dtype=bool)
        for group in condition.groups:
            every = np.ones(len(self._rows), dtype=bool)
            for term in group:
                every &= self.fulfilling(term)
            mask |= every
        return mask

    def fulfilling(self, term: Term) -> Mask:
        """Return whether each row fulfils a term."""
        if term.key == "average" or term.key in self._columns:
            is_share = term.key == "average" or self._columns[term.key].is_share
            mask = _compared(self.scores(term.key).values * (100.0 if is_share else 1.0), term)
        elif self._kinds.get(term.key) == "number":
            mask = _compared(self.numbers(term.key), term)
        elif self._kinds.get(term.key) == "flag":
            mask = self.flags(term.key) == int(bool(term.value))
        else:
            mask = self._fulfilling_texts(
                self.texts(term.key), _text_test(term, is_date=term.key in {"date", "uploaded"})
            )
        return ~mask if term.negated else mask

    @staticmethod
    def _fulfilling_texts(texts: _Texts, test: Callable[[str], bool]) -> Mask:
        lookup = np.array([*map(test, texts.distinct), False], dtype=bool)  # the last stands for -1
        mask: Mask = lookup[texts.codes]
        return mask


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _compared(have: Floats, term: Term) -> Mask:
    with np.errstate(invalid="ignore"):
        if isinstance(term.value, tuple):
            low, high = term.value
            return np.asarray((have >= low - 1e-12) & (have <= high + 1e-12))
        return np.asarray(_COMPARE[term.operator](have, float(term.value)))


def _text_test(term: Term, *, is_date: bool) -> Callable[[str], bool]:
    value = str(term.value)
    if term.operator in _COMPARE:
        compare = _COMPARE[term.operator]
        return lambda text: bool(compare(text, value))
    if term.operator == "is":
        return lambda text: text == value
    if term.operator == "contains":
        return lambda text: value in text
    if is_date:
        return lambda text: text.startswith(value)
    return re.compile(rf"(?<![a-z0-9]){re.escape(value)}").search  # type: ignore[return-value]
