"""Conversion of outputs, scores and estimates to rows and back, without loss."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from assaymark.errors import StoreError
from assaymark.records import Estimate, Output, Score, ScoreStatus
from assaymark.store.packing import (
    pack_hash,
    pack_json,
    pack_optional,
    pack_optional_json,
    shown_text,
    unpack_hash,
    unpack_json,
    unpack_optional,
)
from assaymark.store.schema import StoredRow, estimates, outputs, scores, with_checksum


def output_row(output: Output, request: int, attempt: int) -> dict[str, object]:
    """Return the row of an output.

    Raises: StoreError if its log-probability is NaN.
    """
    nats = _number(output.total_nats, f"total_nats of request {output.request_id}, query {output.ask_index}")
    row = {
        "request": request,
        "ask_index": output.ask_index,
        "repeat": output.repeat,
        "attempt": attempt,
        "total_nats": nats,
        "is_greedy": None if output.is_greedy is None else int(output.is_greedy),
        "text": pack_optional(output.text),
        "reasoning": pack_optional(output.reasoning),
        "tool_calls": pack_optional(output.tool_calls),
        "finish_reason": output.finish_reason,
        "n_context_tokens": int(output.n_context_tokens),
        "n_tokens": int(output.n_tokens),
        "n_cut_tokens": int(output.n_cut_tokens),
        "cache_key": None if output.cache_key is None else pack_hash(output.cache_key),
        "from_cache": int(output.from_cache),
        "error": pack_optional(output.error),
        "error_kind": output.error_kind,
        "call": pack_optional(output.call),
    }
    return with_checksum(outputs, row)


def output_of(row: Sequence[Any], request_id: str, *, from_cache: bool = False) -> Output:
    """Return the output of a row of `outputs`, in the table's order."""
    return Output(
        request_id, row[1], row[2], row[4], None if row[5] is None else bool(row[5]), unpack_optional(row[6]),
        unpack_optional(row[7]), unpack_optional(row[8]), row[9], row[10], row[11], row[12],
        None if row[13] is None else unpack_hash(row[13]), from_cache or bool(row[14]), unpack_optional(row[15]),
        row[16], unpack_optional(row[17])
    )  # fmt: skip


def score_row(score: Score, request: int, scoring: int) -> dict[str, object]:
    """Return the row of a score.

    Raises: StoreError if its value is NaN; an undefined value is None.
    """
    value = _number(score.value, f"{score.metric} ({score.filter}) of request {score.request_id}")
    row = {
        "request": request,
        "scoring": scoring,
        "value": value,
        "status": score.status.value,
        "parts": pack_optional_json(score.parts),
        "detail": pack_optional_json(score.detail),
    }
    return with_checksum(scores, row)


def parts_of(packed: bytes | None) -> tuple[object, ...] | None:
    """Return the parts of a score."""
    return None if packed is None else tuple(unpack_json(packed))


def score_of(row: StoredRow, request_id: str) -> Score:
    """Return the score of a row that also has its filter and metric."""
    return Score(
        request_id=request_id,
        metric=row.metric,
        value=row.value,
        filter=row.filter,
        status=ScoreStatus(row.status),
        parts=parts_of(row.parts),
        detail=unpack_json(row.detail),
    )


def estimate_row(estimate: Estimate, run: int, position: int) -> dict[str, object]:
    """Return the row of an estimate: its fields as columns, and its details as one packed JSON value."""
    details = asdict(estimate)["details"]
    row = {
        "run": run,
        "position": position,
        "task": shown_text(estimate.task),
        "metric": shown_text(estimate.metric),
        "filter": shown_text(estimate.filter),
        "method": shown_text(estimate.method),
        "n": int(estimate.n),
        "n_failed": int(estimate.n_failed),
        "n_unparsed": int(estimate.n_unparsed),
        "higher_is_better": int(estimate.higher_is_better),
        "confidence": float(estimate.confidence),
        **{name: _defined(getattr(estimate, name)) for name in ("value", "low", "high", "stderr", "chance")},
        **repeated_details(details),
        "details": pack_json(details),
    }
    return with_checksum(estimates, row)


def repeated_details(details: Mapping[str, object]) -> dict[str, object]:
    """Return the columns of an estimate that repeat its details, so that leaderboards can filter by them."""
    kind, unit, n_shots = details.get("kind"), details.get("unit"), details.get("n_shots")
    return {
        "kind": shown_text(kind)[:32] if isinstance(kind, str) else "task",
        "is_primary": int(bool(details.get("primary"))),
        "n_shots": n_shots if isinstance(n_shots, int) and abs(n_shots) < 2**31 else None,
        "unit": shown_text(unit)[:32] if isinstance(unit, str) else None,
    }


def estimate_of(row: StoredRow) -> Estimate:
    """Return the estimate of a row of all columns."""
    return Estimate(
        task=row.task,
        metric=row.metric,
        filter=row.filter,
        value=row.value,
        low=row.low,
        high=row.high,
        method=row.method,
        n=row.n,
        n_failed=row.n_failed,
        n_unparsed=row.n_unparsed,
        stderr=row.stderr,
        chance=row.chance,
        higher_is_better=bool(row.higher_is_better),
        confidence=row.confidence,
        details=unpack_json(row.details),
    )


def _defined(value: float | None) -> float | None:
    """Return a number as both databases store it; NaN becomes None."""
    return None if value is None or math.isnan(value) else float(value) + 0.0


def _number(value: float | None, what: str) -> float | None:
    """Return the value as both databases store it: a float, with -0.0 (which SQLite does not have) as 0.0.

    Raises: StoreError for NaN; `what` describes the value.
    """
    if value is None:
        return None
    number = float(value) + 0.0
    if math.isnan(number):
        raise StoreError(f"{what} is NaN; expected a number, or None if it is undefined")
    return number
