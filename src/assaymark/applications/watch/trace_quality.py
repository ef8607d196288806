"""Quality of an application over time: sums over its traces and their scores, by bucket of time and version.

The database adds up, and lists durations, since a quantile needs all of them: in one text for each bucket, which is
read faster than a row for each. A bucket is named by its start in
nanoseconds since 1970, UTC. What a rule did not draw has the rate 1, and a score of an older state of its trace (stale)
or one that failed does not count.

Traces of one session depend on each other, so sums are made of each session first, and sums of their squares and
products give the error of a mean (`statistics.summed`). A trace without a session is one for itself: of these the
first step makes a single row, so that they cost no more than before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Double,
    Select,
    Subquery,
    Text,
    and_,
    case,
    exists,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy import text as sql

from assaymark.applications.live.tables import trace_rules
from assaymark.applications.traces.tables import trace_scores, traces
from assaymark.applications.traces.trace_filters import lasted
from assaymark.store.feature_tables import FeatureLog
from assaymark.store.schema import StoredRow


@dataclass(frozen=True, slots=True)
class QualityWindow:
    """Which traces are added up. Times in nanoseconds since 1970: since <= time < until."""

    project: int
    since: int
    until: int
    bucket: int  # nanoseconds
    by_version: bool

    @property
    def bucket_seconds(self) -> int:
        """The length of a bucket in seconds."""
        return self.bucket // 10**9


class Sums(NamedTuple):
    """Sums of values x with weights w, of which mean and error follow. W and A: a session's sums of w and of w x."""

    n: int
    n_sessions: int  # a value without a session is one for itself
    weights: float  # of w
    squared_weights: float  # of W²
    values: float  # of w x
    squared: float  # of W A
    squares: float  # of A²
    low: float  # the smallest x
    high: float
    has_equal_weights: bool = True


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of traces in nanoseconds, as decimal numbers with commas between them; "" for none."""

    alone: str  # of traces without a session
    sessions: str  # of those with one, semicolons between sessions


class TraceCell(NamedTuple):
    """The traces of one bucket and version. version: None where spans name none, or where versions are together."""

    bucket: int
    version: str | None
    errors: Sums  # 1 for a trace with a failed step
    cost: Sums | None  # of those whose cost is known
    tokens: Sums | None
    durations: Durations  # of ended traces whose clock may be right
    n_unpriced: int  # calls of models without a price, in traces with a cost


class ScoreCell(NamedTuple):
    """The scores of one name and source in one bucket, of traces of one version."""

    name: str
    source: str  # event | rule | feedback | queue: a rule and raters measure two things under one name
    bucket: int
    version: str | None
    n_failed: int  # scores that could not be computed: neither 0 nor left out silently
    sums: Sums | None


class TraceQuality(FeatureLog):
    """Reads sums over a window. May be used by several threads."""

    def reach(self, window: QualityWindow) -> tuple[int, int] | None:
        """Return the times of the first and the last trace or score of a window; None where there is neither."""
        ends: list[int] = []
        for project, at in ((traces.c.project, traces.c.at), (trace_scores.c.project, trace_scores.c.observed)):
            within = (project == window.project, at >= window.since, at < window.until)
            for row in self._sorted_rows(select(func.min(at), func.max(at)).where(*within)):
                ends += [end for end in row if isinstance(end, int)]
        return (min(ends), max(ends)) if ends else None

    def traces(self, window: QualityWindow) -> list[TraceCell]:
        """Return the traces' sums, by bucket and version."""
        column = traces.c
        n_input, n_output = (sql_cast(each, Double) for each in (column.n_input, column.n_output))
        values = {
            "errors": case((column.n_errors > 0, 1), else_=0),
            "cost": column.cost,
            "tokens": func.coalesce(n_input + column.n_output, n_input, n_output),
        }
        durations = func.aggregate_strings(sql_cast(lasted(), Text), ",")
        keys = [_bucket(column.at, window).label("bucket"), *([column.version] if window.by_version else [])]
        session = func.nullif(column.session, "")
        each = (
            select(*keys, session.label("session"), durations.label("durations"))
            .add_columns(
                func.sum(case((column.cost.isnot(None), func.coalesce(column.n_unpriced, 0)), else_=0)).label(
                    "n_unpriced"
                )
            )
            .add_columns(*(total for name, value in values.items() for total in _session_sums(name, value)))
            .where(column.project == window.project, column.at >= window.since, column.at < window.until)
            .group_by(*keys, session)
            .subquery()
        )
        groups = list(each.c)[: len(keys)]
        is_alone = each.c.session.is_(None)
        statement = select(
            *groups,
            *(total for name in values for total in _sums_of_sessions(each, name)),
            func.max(case((is_alone, each.c.durations), else_=None)),
            func.aggregate_strings(case((is_alone, None), else_=each.c.durations), ";"),
            func.sum(each.c.n_unpriced),
        ).group_by(*groups)
        rows = self._sorted_rows(statement)
        cells = []
        for row in rows:
            bucket, version, rest = _bucket_and_version(row, window)
            errors, cost, tokens = (_unweighted(rest[at : at + N_SUMS]) for at in range(0, 3 * N_SUMS, N_SUMS))
            if errors is not None:
                *texts, n_unpriced = rest[3 * N_SUMS :]
                durations_of_cell = Durations(*(text or "" for text in texts))
                cells.append(TraceCell(bucket, version, errors, cost, tokens, durations_of_cell, int(n_unpriced)))
        return cells

    def scores(self, window: QualityWindow) -> list[ScoreCell]:
        """Return the scores' sums, by name, source, bucket and version of the trace. Weights are 1 over the rate.

        Scores of one rate are added up before they are weighted, which needs no product for each. Where a trace has no
        session, its scores depend on each other: a rule gives one, events and people may give several. A trace that two
        rules of one score have drawn counts once, at the higher rate, of equal ones by the later rule.
        """
        score = trace_scores.c
        keys = [_bucket(score.observed, window).label("bucket"), score.name, score.source]
        if window.by_version:
            keys.insert(1, traces.c.version)
        trace = func.hex(score.trace_id) if self._database.is_sqlite else func.encode(score.trace_id, "hex")
        session = func.coalesce(
            *(func.nullif(each, "") for each in (score.session, traces.c.session)),
            case((score.source == "rule", None), else_=trace),
        )
        rate = func.coalesce(score.rate, 1.0)
        value = case((score.error.is_(None), score.value), else_=None)
        same = and_(traces.c.project == score.project, traces.c.trace_id == score.trace_id)
        by_rate = (
            select(*keys, session.label("session"), rate.label("rate"), func.count(value).label("n"))
            .add_columns((func.count() - func.count(case((score.error.is_(None), 1), else_=None))).label("n_failed"))
            .add_columns(func.sum(value).label("x"), func.sum(value * value).label("xx"))
            .add_columns(func.min(value).label("low"), func.max(value).label("high"))
            .select_from(trace_scores.outerjoin(traces, same))
            .where(score.project == window.project, score.observed >= window.since, score.observed < window.until)
            .where(score.stale.is_(None), *self._once(window.project))
            .group_by(*keys, session, rate)
            .subquery()
        )
        part, weight = by_rate.c, 1.0 / by_rate.c.rate
        of_value = case((part.n > 0, part.rate), else_=None)
        of_session = [*list(part)[: len(keys)], part.session]
        each = (
            select(*of_session, func.sum(part.n).label("n"), func.sum(part.n_failed).label("n_failed"))
            .add_columns(func.sum(weight * part.n).label("w"), func.sum(weight * part.x).label("a"))
            .add_columns(func.sum(weight * weight * part.n).label("ww"))
            .add_columns(func.sum(weight * weight * part.x).label("wa"))
            .add_columns(func.sum(weight * weight * part.xx).label("aa"))
            .add_columns(func.min(part.low).label("low"), func.max(part.high).label("high"))
            .add_columns(func.min(of_value).label("low_rate"), func.max(of_value).label("high_rate"))
            .group_by(*of_session)
            .subquery()
        )
        groups = list(each.c)[: len(keys)]
        total, is_alone = each.c, each.c.session.is_(None)
        n_sessions = case((is_alone, total.n), (total.n > 0, 1), else_=0)
        statement = select(
            *groups,
            *(func.sum(total.n_failed), func.sum(total.n), func.sum(n_sessions), func.sum(total.w)),
            func.sum(case((is_alone, total.ww), else_=total.w * total.w)),
            func.sum(total.a),
            func.sum(case((is_alone, total.wa), else_=total.w * total.a)),
            func.sum(case((is_alone, total.aa), else_=total.a * total.a)),
            *(func.min(total.low), func.max(total.high), func.min(total.low_rate), func.max(total.high_rate)),
        ).group_by(*groups)
        rows = self._sorted_rows(statement)
        cells = []
        for row in rows:
            bucket, version, (name, source, n_failed, n, n_sessions_of_cell, *rest) = _bucket_and_version(row, window)
            *numbers, low_rate, high_rate = rest
            sums = _sums(n, n_sessions_of_cell, numbers, has_equal_weights=low_rate == high_rate) if n else None
            cells.append(ScoreCell(name, source, bucket, version, int(n_failed), sums))
        return cells

    def _once(self, project: int) -> list[ColumnElement[bool]]:
        """Return the condition by which each trace's score of rules counts once; none where no two rules have one."""
        rules = trace_rules.c
        of_two = select(rules.score).where(rules.project == project).group_by(rules.score).having(func.count() > 1)
        names = [str(row[0]) for row in self._rows(of_two)]
        if not names:
            return []
        score, other = trace_scores.c, trace_scores.alias().c
        same = [other[name] == score[name] for name in ("project", "trace_id", "name", "source")]
        comes_first = or_(other.rate > score.rate, and_(other.rate == score.rate, other.rule > score.rule))
        return [~and_(score.source == "rule", score.name.in_(names), exists().where(*same, comes_first))]

    def _sorted_rows(self, statement: Select[object]) -> Sequence[StoredRow]:
        with self._database.reading() as connection:
            if not self._database.is_sqlite:  # the default of 4 MB has a month's rows sorted on the disk
                connection.execute(sql("SET LOCAL work_mem = '64MB'"))
            return connection.execute(statement).all()


