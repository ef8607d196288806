"""A store from elsewhere is untrusted input, and its schema is checked before anything in it is queried.

A view instead of a table can make a SELECT run for ever, and a trigger or a generated column runs its author's code.
Our own schema has tables, plain indexes, and two full-text indexes with exactly our statements; anything else is
refused. Reading `sqlite_master` evaluates nothing that it describes.
"""

import re
import sqlite3

from assaymark.errors import StoreError
from assaymark.store.schema import SEARCH_TABLE_SQL, SPAN_SEARCH_TABLE_SQL

_ACTIVE_WORDS = re.compile(r"\b(VIRTUAL|GENERATED|AS|CHECK|DEFAULT|COLLATE|SELECT)\b", re.IGNORECASE)
_PLAIN_INDEX = re.compile(r'CREATE (UNIQUE )?INDEX "?\w+"? ON "?\w+"? \([\w", ]+\)( WHERE [\w" ]+)?', re.IGNORECASE)


def refuse_active_schema(connection: sqlite3.Connection, where: str) -> None:
    """Raise StoreError if a file's schema has anything but tables and indexes that only hold data."""
    connection.execute("PRAGMA trusted_schema = OFF")
    for kind, name, statement in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if statement is None and kind == "index":
            continue  # SQLite's own index of a key
        plain = " ".join(str(statement).split())
        if kind == "table" and (plain in {SEARCH_TABLE_SQL, SPAN_SEARCH_TABLE_SQL} or not _ACTIVE_WORDS.search(plain)):
            continue
        if kind == "index" and _PLAIN_INDEX.fullmatch(plain):
            continue
        what = f"the {kind} '{name}'" if kind in {"view", "trigger"} else f"a {kind} '{name}' that computes"
        raise StoreError(
            f"store {where} has {what}, which no store has, so it was not read; expected a file written by assaymark: "
            "get it again from its source"
        )
