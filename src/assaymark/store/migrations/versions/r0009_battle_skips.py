"""Battles that their voters skipped, live ones too.

Revision ID: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "battle_skips",
        sa.Column("token", sa.String(64), primary_key=True),
        sa.Column("skipped_at", sa.Double, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
