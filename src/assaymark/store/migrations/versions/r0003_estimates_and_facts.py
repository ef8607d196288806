"""Estimates in columns, and facts of runs and of samples for boards and pages.

The estimates of old runs are moved into their columns and the facts of their plans are written here; both are few. The
facts of their samples are not: they are filled afterwards, in short transactions (`Store.fill_facts`).

A damaged row stays damaged: its unreadable content is kept in `details`, under a checksum that does not match, so that
`verify` still reports it. A run whose plan cannot be read has no facts.

Revision ID: 0003
"""

import math
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from assaymark.errors import StoreError
from assaymark.store.packing import pack_json, shown_text, unpack_json
from assaymark.store.schema import checksum_of

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
AT_ONCE = 1000
EARLIER = sa.table("estimates_0002", *map(sa.column, ("run", "position", "content", "checksum")))
_UNREADABLE = (StoreError, ValueError, TypeError, KeyError, AttributeError, OverflowError)


def upgrade() -> None:
    """Make the tables, move the estimates and write the facts of plans."""
    op.rename_table("estimates", "estimates_0002")
    _make_estimates()
    _make_facts_of_runs()
    _make_facts_of_samples()
    _move_estimates(op.get_bind())
    op.drop_table("estimates_0002")
    _write_facts_of_runs(op.get_bind())


def _parent(name: str, target: str) -> "sa.Column[int]":
    return sa.Column(name, ROW_ID, sa.ForeignKey(target), nullable=False, autoincrement=False)


def _checksum() -> "sa.Column[int]":
    return sa.Column("checksum", sa.BigInteger, nullable=False)


