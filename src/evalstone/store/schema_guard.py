"""What a database file may hold before anything in it is queried.

A store that somebody else made is untrusted input: a view in place of a table can make one SELECT run for ever, a
trigger or a generated column runs what its author wrote. Our own schema has tables and plain indexes, and one full-text
index in exactly the words in which we make it; anything else is refused. Reading `sqlite_master` evaluates nothing of
what it describes.
"""

import re
import sqlite3

from evalstone.errors import StoreError
from evalstone.store.schema import SEARCH_TABLE_SQL

__all__ = ["refuse_active_schema"]

_ACTIVE_WORDS = re.compile(r"\b(VIRTUAL|GENERATED|AS|CHECK|DEFAULT|COLLATE|SELECT)\b", re.IGNORECASE)
_PLAIN_INDEX = re.compile(r'CREATE (UNIQUE )?INDEX "?\w+"? ON "?\w+"? \([\w", ]+\)( WHERE [\w" ]+)?', re.IGNORECASE)


def refuse_active_schema(connection: sqlite3.Connection, where: str) -> None:
    """Raise StoreError where a file's schema has more than tables and indexes that only hold data."""
    connection.execute("PRAGMA trusted_schema = OFF")
    for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if text is None and kind == "index":
            continue  # SQLite's own, of a key
        plain = " ".join(str(text).split())
        if kind == "table" and (plain == SEARCH_TABLE_SQL or not _ACTIVE_WORDS.search(plain)):
            continue
        if kind == "index" and _PLAIN_INDEX.fullmatch(plain):
            continue
        what = f"the {kind} '{name}'" if kind in {"view", "trigger"} else f"a {kind} '{name}' that computes"
        raise StoreError(
            f"store {where} holds {what}, which no store has, and nothing of it was read; expected a file that "
            "evalstone wrote: get it again from where it was made"
        )
