"""The rows that a view shows: searched, filtered, sorted, ranked, cut into pages, with pinned rows on top."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import UsageError
from assaymark.leaderboard.columns import FACTS_BY_KEY, MODEL_TYPES, ORIGINS, FactColumn
from assaymark.leaderboard.index import Scores
from assaymark.leaderboard.interval_ranks import Ranks, tier_starts
from assaymark.leaderboard.query import EVERYTHING, NAME, Condition, parse_query, search_keys
from assaymark.leaderboard.rows import Average, BoardRow, IntervalValue, RowScore, ScoreColumn, averaged
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View
from assaymark.statistics.distributions import two_sided_z

Mask = NDArray[np.bool_]
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One row as a page shows it."""

    row: BoardRow
    rank: int | None  # among the rows it is ranked with; None for baselines and partial rows
    best: int | None  # ends of its set of ranks
    worst: int | None
    average: Average | None  # as the view asks for it
    cells: Mapping[str, RowScore]
    pinned: bool = False
    new_tier: bool = False  # significantly below the first row of the tier above


@dataclass(frozen=True, slots=True)
class Facet:
    """One choice of a filter."""

    key: str
    title: str
    n: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class TablePage:
    """The contents of a table's page."""

    view: View
    scores: tuple[ScoreColumn, ...]  # visible
    facts: tuple[FactColumn, ...]  # visible
    with_rank: bool
    with_average: bool
    rows: tuple[ShownRow, ...]
    n_matching: int  # models
    n_models: int
    n_pages: int
    types: tuple[Facet, ...]
    precisions: tuple[Facet, ...]
    origins: tuple[Facet, ...]
    prompt_sets: tuple[Facet, ...]
    problems: tuple[str, ...]


def show_table(table: BoardTable, view: View, default_facts: Sequence[str]) -> TablePage:
    """Return the page of a table under a view."""
    return _Selection(table, view, default_facts).page()


def all_rows(
    table: BoardTable, view: View, default_facts: Sequence[str], ids: Collection[str] | None = None
) -> list[ShownRow]:
    """Return every row that a view's filters leave, in its order; with `ids` only these rows, ranked among all."""
    selection = _Selection(table, view, default_facts)
    order = selection.order()
    if ids is not None:
        order = order[np.isin(order, [table.places[row_id] for row_id in ids if row_id in table.places])]
    return [selection.shown_row(at) for at in order.tolist()]


def selected_rows(table: BoardTable, view: View, default_facts: Sequence[str]) -> "SelectedRows":
    """Return the rows that a view's filters leave as arrays, for reading a few columns of all rows."""
    return SelectedRows(_Selection(table, view, default_facts))


class SelectedRows:
    """The rows that a view leaves, in its order. Shapes: each array [rows]."""

    def __init__(self, selection: "_Selection") -> None:
        self._selection = selection
        self.places = selection.order()
        """Positions in the table."""
        self.values = selection.average.values[self.places]
        """Averages as the view asks for them; NaN for a row without one."""
        is_ranked = selection.ranks.rank[self.places] > 0
        self.is_compared = is_ranked if is_ranked.any() else self._of_first_group()
        """Models whose averages are of the same columns: those with a rank, else those with the most columns."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def n_models(self) -> int:
        """The number of rows that are not baselines."""
        return int(self._selection.matching.sum())

    def averaged_of(self, row: ShownRow) -> frozenset[str]:
        """Return the columns over which a row's average is taken."""
        return frozenset(column.key for column in self._selection.averaged if column.key in row.cells)

    @property
    def shared(self) -> frozenset[str]:
        """The columns over which the compared models' averages are taken; none if no model has an average."""
        at = np.flatnonzero(self.is_compared)
        return self.averaged_of(self.row(int(at[0]))) if len(at) else frozenset()

    def _of_first_group(self) -> Mask:
        index = self._selection.index
        is_averaged = np.isfinite(self.values) & index.may_rank[self.places]
        groups = index.average_groups[self.places]
        first = groups[is_averaged].min(initial=len(index.average_groups))
        return np.asarray(is_averaged & (groups == first))

    def row(self, at: int) -> ShownRow:
        """Return one of the rows with its cells."""
        return self._selection.shown_row(int(self.places[at]))


