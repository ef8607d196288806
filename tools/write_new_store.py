"""Write the statements that create a new SQLite store: what all migrations together create in an empty one."""

import sqlite3
import tempfile
from pathlib import Path

from sqlalchemy import create_engine

from assaymark.store import migrate


def statements() -> str:
    """Return what all migrations together create in an empty database, as SQL."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite"
        engine = create_engine(f"sqlite:///{file}")
        with engine.begin() as connection:
            migrate.migrate(connection)
        engine.dispose()
        database = sqlite3.connect(file)
        lines = [line for line in database.iterdump() if line not in {"BEGIN TRANSACTION;", "COMMIT;"}]
        database.close()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    migrate.NEW_STORE.write_text(statements(), encoding="utf-8")
