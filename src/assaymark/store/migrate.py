"""The schema's version, and migration from any earlier version.

Alembic runs the scripts in `migrations/versions` inside the given transaction, so that a migration that fails leaves
the store unchanged. It is imported only for a migration, because the import takes longer than opening a current store.
A new SQLite store is created without it, from the statements in `migrations/new_store.sql`: what all scripts together
create, written by `tools/write_new_store.py`.
"""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, select, table, text
from sqlalchemy import column as named

from assaymark.errors import SchemaTooNew, StoreError
from assaymark.store.schema import FORMER_VERSION_TABLE, HEAD, VERSION_TABLE, metadata

if TYPE_CHECKING:
    from alembic.config import Config

TARGET = "head"  # Alembic's word for the newest script
_ALEMBIC = threading.Lock()  # Alembic keeps the current migration in module globals
MIGRATIONS = Path(__file__).parent / "migrations"
NEW_STORE = MIGRATIONS / "new_store.sql"


def version_of(connection: Connection) -> str | None:
    """Return the schema's revision, None if there is no store."""
    inspector = inspect(connection)
    for name in (VERSION_TABLE, FORMER_VERSION_TABLE):
        if inspector.has_table(name):
            version: str | None = connection.execute(select(named("version_num")).select_from(table(name))).scalar()
            return version
    return None


def is_current(connection: Connection, where: str) -> bool:
    """Return whether the schema is current.

    Raises: StoreError if the database has tables of another program.
    """
    version = version_of(connection)
    if version is None:
        existing = set(inspect(connection).get_table_names())
        foreign = existing if connection.dialect.name == "sqlite" else existing & set(metadata.tables)
        if foreign:
            raise StoreError(
                f"{where} has tables of another program ({', '.join(sorted(foreign)[:5])}); "
                f"a store needs a file or database of its own: name another"
            )
    return version == HEAD


def require_current(connection: Connection, where: str) -> None:
    """Check the schema of a store that is opened read-only.

    Raises: StoreError if it is older than this version of the package, SchemaTooNew if it is newer.
    """
    version = version_of(connection)
    if version == HEAD:
        return
    if version is None:
        raise StoreError(f"{where} has no store; it is created by the first `assaymark run`")
    _require_known(version, where)
    raise StoreError(
        f"store {where} has schema {version} and this version needs {HEAD}; "
        f"open it once for writing to migrate it (`assaymark ls runs` does)"
    )


def upgrade(connection: Connection, where: str) -> None:
    """Upgrade the schema to HEAD, inside the connection's transaction, unless another process has done so.

    Raises: SchemaTooNew if a later version of this package wrote it.
    """
    if inspect(connection).has_table(FORMER_VERSION_TABLE):
        connection.execute(text(f"ALTER TABLE {FORMER_VERSION_TABLE} RENAME TO {VERSION_TABLE}"))
    version = version_of(connection)
    if version == HEAD:
        return
    if version is not None:
        _require_known(version, where)
    elif connection.dialect.name == "sqlite" and TARGET == "head":
        for statement in NEW_STORE.read_text(encoding="utf-8").split(";\n"):
            connection.exec_driver_sql(statement)
        return
    migrate(connection)


def migrate(connection: Connection) -> None:
    """Run the scripts that the database has not seen yet, inside the connection's transaction."""
    from alembic import command

    config = _configuration()
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, TARGET)


def known_versions() -> list[str]:
    """Return all revisions that this package has a script for, the oldest first."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_configuration())
    return [script.revision for script in scripts.walk_revisions()][::-1]


def _configuration() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _require_known(version: str, where: str) -> None:
    known = known_versions()
    if version not in known:
        raise SchemaTooNew(
            f"store {where} has schema {version}, this version of assaymark knows {known[0]} to {known[-1]}; "
            f"upgrade assaymark (pull its source and install it again), or name another store"
        )