class _Selection:
    """A table under a view."""

    def __init__(self, table: BoardTable, view: View, default_facts: Sequence[str]) -> None:
        self.table, self.index, self.view = table, table.index, view
        self.problems = list(view.problems)
        cols = (
            view.cols if view.cols is not None else ("rank", "average", *default_facts, *(c.key for c in table.columns))
        )
        self.cols = set(cols)
        self.visible = tuple(column for column in table.columns if column.key in self.cols)
        self.facts = tuple(FACTS_BY_KEY[key] for key in FACTS_BY_KEY if key in self.cols)
        self.matching = self._matching()
        self.average = self._average()
        self.ranks = self._ranks()

    # ------------------------------------------------------------------------------------- filtering

    def _condition(self) -> Condition:
        try:
            return parse_query(self.view.q, search_keys({column.key: column.title for column in self.table.columns}))
        except UsageError as error:
            self.problems.append(f"search: {error}")
            return EVERYTHING

    def _matching(self) -> Mask:
        view, index = self.view, self.index
        mask = index.matching(self._condition()) & ~index.is_baseline
        for key, wanted in (("type", view.types), ("precision", view.precisions), ("origin", view.origins)):
            if wanted:
                mask &= self._is_one_of(key, wanted)
        if view.prompts:
            mask &= self._is_one_of("prompts", (view.prompts,))
        low, high = view.params
        if low is not None or high is not None:
            params = index.numbers("params")
            with np.errstate(invalid="ignore"):
                mask &= (params >= (0.0 if low is None else low)) & (params <= (np.inf if high is None else high))
        for key in view.hide:
            if key == "partial":
                mask &= index.is_complete
            elif key == "unavailable":
                mask &= index.flags("available") != 0
            elif key != "baselines":
                mask &= index.flags(key) != 1
        return mask

    def _is_one_of(self, key: str, wanted: Sequence[str]) -> Mask:
        texts = self.index.texts(key)
        lowered = {text.lower() for text in wanted}
        lookup = np.array([*(text in lowered for text in texts.distinct), False], dtype=bool)
        mask: Mask = lookup[texts.codes]
        return mask

    # --------------------------------------------------------------------------------------- ranking

    @property
    def averaged(self) -> list[ScoreColumn]:
        """The columns over which the averages are taken."""
        return averaged(self.visible if self.view.average == "visible" else self.table.columns)

    @property
    def is_boards_average(self) -> bool:
        return self.view.average == "all" and self.view.scale == "norm"

    def _average(self) -> Scores:
        """Return the averages of the view: the board's own, or the mean of some columns or of raw values."""
        if self.is_boards_average:
            return self.index.scores("average")
        columns, n = self.averaged, len(self.table.rows)
        if not columns:
            empty = np.full(n, np.nan)
            return Scores(empty, empty, empty, empty)
        parts = [self.index.scores(column.key, raw=self.view.scale == "raw") for column in columns]
        weights = np.array([column.weight for column in columns])
        weights /= weights.sum()
        values = sum((w * part.values for w, part in zip(weights, parts, strict=True)), np.zeros(n))
        squares = sum((w * w * part.stderrs**2 for w, part in zip(weights, parts, strict=True)), np.zeros(n))
        errors = np.sqrt(squares)
        reach = two_sided_z(CONFIDENCE) * errors
        return Scores(values, values - reach, values + reach, errors)

    def _ranks(self) -> Ranks:
        among = self.index.may_rank
        among = among & (self.index.is_complete if self.is_boards_average else np.isfinite(self.average.values))
        if self.view.rank == "filtered":
            among = among & self.matching
        elif self.is_boards_average:
            return self.index.ranks
        return self.index.ranks_among(self.average, among)

    # ---------------------------------------------------------------------------------------- sorting

    def order(self) -> NDArray[np.int64]:
        """Return the positions of the matching rows, with baselines if the order is by a score."""
        key = self.view.sort_key
        is_score = key == "average" or self.table.column(key) is not None
        included = self.matching.copy()
        if is_score and "baselines" not in self.view.hide:
            included |= self.index.is_baseline
        if key == "average" and not self.is_boards_average:
            every = self._order_of_all(key)
        else:
            name = (key, self.view.scale == "raw", self.view.descending)
            every = self.index.order(name, lambda: self._order_of_all(key))
        return every[included[every]]

    def _order_of_all(self, key: str) -> NDArray[np.int64]:
        values = self._sort_values(key)
        values = -values if self.view.descending else values
        groups = np.zeros(len(values), dtype=np.int64)
        if key == "average":
            groups = self.index.average_groups if self.is_boards_average else self.index.parts
        keys = (self.index.name_order, np.nan_to_num(values, nan=np.inf), np.isnan(values), groups)
        return np.asarray(np.lexsort(keys))

    def _sort_values(self, key: str) -> NDArray[np.float64]:
        if key == "average":
            return self.average.values
        if self.table.column(key) is not None:
            return self.index.scores(key, raw=self.view.scale == "raw").values
        kind = FACTS_BY_KEY[key].kind if key in FACTS_BY_KEY else "text"
        if kind == "number":
            return self.index.numbers(key)
        if kind == "flag":
            flags = self.index.flags(key).astype(np.float64)
            return np.where(flags < 0, np.nan, flags)
        texts = self.index.texts(NAME if key == "model" else key)
        places = np.empty(len(texts.distinct) + 1)
        order = [model_type.key for model_type in MODEL_TYPES] if key == "type" else sorted(texts.distinct)
        position = {text: float(place) for place, text in enumerate(order)}
        places[:-1] = [position.get(text, np.nan) for text in texts.distinct]
        places[-1] = np.nan
        return np.asarray(places[texts.codes])

    # ----------------------------------------------------------------------------------------- pages

    def shown_row(self, at: int, *, pinned: bool = False, new_tier: bool = False) -> ShownRow:
        """Return one row with rank, average and cells under the view."""
        row = self.table.rows[at]
        rank = int(self.ranks.rank[at])
        cells = row.cells
        if self.view.scale == "raw":
            cells = {key: replace(cell, number=cell.raw or cell.number) for key, cell in cells.items()}
        average = row.average if self.is_boards_average else self._average_at(at)
        best, worst = int(self.ranks.best[at]), int(self.ranks.worst[at])  # 0 as the rank, where there is none
        return ShownRow(row, rank or None, best or None, worst or None, average, cells, pinned, new_tier)

    def _average_at(self, at: int) -> Average | None:
        value, low, high, error = (float(part[at]) for part in (self.average.values, self.average.lows,
                                                               self.average.highs, self.average.stderrs))  # fmt: skip
        if not np.isfinite(value):
            return None
        has = np.isfinite(low)
        number = IntervalValue(
            value, low if has else None, high if has else None, error if has else None, "mean of columns"
        )
        return Average(number, self.table.n_averaged)

    def page(self) -> TablePage:
        """Return the page."""
        view, order = self.view, self.order()
        n_pages = max(1, -(-len(order) // view.per))
        first = (min(view.page, n_pages) - 1) * view.per
        tiers = self._tiers(order[: first + view.per])  # a tier depends on the rows above it
        pinned = {self.table.places[row_id] for row_id in view.pins if row_id in self.table.places}
        pins = [at for at in order.tolist() if at in pinned]  # in the order of the rows, then rows that do not match
        pins += sorted(pinned - set(pins))
        rows = [self.shown_row(at, pinned=True) for at in pins]
        rows += [
            self.shown_row(int(at), new_tier=bool(tiers[place]) and place > first)
            for place, at in enumerate(order[first : first + view.per].tolist(), start=first)
            if at not in pins
        ]
        models = ~self.index.is_baseline
        return TablePage(
            replace(view, page=min(view.page, n_pages)),
            self.visible,
            self.facts,
            "rank" in self.cols,
            "average" in self.cols and any(row.average is not None for row in self.table.rows),
            tuple(rows),
            int(self.matching.sum()),
            int(models.sum()),
            n_pages,
            self._facets("type", view.types),
            self._facets("precision", view.precisions),
            self._facets("origin", view.origins),
            self._facets("prompts", (view.prompts,)),
            tuple(self.problems),
        )

    def _tiers(self, order: NDArray[np.int64]) -> Mask:
        if self.view.sort != "-average":
            return np.zeros(len(order), dtype=bool)
        ranked = self.ranks.rank[order] > 0
        pick = [
            np.where(ranked, part[order], np.nan)
            for part in (self.average.values, self.average.lows, self.average.highs)
        ]
        groups = self.index.average_groups[order]
        starts: Mask = tier_starts(*pick) | (np.diff(groups, prepend=groups[:1]) != 0)
        return starts

    def _facets(self, key: str, chosen: Sequence[str]) -> tuple[Facet, ...]:
        """Return the values of a column with their numbers of models, the commonest first, or in their order."""
        counts = list(self.index.counts(key))
        lowered = {text.lower() for text in chosen}
        titles = {"type": {kind.key: kind.title for kind in MODEL_TYPES}, "origin": ORIGINS}.get(key)
        if titles is not None:
            by_key = dict(counts)
            return tuple(
                Facet(name, title, by_key[name], name in lowered) for name, title in titles.items() if name in by_key
            )
        counts.sort(key=lambda each: (-each[1], each[0]))
        return tuple(Facet(text, text, n, text.lower() in lowered) for text, n in counts)
