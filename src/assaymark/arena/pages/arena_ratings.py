"""The ratings of the arena: a table, four charts, and how they are computed."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from urllib.parse import urlencode

from markupsafe import Markup

from assaymark.arena.published import Published, RatedModel
from assaymark.arena.rating_documents import SHOWN_MODELS, rank_blocks
from assaymark.documents.blocks import Block, Column, table
from assaymark.documents.numbers import NOTHING
from assaymark.records import JsonValue
from assaymark.web.plots import MOST_SERIES, PlotPoint, PlotSeries, history_plot
from assaymark.web.render import plain, plain_fields, shown_moment
from assaymark.web.svg import Bar, PlottedValue, bars, heatmap, on_screens, spans

MOST_BANDS = 3  # of intervals in one chart


@dataclass(frozen=True)
class RatingsPage:
    """The board of the last batch."""

    board: Published
    style: bool
    good: bool  # whether only battles with both answers marked acceptable count
    words: str  # that the names of the shown models contain
    rows: tuple[tuple[int, RatedModel], ...]  # the shown models with their places on the board, from 1
    charts: Mapping[str, Markup]
    history_svg: Markup | None  # ratings over time
    drawn_models: tuple[str, ...]  # those with a line in it, in the order of their colours
    ranks: tuple[Block, ...]  # by category and language
    moments: tuple[Block, ...]  # the ratings over time
    makers: Mapping[str, str]  # organisation and licence of models, by name

    def query(self, **changed: str | bool) -> str:
        """Return the query of this page with other settings; "" and False leave one out."""
        settings = {**self.settings, "q": self.words, **changed}
        pairs = {name: "1" if value is True else value for name, value in settings.items() if value}
        return f"?{urlencode(pairs)}" if pairs else ""

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the board that are not the default, as an address has them."""
        board = self.board
        every = {
            "style": "1" if self.style else "",
            "category": board.category,
            "language": board.language,
            "good": "1" if self.good else "",
        }
        return {name: value for name, value in every.items() if value}

    def to_json(self) -> JsonValue:
        """Return the board without the charts, which show the same numbers; voters as counts alone."""
        made = plain_fields(self.board)
        made["flagged"] = [
            {"n_votes": flag.n_votes, "evidence": plain(flag.evidence), "reason": flag.reason}
            for flag in self.board.flagged
        ]
        return {"style": self.style, "good": self.good, **made, "makers": dict(self.makers)}


NO_MAKERS: Mapping[str, str] = MappingProxyType({})


def ratings_page(
    board: Published, *, style: bool, good: bool = False, words: str = "", makers: Mapping[str, str] = NO_MAKERS
) -> RatingsPage:
    """Return the page of a board.

    Args:
        board: with these settings.
        style: whether it controls for style.
        good: whether only battles of two acceptable answers count.
        words: only models with one of them in their name, organisation or licence; all models without any.
        makers: organisation and licence of models, by name.
    """
    wanted = words.casefold().split()
    texts = [f"{row.model} {makers.get(row.model, '')}".casefold() for row in board.models]
    rows = tuple((place, row) for place, (row, text) in enumerate(zip(board.models, texts, strict=True), 1)
                 if not wanted or any(word in text for word in wanted))  # fmt: skip
    rated = [row.rating for _, row in rows if row.rating is not None]
    matrix = board.matrix
    charts: dict[str, Markup] = {}
    if rated:
        places = {row.model: f"#row-{number}" for number, row in enumerate(board.models, 1)}
        values, shares = [], []
        for rating in rated:
            ends = "" if rating.low is None else f" ({rating.low:,.0f}–{rating.high:,.0f})"
            title, share = f"{rating.model}: {rating.rating:,.0f}{ends}", f"{100 * rating.expected_win_rate:.0f}%"
            place = places[rating.model]
            values.append(PlottedValue(rating.model, rating.rating, rating.low, rating.high, None, title, place))
            shares.append(Bar(rating.model, rating.expected_win_rate, share, f"{rating.model}: {share}", place))
        ratings, win_rates = "Ratings and intervals", "Win rate against all others, equally often"
        charts[ratings] = on_screens(partial(spans, values, ratings))
        charts[win_rates] = on_screens(partial(bars, shares, win_rates))
    if board.n_votes:
        chosen = [place - 1 for place, _ in rows[:SHOWN_MODELS]]
        numbers = [str(at + 1) for at in chosen]
        names = [f"{at + 1} {matrix.models[at]}" for at in chosen]
        shares_won = [[matrix.win_fraction[at][other] for other in chosen] for at in chosen]
        n_battles = [[matrix.n_battles[at][other] for other in chosen] for at in chosen]
        fraction = [[None if value is None else (value, f"{100 * value:.0f}") for value in row] for row in shares_won]
        wins = "Wins of the row against the column, per cent, without ties"
        charts[wins] = on_screens(partial(heatmap, names, numbers, fraction, wins))
        largest = max((count for row in n_battles for count in row), default=0) or 1
        counts = [[(count / largest, f"{count:,}") if count else None for count in row] for row in n_battles]
        charts["Number of battles"] = on_screens(partial(heatmap, names, numbers, counts, "Number of battles"))
    drawn = tuple(rating.model for rating in rated[:MOST_SERIES])
    history = _history_svg(board, drawn) if len(board.history) > 1 else None
    shown = {row.model for _, row in rows}
    ranks = rank_blocks(board.parts, [row.rating for row in board.models if row.rating], shown)
    moments = _moment_blocks(board, shown)
    return RatingsPage(board, style, good, words, rows, charts, history, drawn, ranks, moments, makers)


def _moment_blocks(board: Published, shown: Container[str]) -> tuple[Block, ...]:
    """Return a table of the shown models' ratings at each moment, the latest first."""
    by_moment = [{rating.model: f"{rating.rating:,.0f}" for rating in moment.ratings} for moment in board.history]
    names = [row.model for row in board.models if row.model in shown and any(row.model in of for of in by_moment)]
    columns = [Column(shown_moment(each.at), help=f"{each.n_votes:,} votes") for each in reversed(board.history)]
    rows = [(name, *(of.get(name, NOTHING) for of in reversed(by_moment))) for name in names]
    return (table(["model", *columns], rows),)


def _history_svg(board: Published, models: Sequence[str]) -> Markup:
    """Return the ratings of some models at each moment; points lead to the model's row."""
    rows = {row.model: f"#row-{number}" for number, row in enumerate(board.models, 1)}
    series = []
    for model in models:
        points = []
        for moment in board.history:
            rating = next((rating for rating in moment.ratings if rating.model == model), None)
            if rating is not None:
                ends = "" if rating.low is None else f" ({rating.low:,.0f}–{rating.high:,.0f})"
                title = f"{model}: {rating.rating:,.0f}{ends} after {moment.n_votes:,} votes, {shown_moment(moment.at)}"
                points.append(PlotPoint(moment.at, rating.rating, rating.low, rating.high, title, rows[model]))
        series.append(PlotSeries(model, tuple(points)))
    label = "Ratings over time"
    has_bands = len(series) <= MOST_BANDS  # more would cover each other
    return on_screens(partial(history_plot, series, label, "{:,.0f}".format, has_bands=has_bands))