N_SUMS = 8  # of a metric of traces


def _bucket(column: ColumnElement[object], window: QualityWindow) -> ColumnElement[object]:
    # written into the statement: of a bound value PostgreSQL does not know that SELECT and GROUP BY have the same
    return column.op("/")(literal(window.bucket, literal_execute=True))


def _bucket_and_version(row: Sequence[Any], window: QualityWindow) -> tuple[int, str | None, Sequence[Any]]:
    """Return a row's bucket by its start, its version, and the other columns."""
    at, *rest = row
    version = rest.pop(0) if window.by_version else None
    return int(at) * window.bucket, version, rest


def _session_sums(name: str, value: ColumnElement[Any]) -> list[ColumnElement[object]]:
    """Return the sums of a metric over the traces of a session, or over all those without one."""
    totals = {"n": func.count(value), "x": func.sum(value), "xx": func.sum(value * value)}
    ends = {"low": func.min(value), "high": func.max(value)}
    return [total.label(f"{name}_{part}") for part, total in {**totals, **ends}.items()]


def _sums_of_sessions(each: Subquery, name: str) -> list[ColumnElement[object]]:
    n, x, xx, low, high = (each.c[f"{name}_{part}"] for part in ("n", "x", "xx", "low", "high"))
    is_alone = each.c.session.is_(None)
    return [
        *(func.sum(n), func.sum(case((is_alone, n), (n > 0, 1), else_=0))),
        func.sum(case((is_alone, n), else_=n * n)),
        func.sum(x),
        func.sum(case((is_alone, x), else_=n * x)),
        func.sum(case((is_alone, xx), else_=x * x)),
        *(func.min(low), func.max(high)),
    ]


def _unweighted(row: Sequence[float]) -> Sums | None:
    n, n_sessions, *rest = row
    return _sums(n, n_sessions, [n, *rest]) if n else None


def _sums(n: float, n_sessions: float, numbers: Sequence[float], *, has_equal_weights: bool = True) -> Sums:
    weights, squared_weights, values, squared, squares, low, high = map(float, numbers)
    return Sums(
        int(n), int(n_sessions), weights, squared_weights, values, squared, squares, low, high, has_equal_weights
    )
