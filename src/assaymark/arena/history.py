"""How the ratings came to be what they are: the ratings of the votes up to each of some moments."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.arena.ratings import ArenaRatings, rated_part
from assaymark.arena.votes import Votes

__all__ = ["MOST_MOMENTS", "MomentRating", "RatedMoment", "rating_history"]

MOST_MOMENTS = 12  # each is one more fit of the ratings
FEWEST_VOTES = 20  # between two moments


@dataclass(frozen=True, slots=True)
class MomentRating:
    """One model's rating and its interval, in points; None: too few clusters."""

    model: str
    rating: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RatedMoment:
    """The ratings of the votes up to a moment. Units: at in seconds since 1970, of the last of these votes."""

    at: float
    n_votes: int
    ratings: tuple[MomentRating, ...]


def rating_history(votes: Votes, times: Sequence[float], ratings: ArenaRatings) -> tuple[RatedMoment, ...]:
    """Return the ratings after each twelfth of the votes, or fewer moments with at least 20 votes between two.

    Only differences of ratings are known: those of each moment are shifted so that their mean is that of the same
    models' present ratings. A moment at which no two models were connected is left out.

    Args:
        votes: in the order in which they were cast.
        times: of each row that the votes were read from, in seconds since 1970. Shape: [rows].
        ratings: of all these votes.
    """
    n = len(votes.battles)
    n_moments = min(MOST_MOMENTS, n // FEWEST_VOTES)
    moments = []
    for moment in range(1, n_moments + 1):
        until = n * moment // n_moments
        part = rated_part(votes, "", np.arange(n) < until, ratings)
        if part.ratings:
            values = tuple(MomentRating(each.model, each.rating, each.low, each.high) for each in part.ratings)
            moments.append(RatedMoment(times[int(votes.rows[until - 1]) - 1], until, values))
    return tuple(moments)
