"""Runs, attempts, requests, outputs, scores, estimates, and the texts they share.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make every table of the first version."""
    _texts_and_runs()
    _requests()
    _outputs()
    _scores_and_estimates()


def _parent(name: str, target: str) -> "sa.Column[int]":
    return sa.Column(name, ROW_ID, sa.ForeignKey(target), nullable=False)


def _checksum() -> "sa.Column[int]":
    return sa.Column("checksum", sa.BigInteger, nullable=False)


def _texts_and_runs() -> None:
    op.create_table(
        "texts",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("run_id", sa.String(64), nullable=False, unique=True),
        sa.Column("key", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.Column("summary", sa.LargeBinary),
        sa.Column("extra", sa.LargeBinary),
        sa.Column("seal", sa.Text),
        _checksum(),
    )
    op.create_table(
        "attempts",
        _parent("run", "runs.id"),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("started_at", sa.String(32), nullable=False),
        sa.Column("ended_at", sa.String(32)),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("process_id", sa.BigInteger, nullable=False),
        sa.Column("command", sa.LargeBinary),
        sa.Column("facts", sa.LargeBinary, nullable=False),
        sa.Column("summary", sa.LargeBinary),
        _checksum(),
        sa.PrimaryKeyConstraint("run", "number"),
    )


def _requests() -> None:
    op.create_table(
        "run_tasks",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        _parent("run", "runs.id"),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        _checksum(),
        sa.UniqueConstraint("run", "name"),
    )
    op.create_table(
        "requests",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        _parent("run_task", "run_tasks.id"),
        sa.Column("sample_index", sa.Integer, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("content_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("sample_sha256", sa.LargeBinary, nullable=False),
        sa.Column("n_outputs", sa.Integer, nullable=False),
        sa.Column("pieces", sa.Text, nullable=False),
        sa.Column("form", sa.BigInteger, nullable=False),
        sa.Column("sample_row", sa.BigInteger),
        _checksum(),
        sa.UniqueConstraint("run_task", "sample_index", "turn"),
    )


def _outputs() -> None:
    op.create_table(
        "outputs",
        _parent("request", "requests.id"),
        sa.Column("ask_index", sa.Integer, nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("total_nats", sa.Double),
        sa.Column("is_greedy", sa.SmallInteger),
        sa.Column("text", sa.LargeBinary),
        sa.Column("reasoning", sa.LargeBinary),
        sa.Column("tool_calls", sa.LargeBinary),
        sa.Column("finish_reason", sa.String(64)),
        sa.Column("n_context_tokens", sa.Integer, nullable=False),
        sa.Column("n_tokens", sa.Integer, nullable=False),
        sa.Column("n_cut_tokens", sa.Integer, nullable=False),
        sa.Column("cache_key", sa.LargeBinary),
        sa.Column("from_cache", sa.SmallInteger, nullable=False),
        sa.Column("error", sa.LargeBinary),
        sa.Column("error_kind", sa.String(64)),
        _checksum(),
        sa.PrimaryKeyConstraint("request", "ask_index", "repeat"),
        sqlite_with_rowid=False,
    )
    answered = sa.text("cache_key IS NOT NULL AND error IS NULL")
    op.create_index("outputs_by_cache_key", "outputs", ["cache_key"], sqlite_where=answered, postgresql_where=answered)


def _scores_and_estimates() -> None:
    op.create_table(
        "scorings",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        _parent("run_task", "run_tasks.id"),
        sa.Column("scoring_hash", sa.LargeBinary, nullable=False),
        sa.Column("filter", sa.String(255), nullable=False),
        sa.Column("metric", sa.String(255), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        _checksum(),
        sa.UniqueConstraint("run_task", "scoring_hash", "filter", "metric"),
    )
    op.create_table(
        "scores",
        _parent("request", "requests.id"),
        sa.Column("scoring", ROW_ID, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("parts", sa.LargeBinary),
        sa.Column("detail", sa.LargeBinary),
        _checksum(),
        sa.PrimaryKeyConstraint("request", "scoring"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "estimates",
        _parent("run", "runs.id"),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("run", "position"),
    )
