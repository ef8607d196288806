"""Whether a run is hidden, and the tables of the arena and of studies.

The new column is NULL, which means public, in every run that exists, so that no checksum changes.

Revision ID: 0005
"""

import sqlalchemy as sa
from alembic import op

from assaymark.store.schema import checksum_of

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the column and make the tables."""
    op.add_column("runs", sa.Column("visibility", sa.String(16)))
    for make in (
        *(_make_arena_models, _make_arena_texts, _make_battles, _make_votes, _make_vote_head, _make_rating_batches),
        *(_make_studies, _make_study_raters, _make_study_demographics, _make_assignments, _make_study_answers),
    ):
        make()
    _start_the_log()


def _start_the_log() -> None:
    """Store the head of an empty log of votes, the row that each append locks."""
    names, values = ("id", "sequence", "hash"), (1, 0, bytes(32))
    head = sa.table("vote_head", *map(sa.column, (*names, "checksum")))
    checksum = checksum_of([name.encode() for name in names], values)
    op.get_bind().execute(sa.insert(head).values(**dict(zip(names, values, strict=True)), checksum=checksum))


def _make_arena_models() -> None:
    op.create_table(
        "arena_models",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("added_at", sa.String(32), nullable=False),
        sa.Column("withdrawn_at", sa.String(32)),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )


def _make_arena_texts() -> None:
    op.create_table(
        "arena_texts",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.LargeBinary(32), unique=True),
        sa.Column("commitment", sa.LargeBinary(32), nullable=False),
        sa.Column("salt", sa.LargeBinary(32)),
        sa.Column("content", sa.LargeBinary),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )


def _make_battles() -> None:
    op.create_table(
        "battles",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("token", sa.String(64), nullable=False, unique=True),
        sa.Column("opened_at", sa.Double, nullable=False),
        sa.Column("voter", sa.String(64), nullable=False),
        sa.Column("origin", sa.String(64), nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("prompt_id", sa.Text, nullable=False),
        sa.Column("category", sa.Text),
        sa.Column("model_a", sa.BigInteger, nullable=False),
        sa.Column("model_b", sa.BigInteger, nullable=False),
        sa.Column("is_swapped", sa.SmallInteger, nullable=False),
        sa.Column("prompt", sa.BigInteger, nullable=False),
        sa.Column("answer_a", sa.BigInteger, nullable=False),
        sa.Column("answer_b", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
    op.create_index("battles_of_origin", "battles", ["origin", "opened_at"])
    op.create_index("battles_of_voter", "battles", ["voter", "opened_at"])


def _make_votes() -> None:
    op.create_table(
        "votes",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("battle", ROW_ID, sa.ForeignKey("battles.id"), nullable=False),
        sa.Column("idempotency_key", sa.String(64), nullable=False, unique=True),
        sa.Column("cast_at", sa.Double, nullable=False),
        sa.Column("choice", sa.String(16), nullable=False),
        sa.Column("mark_a", sa.String(16)),
        sa.Column("mark_b", sa.String(16)),
        sa.Column("is_counted", sa.SmallInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("battle"),
    )


def _make_vote_head() -> None:
    op.create_table(
        "vote_head",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )


def _make_rating_batches() -> None:
    op.create_table(
        "rating_batches",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("published_at", sa.Double, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )


def _make_studies() -> None:
    op.create_table(
        "studies",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )


def _make_study_raters() -> None:
    op.create_table(
        "study_raters",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("study", ROW_ID, sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("consented_at", sa.Double),
        sa.Column("checksum", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("study", "name"),
    )


def _make_study_demographics() -> None:
    op.create_table(
        "study_demographics",
        sa.Column("rater", ROW_ID, sa.ForeignKey("study_raters.id"), primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )


def _make_assignments() -> None:
    op.create_table(
        "assignments",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("rater", ROW_ID, sa.ForeignKey("study_raters.id"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("prompt", sa.Integer, nullable=False),
        sa.Column("model_a", sa.Text, nullable=False),
        sa.Column("model_b", sa.Text, nullable=False),
        sa.Column("expected", sa.String(16)),
        sa.Column("checksum", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("rater", "position"),
    )


def _make_study_answers() -> None:
    op.create_table(
        "study_answers",
        sa.Column("assignment", ROW_ID, sa.ForeignKey("assignments.id"), primary_key=True, autoincrement=False),
        sa.Column("answers", sa.Text, nullable=False),
        sa.Column("answered_at", sa.Double, nullable=False),
        sa.Column("seconds", sa.Double),
        sa.Column("checksum", sa.BigInteger, nullable=False),
    )
