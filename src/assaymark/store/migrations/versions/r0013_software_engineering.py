"""The tables of software-engineering tasks.

Revision ID: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "swe_checks",
        sa.Column("instance_sha", sa.String(64), primary_key=True),
        sa.Column("environment_sha", sa.String(64), primary_key=True),
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("is_runnable", sa.SmallInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("checked", sa.Double, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "swe_gradings",
        sa.Column("instance_sha", sa.String(64), primary_key=True),
        sa.Column("patch_sha", sa.String(64), primary_key=True),
        sa.Column("environment_sha", sa.String(64), primary_key=True),
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("graded", sa.Double, nullable=False),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("patch", "details", "log")),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
    op.create_index("swe_gradings_by_patch", "swe_gradings", ["patch_sha", "instance_sha"])
    op.create_table(
        "swe_attempts",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("patch_sha", sa.String(64), nullable=False),
        sa.Column("exit_status", sa.String(64), nullable=False),
        sa.Column("n_calls", sa.Integer, nullable=False),
        sa.Column("cost", sa.Double),
        sa.Column("ended", sa.Double, nullable=False),
        sa.Column("trajectory", sa.LargeBinary, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
    op.create_index("swe_attempts_by_patch", "swe_attempts", ["patch_sha", "instance_id"])
