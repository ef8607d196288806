"""Digests of the rows of sealed tasks, and the tasks of runs that have some of these rows.

Revision ID: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "sealed_rows",
        sa.Column("dataset_hash", sa.String(128), primary_key=True),
        sa.Column("digest_key", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "sealed_copies",
        sa.Column("run_task", row_id, sa.ForeignKey("run_tasks.id"), primary_key=True, autoincrement=False),
        sa.Column("dataset_hash", sa.String(128), primary_key=True),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
