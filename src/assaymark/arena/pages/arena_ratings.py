"""The ratings of the arena: a table, four charts, and how they are computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from markupsafe import Markup

from assaymark.arena.published import Published
from assaymark.records import JsonValue
from assaymark.web.plots import MOST_SERIES, PlotPoint, PlotSeries, history_plot
from assaymark.web.render import plain, plain_fields, shown_moment
from assaymark.web.svg import Bar, PlottedValue, bars, heatmap, on_screens, spans


@dataclass(frozen=True)
class RatingsPage:
    """The board of the last batch."""

    board: Published
    style: bool
    good: bool  # whether only battles with both answers marked acceptable count
    charts: Mapping[str, Markup]
    history_svg: Markup | None  # ratings over time
    drawn_models: tuple[str, ...]  # those with a line in it, in the order of their colours

    def query(
        self,
        *,
        style: bool | None = None,
        category: str | None = None,
        language: str | None = None,
        good: bool | None = None,
    ) -> str:
        """Return the query of this page with other settings; `category` or `language` "" means all."""
        chosen = self.board.category if category is None else category
        spoken = self.board.language if language is None else language
        pairs = [("style", "1")] if (self.style if style is None else style) else []
        pairs += [("category", chosen)] if chosen else []
        pairs += [("language", spoken)] if spoken else []
        pairs += [("good", "1")] if (self.good if good is None else good) else []
        return f"?{urlencode(pairs)}" if pairs else ""

    def to_json(self) -> JsonValue:
        """Return the board without the charts, which show the same numbers; voters as counts alone."""
        made = plain_fields(self.board)
        made["flagged"] = [
            {"n_votes": flag.n_votes, "evidence": plain(flag.evidence), "reason": flag.reason}
            for flag in self.board.flagged
        ]
        return {"style": self.style, "good": self.good, **made}


def ratings_page(board: Published, *, style: bool, good: bool = False) -> RatingsPage:
    """Return the page of a board."""
    rated = [row.rating for row in board.models if row.rating is not None]
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
        numbers = [str(number) for number in range(1, len(matrix.models) + 1)]
        names = [f"{number} {model}" for number, model in zip(numbers, matrix.models, strict=True)]
        fraction = [[None if value is None else (value, f"{100 * value:.0f}") for value in row]
                    for row in matrix.win_fraction]  # fmt: skip
        wins = "Wins of the row against the column, per cent, without ties"
        charts[wins] = on_screens(partial(heatmap, names, numbers, fraction, wins))
        largest = max((count for row in matrix.n_battles for count in row), default=0) or 1
        counts = [[(count / largest, f"{count:,}") if count else None for count in row] for row in matrix.n_battles]
        charts["Number of battles"] = on_screens(partial(heatmap, names, numbers, counts, "Number of battles"))
    drawn = tuple(rating.model for rating in rated[:MOST_SERIES])
    history = _history_svg(board, drawn) if len(board.history) > 1 else None
    return RatingsPage(board, style, good, charts, history, drawn)


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
    label = "Ratings over time, with 95% intervals"
    return on_screens(partial(history_plot, series, label, "{:,.0f}".format))
