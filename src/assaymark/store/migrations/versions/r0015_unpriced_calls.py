"""Calls of models without a price, by trace: its cost is a lower bound.

Revision ID: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

# a simple rule for stored traces: calls below a span with a cost are included in it, failed calls without tokens cost 0
_COUNTED = """
UPDATE traces SET n_unpriced = (
    SELECT count(*) FROM spans WHERE spans.project = traces.project AND spans.trace_id = traces.trace_id
    AND spans.kind IN ('llm', 'embedding', 'reranker') AND spans.cost IS NULL
    AND NOT (spans.is_error = 1 AND spans.n_input IS NULL AND spans.n_output IS NULL)
    AND NOT EXISTS (
        SELECT 1 FROM spans AS above WHERE above.project = spans.project AND above.trace_id = spans.trace_id
        AND above.span_id = spans.parent_id AND above.cost IS NOT NULL
    )
)
"""


def upgrade() -> None:
    """Add the column and fill it."""
    op.add_column("traces", sa.Column("n_unpriced", sa.Integer))
    op.execute(_COUNTED)
