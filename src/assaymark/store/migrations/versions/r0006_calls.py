"""Facts about the call of an application, beside its output.

The new column is NULL in every output that exists, so that no checksum changes.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("outputs", sa.Column("call", sa.LargeBinary))
