"""A lease for each run that is being written.

Runs that were under way have no lease: whoever continues them takes the first.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table of leases."""
    op.create_table(
        "run_leases",
        sa.Column("run", ROW_ID, sa.ForeignKey("runs.id"), nullable=False, autoincrement=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("run"),
    )
