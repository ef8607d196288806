"""The tables of live monitoring, and the origins of scores of traces.

Existing scores came as events of evaluations.

Revision ID: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns and make the tables."""
    _extend_scores()
    _make_rules()
    _make_queues()
    _make_rows()


def _extend_scores() -> None:
    for column in (
        sa.Column("source", sa.String(16)),
        sa.Column("rule", sa.BigInteger),
        sa.Column("rule_version", sa.LargeBinary(16)),
        sa.Column("rate", sa.Double),
        sa.Column("stale", sa.Double),
        sa.Column("session", sa.Text),
        sa.Column("rater", sa.String(64)),
        sa.Column("correction", sa.Text),
    ):
        op.add_column("trace_scores", column)
    op.execute("UPDATE trace_scores SET source = 'event'")
    op.create_index("trace_scores_by_span", "trace_scores", ["project", "span_id"])
    op.create_index("trace_scores_by_session", "trace_scores", ["project", "session"])
    op.create_index("trace_scores_by_name", "trace_scores", ["project", "name", "observed"])


def _make_rules() -> None:
    op.create_table(
        "trace_rules",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("rate", sa.Double, nullable=False),
        sa.Column("scorer", sa.Text, nullable=False),
        sa.Column("score", sa.String(128), nullable=False),
        sa.Column("judge", sa.Text),
        sa.Column("judge_args", sa.Text),
        sa.Column("version", sa.LargeBinary(16), nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("made", "begins", "ended_until", "open_until")),
    )
    op.create_index("trace_rules_by_project", "trace_rules", ["project"])
    op.create_table(
        "trace_scorings",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("rule", sa.BigInteger, nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("rate", sa.Double, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("n_tries", sa.Integer, nullable=False),
        sa.Column("not_before", sa.Double, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("ended", sa.Double),
        sa.PrimaryKeyConstraint("project", "rule", "trace_id"),
    )
    op.create_index("trace_scorings_by_state", "trace_scorings", ["state", "not_before"])
    op.create_index("trace_scorings_by_trace", "trace_scorings", ["project", "trace_id"])


def _make_queues() -> None:
    op.create_table(
        "trace_queues",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("rubric", sa.Text, nullable=False),
        sa.Column("n_raters", sa.Integer, nullable=False),
        sa.Column("made", sa.Double, nullable=False),
    )
    op.create_index("trace_queues_by_project", "trace_queues", ["project"])
    op.create_table(
        "trace_queue_items",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("queue", sa.BigInteger, nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("added", sa.Double, nullable=False),
        sa.Column("is_done", sa.SmallInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "queue", "trace_id"),
    )
    op.create_index("trace_queue_items_by_trace", "trace_queue_items", ["project", "trace_id"])
    op.create_table(
        "trace_queue_claims",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("queue", sa.BigInteger, nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("rater", sa.String(64), nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.Column("rated", sa.Double),
        sa.Column("is_skipped", sa.SmallInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "queue", "trace_id", "rater"),
    )


def _make_rows() -> None:
    op.create_table(
        "trace_dataset_rows",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("dataset", sa.String(128), nullable=False),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("added", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "dataset", "digest"),
    )
