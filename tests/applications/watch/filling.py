"""Stores with traces and scores that tests made up, written as the receiver and evaluations write them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert

from assaymark.applications.traces.tables import trace_scores, traces
from assaymark.store import Store

__all__ = ["MadeTrace", "fill", "score_row", "trace_id"]

NANOSECONDS = 10**9


@dataclass(frozen=True)
class MadeTrace:
    """A trace. at: seconds since 1970; scores: name -> value, None for one that could not be computed."""

    at: float
    seconds: float | None = 1.0
    version: str | None = "1"
    failed: bool = False
    cost: float | None = None
    n_unpriced: int | None = None
    tokens: int | None = None
    scores: tuple[tuple[str, float | None], ...] = ()
    received: float | None = None
    session: str | None = None


def trace_id(number: int) -> bytes:
    """Return an id for a number."""
    return hashlib.sha256(b"trace %d" % number).digest()[:16]


def score_row(project: int, number: int, name: str, value: float | None, at: float, **more: Any) -> dict[str, Any]:
    """Return the row of a score of a trace."""
    return {
        "source": "rule",
        "project": project,
        "digest": hashlib.sha256(f"{number} {name} {at}".encode()).digest()[:16],
        "trace_id": trace_id(number),
        "name": name,
        "value": value,
        "error": "the judge failed" if value is None else None,
        "observed": int(at * NANOSECONDS),
        "received": at,
        **more,
    }


def fill(store: Store, project: int, made: Sequence[MadeTrace], first: int = 0) -> None:
    """Store traces with their scores; their numbers begin with `first`."""
    rows, scores = [], []
    for number, each in enumerate(made, first):
        started = int(each.at * NANOSECONDS)
        ended = None if each.seconds is None else started + int(each.seconds * NANOSECONDS)
        rows.append(
            {
                "project": project, "trace_id": trace_id(number), "at": started, "started": started, "ended": ended,
                "name": "answer", "n_spans": 1, "n_errors": int(each.failed), "n_orphans": 0, "models": "",
                "n_input": each.tokens, "n_output": None, "cost": each.cost,
                "n_unpriced": each.n_unpriced, "version": each.version, "n_bytes": 100,
                "session": each.session,
                "received": each.at if each.received is None else each.received,
            }
        )  # fmt: skip
        scores += [score_row(project, number, name, value, each.at) for name, value in each.scores]
    with store._database.writing() as connection:
        connection.execute(insert(traces), rows)
        if scores:
            connection.execute(insert(trace_scores), scores)
