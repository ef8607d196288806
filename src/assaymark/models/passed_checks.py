"""Files that remember which models have passed the engine's check, so that a short run does not repeat it.

They are in the cache folder, one per set of facts. Other processes write there too, and other versions of this package:
a file is believed only if it is whole, has this format, and was written for exactly these facts.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from assaymark import settings
from assaymark.engine.self_check import CheckFacts, CheckResult
from assaymark.records import content_hash

_FORMAT = 1
_MOST_BYTES = 65_536  # of a file; ours have about 1,500
_MOST_CHARACTERS = 1_000  # of the reason


@dataclass(frozen=True, slots=True)
class PassedChecks:
    """The memory of passed checks in this user's cache folder."""

    def find(self, facts: CheckFacts) -> CheckResult | None:
        """Return the outcome that was stored for exactly these facts; None for a damaged or foreign file."""
        try:
            with _place(facts).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            stored = json.loads(content) if len(content) <= _MOST_BYTES else None
            if not isinstance(stored, dict) or stored.pop("digest") != content_hash(stored):
                return None
            if stored["format"] != _FORMAT or stored["facts"] != dict(facts):
                return None
            why, may_batch = stored["why"], stored["may_batch"]
        except (OSError, ValueError, KeyError, RecursionError):
            return None
        if not isinstance(why, str) or len(why) > _MOST_CHARACTERS or not isinstance(may_batch, bool):
            return None
        return CheckResult("trie", why, may_batch)

    def add(self, facts: CheckFacts, passed: CheckResult) -> None:
        """Store a passed check; a folder that is not writable is not an error."""
        stored = {"format": _FORMAT, "facts": dict(facts), "why": passed.why, "may_batch": passed.may_batch}
        settings.remember(_place(facts), json.dumps({**stored, "digest": content_hash(stored)}))


def _place(facts: CheckFacts) -> Path:
    return settings.cache_folder() / "engine_checks" / f"{content_hash(dict(facts)).removeprefix('sha256:')[:32]}.json"
