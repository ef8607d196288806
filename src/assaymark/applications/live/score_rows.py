"""Rows of scores of traces: of events, rules, feedback and raters."""

from dataclasses import asdict

from sqlalchemy import ColumnElement, and_, select

from assaymark.applications.traces.span_adding import short_text
from assaymark.applications.traces.tables import spans, trace_scores, traces
from assaymark.applications.traces.trace_rows import TraceScore
from assaymark.store.packing import shown_text


def score_row(project: int, score: TraceScore, received: float) -> dict[str, object]:
    """Return the row of a score."""
    return {
        **asdict(score),
        "project": project,
        "received": received,
        "name": short_text(score.name) or "",
        **{name: short_text(getattr(score, name)) for name in ("response_id", "label", "error", "session")},
        **{
            name: None if (text := getattr(score, name)) is None else shown_text(text)
            for name in ("explanation", "correction")
        },
    }


def scores_of_trace(project: int, trace_id: bytes) -> list[ColumnElement[bool]]:
    """Return the conditions under which a score belongs to a trace."""
    in_trace = spans.c.project == project, spans.c.trace_id == trace_id
    nowhere = trace_scores.c.trace_id.is_(None)
    responses = select(spans.c.response_id).where(*in_trace, spans.c.response_id.isnot(None))
    session = select(traces.c.session).where(
        traces.c.project == project, traces.c.trace_id == trace_id, traces.c.session.isnot(None)
    )
    return [
        trace_scores.c.trace_id == trace_id,
        and_(nowhere, trace_scores.c.response_id.in_(responses)),
        and_(nowhere, trace_scores.c.span_id.in_(select(spans.c.span_id).where(*in_trace))),
        and_(nowhere, trace_scores.c.session.in_(session)),
    ]
