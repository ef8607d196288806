"""Runs the scripts on the connection, and inside the transaction, that the store passes to Alembic."""

from alembic import context

from assaymark.store.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
