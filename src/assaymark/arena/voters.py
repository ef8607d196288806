"""Who votes, and how often: keyed hashes instead of names and addresses, caps, and a pause between two votes."""

import hashlib
import hmac
from dataclasses import dataclass

from assaymark.errors import UsageError

__all__ = ["DAY", "VoteLimits", "keyed_hash", "refusal"]

DAY = 86_400.0  # seconds


@dataclass(frozen=True, slots=True)
class VoteLimits:
    """How often one voter, and one network address, may vote. Units: seconds; counts per day."""

    cooldown_seconds: float = 5.0  # between two votes of a voter
    votes_per_voter: int = 100
    votes_per_address: int = 1000
    battles_per_address: int = 3000

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


def refusal(activity: tuple[int, int, int, float | None], limits: VoteLimits, now: float) -> str | None:
    """Return why a voter may not vote now; None if allowed.

    Args:
        activity: votes of the voter, votes and battles of the address in the last day, time of the voter's last vote.
        limits: on them.
        now: seconds since 1970.
    """
    of_voter, of_address, battles, last = activity
    if last is not None and now - last < limits.cooldown_seconds:
        wait = limits.cooldown_seconds - (now - last)
        return f"the last vote was less than {limits.cooldown_seconds:g} seconds ago; try again in {wait:.0f} seconds"
    if of_voter >= limits.votes_per_voter:
        return f"a voter has {limits.votes_per_voter:,} votes a day; come back tomorrow"
    if of_address >= limits.votes_per_address or battles >= limits.battles_per_address:
        return "too many votes came from this network today; come back tomorrow"
    return None
