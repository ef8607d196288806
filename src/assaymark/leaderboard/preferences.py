"""People's preferences as evidence for a capability: ratings from the arena's votes on prompts of its categories.

`capabilities.yaml` says which categories of an arena's prompts belong to a capability. Each category is rated by
itself, from the published votes; ratings are in points and never mixed with the scores of benchmarks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.published import Published
from assaymark.arena.rating_boards import Ratings
from assaymark.leaderboard.capabilities import Capability


@dataclass(frozen=True, slots=True)
class Preference:
    """One model with its rating by voters. Units: rating, low and high in points (400 are odds of ten to one)."""

    model: str
    rating: float
    low: float | None
    high: float | None
    best_rank: int
    worst_rank: int
    n_votes: int
    is_preliminary: bool  # few votes


@dataclass(frozen=True, slots=True)
class PreferenceRanking:
    """The models of one category of an arena, the best first."""

    demand: str  # key of the capability
    title: str
    category: str
    n_votes: int
    models: tuple[Preference, ...]
    why_none: str = ""  # why no model is rated


def preferences_for(capability: Capability, votes: Ratings) -> list[PreferenceRanking]:
    """Return the ratings of each category of a store's arena that belongs to a capability, most votes first."""
    if not capability.votes or ArenaLog(votes.store).last_batch() is None:
        return []
    wanted = {_plain(name) for name in capability.votes}
    categories: Mapping[str, int] = votes.board().categories
    return [
        _ranking(capability, category, votes.board(category=category))
        for category in categories
        if _plain(category) in wanted
    ]


def _plain(category: str) -> str:
    return " ".join(category.lower().replace("-", " ").replace("_", " ").split())


def _ranking(capability: Capability, category: str, board: Published) -> PreferenceRanking:
    rated: Sequence[Preference] = [
        Preference(
            row.model, row.rating.rating, row.rating.low, row.rating.high, row.rating.best_rank,
            row.rating.worst_rank, row.n_votes, row.is_preliminary,
        )
        for row in board.models
        if row.rating is not None and row.withdrawn_at is None
    ]  # fmt: skip
    ordered = sorted(rated, key=lambda each: (-each.rating, each.model))
    return PreferenceRanking(
        capability.key, capability.title, category, board.n_votes, tuple(ordered), board.why_none or ""
    )
