"""The tables of traces: projects, tokens, spans, summaries and scores.

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    _make_projects()
    _make_spans()
    _make_traces()
    _make_scores()


def _make_projects() -> None:
    op.create_table(
        "trace_projects",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(128), nullable=False, unique=True),
        sa.Column("made", sa.Double, nullable=False),
    )
    op.create_table(
        "trace_tokens",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("project", ROW_ID, sa.ForeignKey("trace_projects.id"), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("made", sa.Double, nullable=False),
    )


def _make_spans() -> None:
    op.create_table(
        "span_sources",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("project", "digest"),
    )
    op.create_table(
        "spans",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("span_id", sa.LargeBinary(8), nullable=False),
        sa.Column("parent_id", sa.LargeBinary(8)),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("is_error", sa.SmallInteger, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("model", sa.Text),
        sa.Column("n_input", sa.BigInteger),
        sa.Column("n_output", sa.BigInteger),
        sa.Column("cost", sa.Double),
        *(sa.Column(name, sa.Text) for name in ("user", "session", "service", "version", "response_id")),
        sa.Column("search_key", sa.BigInteger, nullable=False),
        sa.Column("n_conflicts", sa.Integer, nullable=False),
        sa.Column("received", sa.Double, nullable=False),
        sa.Column("source", sa.LargeBinary(16), nullable=False),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("project", "trace_id", "span_id"),
    )
    op.create_index("spans_by_search_key", "spans", ["search_key"])
    op.create_index("spans_by_response", "spans", ["project", "response_id"])


def _make_traces() -> None:
    op.create_table(
        "traces",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("name", sa.Text, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("n_spans", "n_errors", "n_orphans")),
        sa.Column("models", sa.Text, nullable=False),
        sa.Column("n_input", sa.BigInteger),
        sa.Column("n_output", sa.BigInteger),
        sa.Column("cost", sa.Double),
        *(sa.Column(name, sa.Text) for name in ("user", "session", "service", "version")),
        sa.Column("n_bytes", sa.BigInteger, nullable=False),
        sa.Column("received", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "trace_id"),
    )
    op.create_index("traces_by_time", "traces", ["project", "at"])
    op.create_index("traces_by_session", "traces", ["project", "session"])
    op.create_index("traces_by_arrival", "traces", ["project", "received"])


def _make_scores() -> None:
    op.create_table(
        "trace_scores",
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16)),
        sa.Column("span_id", sa.LargeBinary(8)),
        sa.Column("response_id", sa.Text),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Double),
        *(sa.Column(name, sa.Text) for name in ("label", "explanation", "error")),
        sa.Column("observed", sa.BigInteger, nullable=False),
        sa.Column("received", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "digest"),
    )
    op.create_index("trace_scores_by_trace", "trace_scores", ["project", "trace_id"])
    op.create_index("trace_scores_by_response", "trace_scores", ["project", "response_id"])