def _make_estimates() -> None:
    op.create_table(
        "estimates",
        _parent("run", "runs.id"),
        sa.Column("position", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("low", sa.Double),
        sa.Column("high", sa.Double),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("n_failed", sa.BigInteger, nullable=False),
        sa.Column("n_unparsed", sa.BigInteger, nullable=False),
        sa.Column("stderr", sa.Double),
        sa.Column("chance", sa.Double),
        sa.Column("higher_is_better", sa.SmallInteger, nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("is_primary", sa.SmallInteger, nullable=False),
        sa.Column("n_shots", sa.Integer),
        sa.Column("unit", sa.String(32)),
        sa.Column("details", sa.LargeBinary, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("run", "position"),
    )
    op.create_index("estimates_by_task", "estimates", ["task", "metric", "filter"])


def _make_facts_of_runs() -> None:
    op.create_table(
        "run_facts",
        _parent("run", "runs.id"),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("model_hash", sa.Text),
        sa.Column("revision", sa.Text),
        sa.Column("dtype", sa.Text, nullable=False),
        sa.Column("numerics", sa.Text, nullable=False),
        sa.Column("n_parameters", sa.BigInteger),
        sa.Column("max_length", sa.BigInteger),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger),
        sa.Column("sample_limit", sa.Double),
        sa.Column("chat_template", sa.Text),
        sa.Column("prompt_style", sa.Text),
        sa.Column("prompt_preset", sa.Text),
        sa.Column("has_system_instruction", sa.SmallInteger, nullable=False),
        sa.Column("audit", sa.Text),
        sa.Column("n_tasks", sa.Integer, nullable=False),
        sa.Column("n_samples", sa.BigInteger, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("run"),
    )


def _make_facts_of_samples() -> None:
    op.create_table(
        "fact_sets",
        _parent("run_task", "run_tasks.id"),
        sa.Column("metric", sa.Text),
        sa.Column("filter", sa.Text),
        sa.Column("is_share", sa.SmallInteger, nullable=False),
        sa.Column("reached_index", sa.Integer, nullable=False),
        sa.Column("reached_turn", sa.Integer, nullable=False),
        sa.Column("is_complete", sa.SmallInteger, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("run_task"),
    )
    op.create_table(
        "sample_facts",
        _parent("run_task", "run_tasks.id"),
        sa.Column("sample_index", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("turn", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("status", sa.String(16)),
        sa.Column("score", sa.Double),
        sa.Column("correct", sa.Double),
        sa.Column("is_wrong", sa.SmallInteger, nullable=False),
        sa.Column("category", sa.Text),
        sa.Column("n_shots", sa.Integer, nullable=False),
        sa.Column("n_leaked_shots", sa.Integer, nullable=False),
        sa.Column("n_truncated_tokens", sa.Integer, nullable=False),
        sa.Column("n_at_limit", sa.Integer, nullable=False),
        sa.Column("snippet", sa.Text, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("run_task", "sample_index", "turn"),
        sqlite_with_rowid=False,
    )
    narrow = ["run_task", "sample_index", "turn", "is_wrong", "category"]
    op.create_index("sample_facts_narrow", "sample_facts", narrow)
    op.create_table(
        "search_sets",
        _parent("run", "runs.id"),
        sa.Column("n_requests", sa.Integer, nullable=False),
        _checksum(),
        sa.PrimaryKeyConstraint("run"),
    )


def _insert(connection: sa.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(sa.insert(sa.table(table, *map(sa.column, rows[0]))), rows)


def _with_checksum(row: dict[str, Any]) -> dict[str, object]:
    return {**row, "checksum": checksum_of([name.encode() for name in row], list(row.values()))}


# ------------------------------------------------------------------------------------- estimates


def _move_estimates(connection: sa.Connection) -> None:
    last = (-1, -1)
    after = sa.tuple_(EARLIER.c.run, EARLIER.c.position)
    ordered = sa.select(EARLIER).order_by(EARLIER.c.run, EARLIER.c.position).limit(AT_ONCE)
    while rows := connection.execute(ordered.where(after > last)).all():
        _insert(connection, "estimates", [_moved(row) for row in rows])
        last = (rows[-1].run, rows[-1].position)


def _moved(row: Any) -> dict[str, Any]:
    """Return an estimate's new row; one that was damaged stays damaged."""
    was_sound = row.checksum == checksum_of([b"run", b"position", b"content"], row)
    try:
        moved = _estimate(row.run, row.position, unpack_json(row.content))
    except _UNREADABLE:
        moved, was_sound = _placeholder(row), False
    return moved if was_sound else {**moved, "checksum": moved["checksum"] ^ 1}


def _estimate(run: int, position: int, estimate: Mapping[str, Any]) -> dict[str, Any]:
    details = estimate["details"]
    kind, unit, n_shots = details.get("kind"), details.get("unit"), details.get("n_shots")
    return _with_checksum({
        "run": run,
        "position": position,
        "task": shown_text(estimate["task"]),
        "metric": shown_text(estimate["metric"]),
        "filter": shown_text(estimate["filter"]),
        "value": _number(estimate["value"]),
        "low": _number(estimate["low"]),
        "high": _number(estimate["high"]),
        "method": shown_text(estimate["method"]),
        "n": int(estimate["n"]),
        "n_failed": int(estimate["n_failed"]),
        "n_unparsed": int(estimate["n_unparsed"]),
        "stderr": _number(estimate["stderr"]),
        "chance": _number(estimate["chance"]),
        "higher_is_better": int(bool(estimate["higher_is_better"])),
        "confidence": float(estimate["confidence"]),
        "kind": shown_text(kind)[:32] if isinstance(kind, str) else "task",
        "is_primary": int(bool(details.get("primary"))),
        "n_shots": n_shots if isinstance(n_shots, int) and abs(n_shots) < 2**31 else None,
        "unit": shown_text(unit)[:32] if isinstance(unit, str) else None,
        "details": pack_json(details),
    })  # fmt: skip


def _placeholder(row: Any) -> dict[str, object]:
    """Return a row for an estimate that cannot be read."""
    empty = {"metric": "", "filter": "", "method": "", "value": None, "n": 0, "n_failed": 0, "n_unparsed": 0}
    nothing = dict.fromkeys(("low", "high", "stderr", "chance", "n_shots", "unit"))
    rest = {"higher_is_better": 1, "confidence": 0.0, "kind": "", "is_primary": 0, "details": bytes(row.content)}
    return _with_checksum({"run": row.run, "position": row.position, "task": "", **empty, **nothing, **rest})


def _number(value: Any) -> float | None:
    """Return a number as both databases keep it; NaN was never a value, and -0.0 is 0.0."""
    return None if value is None or math.isnan(value) else float(value) + 0.0


# ----------------------------------------------------------------------------------- facts of runs


def _write_facts_of_runs(connection: sa.Connection) -> None:
    runs = sa.table("runs", sa.column("id"), sa.column("plan"))
    last = -1
    while rows := connection.execute(sa.select(runs).where(runs.c.id > last).order_by(runs.c.id).limit(AT_ONCE)).all():
        facts = []
        for row in rows:
            try:
                facts.append(_facts(row.id, unpack_json(row.plan)))
            except _UNREADABLE:
                continue  # `verify` names the plan
        _insert(connection, "run_facts", facts)
        last = rows[-1].id


def _facts(run: int, plan: Mapping[str, Any]) -> dict[str, object]:
    model, template = plan["model"], plan["apply_chat_template"]
    extra = dict(plan["extra"])
    audit, preset = extra.get("audit"), extra.get("prompt_preset")
    limit = plan["limit"]
    return _with_checksum({
        "run": run,
        "model": shown_text(model["name"]),
        "kind": shown_text(model["kind"]),
        "model_hash": _text(model["content_hash"]),
        "revision": _text(model["revision"]),
        "dtype": shown_text(model["dtype"]),
        "numerics": shown_text(model["numerics"]),
        "n_parameters": _integer(model["n_parameters"]),
        "max_length": _integer(model["max_length"]),
        "profile": shown_text(plan["profile"]),
        "seed": _integer(plan["seed"]),
        "sample_limit": None if limit is None else float(limit),
        "chat_template": None if template is False else "" if template is True else shown_text(template),
        "prompt_style": _text(extra.get("prompting")),
        "prompt_preset": None if preset is None else shown_text(str(preset["name"])),
        "has_system_instruction": int(plan["system_instruction"] is not None),
        "audit": None if audit is None else shown_text(str(audit["kind"])),
        "n_tasks": len(plan["tasks"]),
        "n_samples": _integer(sum(task["n_samples"] for task in plan["tasks"])) or 0,
    })  # fmt: skip


def _text(value: object) -> str | None:
    return None if value is None else shown_text(str(value))


def _integer(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < 2**63 else None
