"""An index of scores by time, for quality over time.

Revision ID: 0012
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    op.create_index("trace_scores_by_time", "trace_scores", ["project", "observed"])
