"""Keys of score columns in URLs, exports and the search: one for each title, never one that already means something.

The key of `MATH Lvl 5` is math-lvl-5. A key has no underscore, so that the export's derived columns (`math-lvl-5_low`,
`math-lvl-5_n`) never equal another column's key.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

from assaymark.leaderboard.columns import FACTS

__all__ = ["RESERVED", "column_keys", "slug"]

EMPTY = "column"  # the slug of a title without Latin letters and digits
_HASH_DIGITS = 6
RESERVED = frozenset(
    {"rank", "average", "avg", "model", "name", "runs", "id", "notes", "url", "origin"}
    | {name for column in FACTS for name in (column.key, *column.aliases)}
)
"""Keys that the table, its exports and the search have beside the score columns' own; none has a hyphen."""


def slug(title: str) -> str:
    """Return a title as it stands in URLs and exports: `MATH Lvl 5` is math-lvl-5. Titles may share one."""
    return _latin(title) or EMPTY


def column_keys(titles: Iterable[str]) -> dict[str, str]:
    """Return each title's key: its slug, or where that is reserved `score-` and the slug.

    Of several titles with one slug (`C++` and `C#`) the first has it and the others a hash of the title behind it; a
    title without Latin letters and digits always has its hash. So a column added at the end changes no other's key.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for title in dict.fromkeys(titles):
        bare = slug(title)
        first = f"score-{bare}" if bare in RESERVED else bare
        digest = sha256(title.encode("utf-8", "surrogatepass")).hexdigest()
        n_digits = _HASH_DIGITS
        key = first if _latin(title) else f"{first}-{digest[:n_digits]}"
        while key in taken:
            key = f"{first}-{digest[:n_digits]}"
            n_digits += 1
        taken.add(key)
        found[title] = key
    return found


def _latin(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
