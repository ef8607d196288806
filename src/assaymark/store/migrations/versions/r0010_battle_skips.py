"""Battles that their voters skipped, live ones too.

Revision ID: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0007"
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
