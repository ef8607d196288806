"""The scale of a rule's scores, as its scorer declares it.

Revision ID: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a worker fills it when it next scores by the rule."""
    op.add_column("trace_rules", sa.Column("scale", sa.String(16)))
