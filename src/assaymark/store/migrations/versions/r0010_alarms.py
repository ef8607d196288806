"""The tables of alarms, and an index of scores by time of arrival.

Revision ID: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "trace_alarms",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("project", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("n_metrics", sa.Integer, nullable=False),
        sa.Column("alpha", sa.Double, nullable=False),
        sa.Column("horizon", sa.BigInteger, nullable=False),
        sa.Column("bound", sa.Double),
        sa.Column("is_two_sided", sa.SmallInteger, nullable=False),
        sa.Column("lower_is_better", sa.SmallInteger, nullable=False),
        sa.Column("n_baseline", sa.Integer, nullable=False),
        sa.Column("webhook", sa.Text),
        sa.Column("signing_key", sa.Text),
        sa.Column("allow_private", sa.SmallInteger, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("made", "begins", "looked_until")),
        sa.Column("n_values", sa.BigInteger, nullable=False),
    )
    op.create_index("trace_alarms_by_name", "trace_alarms", ["project", "name", "metric"], unique=True)
    op.create_table(
        "trace_alarm_values",
        sa.Column("alarm", sa.BigInteger, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("version", sa.Text),
        sa.PrimaryKeyConstraint("alarm", "position"),
    )
    op.create_index("trace_alarm_values_by_trace", "trace_alarm_values", ["alarm", "trace_id"], unique=True)
    _make_epochs()
    _make_events()
    op.create_index("trace_scores_by_arrival", "trace_scores", ["project", "name", "received"])


def _make_epochs() -> None:
    op.create_table(
        "trace_alarm_epochs",
        sa.Column("alarm", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(16), nullable=False),
        sa.Column("made", sa.Double, nullable=False),
        sa.Column("source", sa.String(16)),
        sa.Column("rule", sa.BigInteger),
        sa.Column("rule_version", sa.LargeBinary(16)),
        *(sa.Column(name, sa.Double) for name in ("low", "high", "quantile")),
        sa.Column("is_inherited", sa.SmallInteger, nullable=False),
        sa.Column("n_watched", sa.BigInteger, nullable=False),
        sa.Column("evidence", sa.Double, nullable=False),
        sa.Column("state", sa.LargeBinary),
        sa.PrimaryKeyConstraint("alarm", "epoch"),
    )


def _make_events() -> None:
    op.create_table(
        "trace_alarm_events",
        sa.Column("alarm", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("raised", sa.Double, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("version", sa.Text),
        sa.Column("n_watched", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("evidence", "threshold")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("since", "n_since")),
        sa.Column("mean_before", sa.Double),
        sa.Column("mean_after", sa.Double, nullable=False),
        sa.Column("is_drop", sa.SmallInteger, nullable=False),
        sa.Column("delivered", sa.Double),
        sa.Column("n_tries", sa.Integer, nullable=False),
        sa.Column("not_before", sa.Double, nullable=False),
        sa.Column("failure", sa.Text),
        sa.PrimaryKeyConstraint("alarm", "epoch"),
    )
