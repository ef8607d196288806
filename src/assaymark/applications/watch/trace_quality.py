"""Quality of an application over time: sums of what its traces and their scores say, by bucket of time and version.

The database adds up, and lists durations, since a quantile needs all of them: in one text for each bucket, which is
read faster than a row for each. A bucket is named by its start in
nanoseconds since 1970, UTC. What a rule did not draw has the rate 1, and a score of an older state of its trace (stale)
or one that failed does not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Text, and_, case, func, literal, null, select
from sqlalchemy import cast as sql_cast

from assaymark.applications.traces.tables import trace_scores, traces
from assaymark.store.connection import OpenStore

__all__ = ["QualityWindow", "ScoreCell", "Sums", "TraceCell", "TraceQuality"]


@dataclass(frozen=True, slots=True)
class QualityWindow:
    """Which traces are added up. Times in nanoseconds since 1970: since <= time < until."""

    project: int
    since: int
    until: int
    bucket: int  # nanoseconds
    by_version: bool


class Sums(NamedTuple):
    """Sums of values x with weights w, of which mean and error follow."""

    n: int
    weights: float
    squared_weights: float
    values: float  # sum of w x
    squared: float  # of w² x
    squares: float  # of w² x²
    low: float
    high: float


class TraceCell(NamedTuple):
    """The traces of one bucket and version. version: None where spans name none, or where versions are together."""

    bucket: int
    version: str | None
    n: int
    n_failed: int  # with a failed step
    cost: Sums | None  # of those whose cost is known
    tokens: Sums | None
    durations: tuple[int, ...]  # nanoseconds, ascending; of ended traces whose clock does not run backwards


class ScoreCell(NamedTuple):
    """The scores of one scorer in one bucket, of traces of one version."""

    name: str
    bucket: int
    version: str | None
    n_failed: int  # scores that could not be computed: neither 0 nor left out silently
    sums: Sums | None


def optional_column(name: str) -> ColumnElement[Any]:
    """Return a column of scores that live rules fill; NULL in a schema that has none."""
    return trace_scores.c[name] if name in trace_scores.c else null()


class TraceQuality:
    """Reads sums over a window. May be used by several threads."""

    def __init__(self, store: OpenStore) -> None:
        self._database = store.database

    def traces(self, window: QualityWindow) -> list[TraceCell]:
        """Return the traces' sums, by bucket and version."""
        groups = _groups(window)
        tokens = func.coalesce(traces.c.n_input, 0) + func.coalesce(traces.c.n_output, 0)
        lasted = traces.c.ended - traces.c.started
        is_counted = case((traces.c.n_input.is_(None) & traces.c.n_output.is_(None), None), else_=1.0)
        columns = [
            *(func.count(), func.sum(case((traces.c.n_errors > 0, 1), else_=0))),
            *_plain_sums(traces.c.cost),
            *_plain_sums(is_counted * tokens),
            func.aggregate_strings(case((lasted >= 0, sql_cast(lasted, Text)), else_=None), ","),
        ]
        statement = select(*groups, *columns).where(*_in_window(window)).group_by(*groups)
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        cells = []
        for row in rows:
            bucket, version, rest = _named(row, window)
            sums = _unweighted(rest[2:7]), _unweighted(rest[7:12])
            durations = sorted(map(int, rest[12].split(","))) if rest[12] else ()
            cells.append(TraceCell(bucket, version, rest[0], int(rest[1]), *sums, tuple(durations)))
        return cells

    def scores(self, window: QualityWindow) -> list[ScoreCell]:
        """Return the scores' sums, by scorer, bucket and version of the trace. Weights are 1 over the sampling rate."""
        score = trace_scores.c
        groups: list[ColumnElement[Any]] = [_bucket(score.observed, window)]
        source: Any = trace_scores
        if window.by_version:
            same = and_(traces.c.project == score.project, traces.c.trace_id == score.trace_id)
            source = trace_scores.outerjoin(traces, same)
            groups.append(traces.c.version)
        rate = optional_column("rate")
        value = case((score.error.is_(None), score.value), else_=None)
        weight = case((value.is_(None), None), else_=1.0 / func.coalesce(rate, 1.0))
        columns = [
            *(func.sum(case((score.error.isnot(None), 1), else_=0)), func.count(value)),
            *(func.sum(weight), func.sum(weight * weight), func.sum(weight * value)),
            *(func.sum(weight * weight * value), func.sum(weight * weight * value * value)),
            *(func.min(value), func.max(value)),
        ]
        conditions = [
            *(score.project == window.project, score.observed >= window.since, score.observed < window.until),
            optional_column("stale").is_(None),
        ]
        statement = select(*groups, score.name, *columns).select_from(source).where(*conditions)
        with self._database.reading() as connection:
            rows = connection.execute(statement.group_by(*groups, score.name)).all()
        cells = []
        for row in rows:
            bucket, version, (name, n_failed, n, *rest) = _named(row, window)
            sums = Sums(n, *map(float, rest)) if n else None
            cells.append(ScoreCell(name, bucket, version, int(n_failed), sums))
        return cells


def _bucket(column: ColumnElement[Any], window: QualityWindow) -> ColumnElement[Any]:
    # written into the statement: of a bound value PostgreSQL does not know that SELECT and GROUP BY have the same
    return column.op("/")(literal(window.bucket, literal_execute=True))


def _groups(window: QualityWindow) -> list[ColumnElement[Any]]:
    return [_bucket(traces.c.at, window), *([traces.c.version] if window.by_version else [])]


def _named(row: Sequence[Any], window: QualityWindow) -> tuple[int, str | None, Sequence[Any]]:
    """Return a row's bucket by its start, its version, and the other columns."""
    at, *rest = row
    version = rest.pop(0) if window.by_version else None
    return int(at) * window.bucket, version, rest


def _in_window(window: QualityWindow) -> Sequence[ColumnElement[bool]]:
    return traces.c.project == window.project, traces.c.at >= window.since, traces.c.at < window.until


def _plain_sums(value: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [func.count(value), func.sum(value), func.sum(value * value), func.min(value), func.max(value)]


def _unweighted(row: Sequence[Any]) -> Sums | None:
    n, values, squares, low, high = row
    if not n:
        return None
    return Sums(n, float(n), float(n), float(values), float(values), float(squares), float(low), float(high))
