"""The ratings of the arena: a table, four charts, and how they are computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from markupsafe import Markup

from assaymark.arena.published import Published
from assaymark.records import JsonValue
from assaymark.web.render import plain
from assaymark.web.svg import Bar, PlottedValue, bars, heatmap, spans

__all__ = ["RatingsPage", "ratings_page"]


@dataclass(frozen=True)
class RatingsPage:
    """The board of the last batch."""

    board: Published
    style: bool
    good: bool  # whether only battles count in which both answers were marked acceptable
    charts: Mapping[str, Markup]

    def query(self, *, style: bool | None = None, category: str | None = None, good: bool | None = None) -> str:
        """Return the query of this page with other settings; `category` "" means all."""
        chosen = self.board.category if category is None else category
        pairs = [("style", "1")] if (self.style if style is None else style) else []
        pairs += [("category", chosen)] if chosen else []
        pairs += [("good", "1")] if (self.good if good is None else good) else []
        return f"?{urlencode(pairs)}" if pairs else ""

    def to_json(self) -> JsonValue:
        """Return the board without the charts, which show the same numbers; voters as counts alone."""
        made = plain(self.board)
        flagged = made.pop("flagged")
        made["flagged"] = [{name: flag[name] for name in ("n_votes", "evidence", "reason")} for flag in flagged]
        return {"style": self.style, "good": self.good, **made}


def ratings_page(board: Published, *, style: bool, good: bool = False) -> RatingsPage:
    """Return the page of a board."""
    rated = [row.rating for row in board.models if row.rating is not None]
    matrix = board.matrix
    charts: dict[str, Markup] = {}
    if rated:
        charts["Ratings and intervals"] = spans(
            [PlottedValue(rating.model, rating.rating, rating.low, rating.high) for rating in rated]
        )
        shares = [
            Bar(rating.model, rating.expected_win_rate, f"{100 * rating.expected_win_rate:.0f}%") for rating in rated
        ]
        charts["Win rate against all others, equally often"] = bars(shares)
    if board.n_votes:
        numbers = [str(number) for number in range(1, len(matrix.models) + 1)]
        names = [f"{number} {model}" for number, model in zip(numbers, matrix.models, strict=True)]
        fraction = [[None if value is None else (value, f"{100 * value:.0f}") for value in row]
                    for row in matrix.win_fraction]  # fmt: skip
        charts["Wins of the row against the column, per cent, without ties"] = heatmap(names, numbers, fraction)
        largest = max((count for row in matrix.n_battles for count in row), default=0) or 1
        counts = [[(count / largest, f"{count:,}") if count else None for count in row] for row in matrix.n_battles]
        charts["Number of battles"] = heatmap(names, numbers, counts)
    return RatingsPage(board, style, good, charts)
