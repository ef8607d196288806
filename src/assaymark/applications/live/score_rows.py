"""Rows of scores of traces: of events, rules, feedback and raters."""

from sqlalchemy import ColumnElement, and_, select

from assaymark.applications.traces.span_adding import short_text
from assaymark.applications.traces.tables import spans, trace_scores, traces
from assaymark.applications.traces.trace_rows import NewScore
from assaymark.store.packing import shown_text


def score_row(project: int, score: NewScore, received: float) -> dict[str, object]:
    """Return the row of a score."""
    return {
        "project": project,
        "digest": score.digest,
        "trace_id": score.trace_id,
        "span_id": score.span_id,
        "response_id": short_text(score.response_id),
        "name": short_text(score.name) or "",
        "value": score.value,
        "label": short_text(score.label),
        "explanation": None if score.explanation is None else shown_text(score.explanation),
        "error": short_text(score.error),
        "observed": score.observed,
        "received": received,
        "source": score.source,
        "rule": score.rule,
        "rule_version": score.rule_version,
        "rate": score.rate,
        "stale": None,
        "session": short_text(score.session),
        "rater": score.rater,
        "correction": None if score.correction is None else shown_text(score.correction),
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
