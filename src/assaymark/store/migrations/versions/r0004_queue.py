"""Submissions, jobs, votes, flags and the log of moderation.

Revision ID: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of the queue."""
    _make_submissions()
    _make_jobs()
    _make_votes_and_names()
    _make_flags()
    _make_log()


def _id() -> "sa.Column[str]":
    return sa.Column("id", sa.String(16), primary_key=True)


def _of(name: str, target: str, *, primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.String(16), sa.ForeignKey(target), nullable=False, primary_key=primary_key)


def _text(name: str, length: int, *, optional: bool = False, primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.String(length), nullable=optional, primary_key=primary_key)


def _time(name: str, *, optional: bool = False) -> "sa.Column[float]":
    return sa.Column(name, sa.Double, nullable=optional)


def _make_submissions() -> None:
    op.create_table(
        "submissions",
        _id(),
        _text("submitter", 128),
        _text("board", 64),
        _text("model", 200),
        _text("revision", 80),
        _text("source", 16),
        _text("content_hash", 80),
        _text("precision", 16),
        _text("preset", 64, optional=True),
        _text("weights", 16),
        _text("base", 200, optional=True),
        _text("base_revision", 80, optional=True),
        _text("kind", 16),
        sa.Column("facts", sa.Text, nullable=False),
        _time("submitted"),
        sa.Column("duplicate_key", sa.String(80), unique=True),
        sa.Column("n_votes", sa.Integer, nullable=False),
        sa.Column("is_withdrawn", sa.SmallInteger, nullable=False),
        _text("reported_run", 64, optional=True),
        sa.Column("verdict", sa.Text),
        sa.Column("is_verified", sa.SmallInteger, nullable=False),
    )
    op.create_index("submissions_by_submitter", "submissions", ["submitter", "submitted"])
    op.create_index("submissions_by_model", "submissions", ["model"])


def _make_jobs() -> None:
    op.create_table(
        "jobs",
        _id(),
        _of("submission", "submissions.id"),
        _text("kind", 16),
        _text("state", 16),
        _text("submitter", 128),
        sa.Column("turn", sa.BigInteger, nullable=False),
        sa.Column("position", sa.Double, nullable=False),
        _time("created"),
        _time("not_before"),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        _time("expires"),
        sa.Column("n_attempts", sa.Integer, nullable=False),
        _time("started", optional=True),
        _time("first_started", optional=True),
        _time("ended", optional=True),
        _text("fault", 8, optional=True),
        sa.Column("reason", sa.Text),
        sa.Column("log_tail", sa.Text),
        _text("run_id", 64, optional=True),
        sa.Column("n_done", sa.BigInteger, nullable=False),
        sa.Column("n_total", sa.BigInteger, nullable=False),
        _text("stage", 32),
        sa.UniqueConstraint("submission", "kind"),
    )
    op.create_index("jobs_in_order", "jobs", ["state", "position", "created", "id"])
    op.create_index("jobs_by_submitter", "jobs", ["submitter", "turn"])
    op.create_index("jobs_by_end", "jobs", ["state", "ended"])
    started = sa.text("first_started IS NOT NULL")
    op.create_index("jobs_started_by_turn", "jobs", ["turn"], sqlite_where=started, postgresql_where=started)


def _make_votes_and_names() -> None:
    op.create_table(
        "queue_votes",
        _of("submission", "submissions.id", primary_key=True),
        _text("voter", 128, primary_key=True),
        _time("made"),
    )
    op.create_table(
        "models_seen",
        _text("model", 200, primary_key=True),
        _text("revision", 80, primary_key=True),
        _text("content_hash", 80),
        sa.Column("facts", sa.Text, nullable=False),
        _time("seen"),
    )
    op.create_table("aliases", _text("old_name", 200, primary_key=True), _text("new_name", 200), _time("made"))


def _make_flags() -> None:
    op.create_table(
        "flags",
        _id(),
        _text("model", 200),
        _text("kind", 32),
        sa.Column("text", sa.Text, nullable=False),
        _text("reporter", 128),
        _time("made"),
        _text("state", 16),
        _text("settled_by", 128, optional=True),
        _time("settled", optional=True),
    )
    op.create_index("flags_by_model", "flags", ["model"])
    op.create_table(
        "flag_replies",
        _id(),
        _of("flag", "flags.id"),
        _text("writer", 128),
        _text("role", 16),
        sa.Column("text", sa.Text, nullable=False),
        _time("made"),
    )
    op.create_index("flag_replies_by_flag", "flag_replies", ["flag", "made"])


def _make_log() -> None:
    op.create_table(
        "moderation",
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        _time("made"),
        _text("moderator", 128),
        _text("action", 32),
        _text("subject", 200),
        sa.Column("detail", sa.Text, nullable=False),
        _text("hash", 80),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table("revoked_tokens", _text("token", 64, primary_key=True), _time("revoked"))
