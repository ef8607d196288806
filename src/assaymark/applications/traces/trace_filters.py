"""Which traces a list, a rule or a queue has, as conditions of the database."""

from collections.abc import Callable

from sqlalchemy import ColumnElement, and_, case, or_, select

from assaymark.applications.traces.tables import spans, trace_scores, traces
from assaymark.applications.traces.trace_rows import LONGEST_NS, ScoreCondition, TraceFilter
from assaymark.store.packing import shown_text

LARGEST_INTEGER = 2**63 - 1
_COMPARED: dict[str, Callable[[ColumnElement[float], float], ColumnElement[bool]]] = {
    ">=": lambda column, number: column >= number,
    "<=": lambda column, number: column <= number,
    ">": lambda column, number: column > number,
    "<": lambda column, number: column < number,
    "=": lambda column, number: column == number,
}


def lasted() -> ColumnElement[int]:
    """Return the duration of a trace in nanoseconds; NULL while it runs, or where its clock cannot be right."""
    duration = traces.c.ended - traces.c.started
    return case((and_(traces.c.started > 0, duration.between(0, LONGEST_NS)), duration))


def conditions_of(project: int, wanted: TraceFilter) -> list[ColumnElement[bool]]:
    """Return the condition on a trace; the words of a filter are looked up by `TraceLog.traces`."""
    conditions: list[ColumnElement[bool]] = [traces.c.project == project]
    if wanted.since is not None:
        conditions.append(traces.c.at >= wanted.since)
    if wanted.until is not None:
        conditions.append(traces.c.at < wanted.until)
    named = {name: getattr(wanted, name) for name in ("version", "service", "user", "session")}
    conditions += [traces.c[name] == shown_text(value) for name, value in named.items() if value is not None]
    if wanted.model is not None:
        conditions.append(traces.c.models.contains(f"\n{shown_text(wanted.model)}\n", autoescape=True))
    if wanted.has_error is not None:
        conditions.append(traces.c.n_errors > 0 if wanted.has_error else traces.c.n_errors == 0)
    if wanted.least_seconds is not None:
        least = min(int(wanted.least_seconds * 1e9), LARGEST_INTEGER)
        conditions.append(lasted() >= least)
    if wanted.least_cost is not None:
        conditions.append(traces.c.cost >= wanted.least_cost)
    if wanted.score is not None:
        conditions.append(_has_score(project, wanted.score))
    if wanted.before is not None:
        at, trace_id = wanted.before
        conditions.append(or_(traces.c.at < at, and_(traces.c.at == at, traces.c.trace_id < trace_id)))
    return conditions


def _has_score(project: int, wanted: ScoreCondition) -> ColumnElement[bool]:
    """Return whether a trace, one of its spans or responses, or its session has such a score.

    Spans have no index by which those that scores name alone could be found: all of the project's keys are read for
    them, so first it is asked whether there is such a score.
    """
    like_that = [
        trace_scores.c.project == project,
        trace_scores.c.name == shown_text(wanted.name),
        _COMPARED[wanted.sign](trace_scores.c.value, wanted.number),
    ]
    of_trace = select(trace_scores.c.trace_id).where(*like_that, trace_scores.c.trace_id.isnot(None))
    of_session = select(trace_scores.c.session).where(*like_that, trace_scores.c.session.isnot(None))
    of_response = (
        select(spans.c.trace_id)
        .where(spans.c.project == project, spans.c.response_id == trace_scores.c.response_id, *like_that)
        .where(trace_scores.c.trace_id.is_(None), trace_scores.c.response_id.isnot(None))
    )
    span_alone = (*like_that, trace_scores.c.trace_id.is_(None), trace_scores.c.span_id.isnot(None))
    of_span = select(spans.c.trace_id).where(
        spans.c.project == project, spans.c.span_id.in_(select(trace_scores.c.span_id).where(*span_alone))
    )
    return or_(
        traces.c.trace_id.in_(of_trace),
        traces.c.session.in_(of_session),
        traces.c.trace_id.in_(of_response),
        and_(select(trace_scores.c.name).where(*span_alone).exists(), traces.c.trace_id.in_(of_span)),
    )
