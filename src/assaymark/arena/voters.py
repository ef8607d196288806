"""Voters: keyed hashes in place of names and addresses, and limits on their votes."""

import hashlib
import hmac
from dataclasses import dataclass

from assaymark.arena.arena_rows import Activity
from assaymark.errors import UsageError

DAY = 86_400.0  # seconds


@dataclass(frozen=True, slots=True)
class VoteLimits:
    """How often one voter, and one network address, may vote. Units: seconds; counts per day."""

    cooldown_seconds: float = 5.0  # between two votes of a voter
    votes_per_voter: int = 100
    votes_per_address: int = 1000
    battles_per_address: int = 3000
    unvoted_per_address: int = 100  # battles of a network, in a day, on which nobody voted

    def __post_init__(self) -> None:
        """Refuse limits under which nobody could vote."""
        if self.cooldown_seconds < 0 or min(self.votes_per_voter, self.votes_per_address, self.battles_per_address) < 1:
            raise UsageError(
                f"a pause of {self.cooldown_seconds:g} seconds with {self.votes_per_voter} votes of a voter and "
                f"{self.votes_per_address} of a network in a day allows no vote; expected 0 seconds or more and counts "
                "from 1"
            )


def keyed_hash(secret: bytes, kind: str, value: str) -> str:
    """Return HMAC-SHA-256 of a value as 32 hex digits: equal values give equal hashes, and none can be reversed.

    Args:
        secret: the server's secret.
        kind: `voter` or `origin`, so that hashes of different kinds never agree.
        value: the visitor's random number, or the network part of an address.
    """
    return hmac.new(secret, f"{kind}\x1f{value}".encode(), hashlib.sha256).hexdigest()[:32]


def refusal(activity: Activity, limits: VoteLimits, now: float, *, is_vote: bool) -> str | None:
    """Return why a voter may not vote now, or begin a battle; None if allowed.

    Args:
        activity: of the voter and of his network in the last day.
        limits: on them.
        now: seconds since 1970.
        is_vote: whether it is a vote; votes have a pause between them. A voter without a vote today waits for the pause
            after the last vote of his network, so that a new cookie cannot vote sooner than the former one.
    """
    last = activity.last_of_voter if activity.votes_of_voter else activity.last_of_origin
    if is_vote and last is not None and now - last < limits.cooldown_seconds:
        wait = limits.cooldown_seconds - (now - last)
        whose = "last vote" if activity.votes_of_voter else "last vote of your network"
        return f"the {whose} was less than {limits.cooldown_seconds:g} seconds ago; try again in {wait:.0f} seconds"
    if activity.votes_of_voter >= limits.votes_per_voter:
        return f"a voter has {limits.votes_per_voter:,} votes a day; come back tomorrow"
    n_unvoted = activity.battles_of_origin - activity.votes_of_origin
    if not is_vote and n_unvoted >= limits.unvoted_per_address:
        return f"{n_unvoted:,} battles of this network have no vote; vote on one that is open, or come back tomorrow"
    if activity.votes_of_origin >= limits.votes_per_address or activity.battles_of_origin >= limits.battles_per_address:
        return "too many votes came from this network today; come back tomorrow"
    return None
