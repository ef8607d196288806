"""Tasks whose rows are not shown.

Revision ID: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "sealed_tasks",
        sa.Column("dataset_hash", sa.String(128), primary_key=True),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
