"""Checksums of submissions: which model a run on a board belongs to is read from them.

Revision ID: 0016
"""

import sqlalchemy as sa
from alembic import op

from assaymark.store.schema import checksum_of

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

NAMES = (
    *("id", "submitter", "board", "model", "revision", "source", "content_hash", "precision", "preset", "weights"),
    *("base", "base_revision", "kind", "facts", "submitted", "duplicate_key", "n_votes", "is_withdrawn"),
    *("reported_run", "verdict", "is_verified"),
)
SUBMISSIONS = sa.table("submissions", *map(sa.column, (*NAMES, "checksum")))


def upgrade() -> None:
    """Add the column and fill it."""
    op.add_column("submissions", sa.Column("checksum", sa.BigInteger))
    names = [name.encode() for name in NAMES]
    connection = op.get_bind()
    for row in connection.execute(sa.select(*(SUBMISSIONS.c[name] for name in NAMES))).all():
        here = SUBMISSIONS.update().where(SUBMISSIONS.c.id == row.id)
        connection.execute(here.values(checksum=checksum_of(names, row)))
