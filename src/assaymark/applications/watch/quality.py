"""Quality over time: scores, errors, latency, cost and tokens of a project by time and version, with intervals.

Each point is of the traces that began in its bucket. Traces of one session depend on each other, which the intervals
take into account; a trace without one counts as independent of the others. Scores that a rule sampled are weighted by 1
over its rate, so that a change of the rate changes no line.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from assaymark.applications.live.annotation import number_scores
from assaymark.applications.scorers.named import is_of_numbers
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.watch.trace_quality import Durations, QualityWindow, Sums, TraceQuality
from assaymark.documents.numbers import NOTHING
from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.summed import estimate_from_sums, estimate_quantile
from assaymark.store import Store

Unit = Literal["share", "seconds", "cost", "tokens", "number", "count"]

SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}
LONGEST_SPAN = {"minute": 2 * 3600, "hour": 4 * 86_400, "day": math.inf}  # seconds that a unit is chosen for
DEFAULT_DAYS = 7.0
MOST_DAYS = 3660.0
MOST_BUCKETS = 800
MOST_VERSIONS = 6  # with lines of their own: the latest
NANOSECONDS = 10**9
LONGEST = 100  # characters of a value in an address
LONGEST_VERSION = 40  # characters in a legend


@dataclass(frozen=True, slots=True)
class QualityQuery:
    """The query in an address or a command, as written; "" for a field that is not given."""

    days: str = ""
    bucket: str = ""  # minute | hour | day; "": by the span of the traces, `window_of`
    by: str = "version"  # version | all

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "QualityQuery":
        """Read the view from an address's parameters; unknown ones are ignored."""
        named = {field.name: values.get(field.name, "").strip()[:LONGEST] for field in fields(cls)}
        return cls(**{name: value for name, value in named.items() if value})

    def window(self, project: int, now: float | None = None) -> QualityWindow:
        """Return the window that ends with the present bucket. Raises: UsageError for a value that cannot be read."""
        try:
            days = float(self.days or DEFAULT_DAYS)
        except ValueError:
            days = math.nan
        if not 0 < days <= MOST_DAYS:
            raise UsageError(f"days is '{self.days:.40}'; expected a number above 0, at most {MOST_DAYS:.0f}")
        name = self.bucket or ("hour" if days <= 2 else "day")
        if name not in SECONDS:
            raise UsageError(f"bucket is '{self.bucket:.40}'; expected minute, hour or day")
        if self.by not in ("version", "all"):
            raise UsageError(f"by is '{self.by:.40}'; expected version or all")
        length = SECONDS[name] * NANOSECONDS
        n_buckets = math.ceil(days * 86_400 / SECONDS[name])
        if n_buckets > MOST_BUCKETS:
            raise UsageError(
                f"{days:g} days have {n_buckets:,} buckets of one {name}; expected at most {MOST_BUCKETS}: choose "
                "fewer days, or longer buckets"
            )
        until = (int((time.time() if now is None else now) * NANOSECONDS) // length + 1) * length
        return QualityWindow(project, until - n_buckets * length, until, length, self.by == "version")

    def address(self, suffix: str = "") -> str:
        """Return the address of the page."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values = {name: value for name, value in values.items() if value and (name, value) != ("by", "version")}
        return f"/traces/quality{suffix}" + (f"?{urlencode(values)}" if values else "")


@dataclass(frozen=True, slots=True)
class QualityPoint:
    """A value of one bucket. low, high: 95%; None where nothing can be said."""

    start: int  # of the bucket, nanoseconds since 1970
    value: float
    low: float | None
    high: float | None
    n: int
    n_failed: int  # scores that could not be computed
    n_sessions: int  # of the n; a trace without a session is one for itself
    n_unpriced: int = 0  # of a cost: calls of models without a price, so that it is a lower bound

    @classmethod
    def of(cls, start: int, estimate: IntervalEstimate, n_failed: int = 0, floor: float = -math.inf) -> "QualityPoint":
        """Return the point of an estimate; an interval does not reach below `floor`."""
        low = None if estimate.low is None else max(estimate.low, floor)
        n_sessions = estimate.n if estimate.n_clusters is None else estimate.n_clusters
        return cls(start, estimate.value, low, estimate.high, estimate.n, n_failed, n_sessions)


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A metric's points of one version, by time. version: None for traces that name none, or for all together."""

    version: str | None
    points: tuple[QualityPoint, ...]


@dataclass(frozen=True, slots=True)
class QualityMetric:
    """One metric over time. key: traces (how many), errors, latency, latency 95%, cost, tokens, or a score's name.

    source: of scores: event, rule, feedback or queue; "" for what is of all traces.
    """

    key: str
    title: str
    unit: Unit
    series: tuple[MetricSeries, ...]
    source: str = ""

    json_keys = "metric=key source? unit is_score series"

    @property
    def is_score(self) -> bool:
        """Whether its values are scores of traces."""
        return bool(self.source)

    def shown(self, value: float | None) -> str:
        """Return a value as people read it."""
        if value is None:
            return NOTHING
        if self.unit == "share":
            return f"{100 * value:.1f}%"
        if self.unit == "seconds":
            return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.2f} s"
        if self.unit == "cost":
            return f"${value:.4g}"
        return f"{value:,.0f}" if self.unit in {"tokens", "count"} else f"{value:.4g}"

    def shown_value(self, point: QualityPoint) -> str:
        """Return a point's value as people read it; at least so much where some calls have no price."""
        return f"≥ {self.shown(point.value)}" if point.n_unpriced else self.shown(point.value)

    def shown_interval(self, point: QualityPoint) -> str:
        """Return a point's interval as people read it; a dash where nothing can be said of either end."""
        if point.low is None and point.high is None:
            return NOTHING
        return f"{self.shown(point.low)} to {self.shown(point.high)}"

    def tick(self, value: float) -> str:
        """Return a value as short as an axis has room for."""
        before, after = {"share": ("", "%"), "seconds": ("", " s"), "cost": ("$", "")}.get(self.unit, ("", ""))
        return f"{before}{100 * value if self.unit == 'share' else value:,.4g}{after}"


@dataclass(frozen=True)
class Quality:
    """All metrics of a window."""

    window: QualityWindow
    versions: tuple[str | None, ...]  # that have lines, the latest last
    n_other_versions: int
    metrics: tuple[QualityMetric, ...]

    json_keys = (
        "since_ns=window.since until_ns=window.until bucket_seconds=window.bucket_seconds "
        "versions_left_out=n_other_versions metrics"
    )

    @property
    def bucket_name(self) -> str:
        """Return the unit of time of a point: minute, hour or day."""
        return next(name for name, seconds in SECONDS.items() if self.window.bucket_seconds == seconds)

    def list_address(self, start: int, version: str | None) -> str:
        """Return the address of the list of the traces of a point."""
        moment = datetime.fromtimestamp(start / NANOSECONDS, UTC)
        text = moment.strftime({"minute": "%Y-%m-%dT%H:%M", "hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}[self.bucket_name])
        return ListQuery(start=text, end=text, version=version or "").address()


def window_of(store: Store, project: int, query: QualityQuery, now: float | None = None) -> QualityWindow:
    """Return the window of a query; without a unit, that of the span of its traces and scores, which it then has.

    Raises: UsageError for a query that cannot be read.
    """
    window = query.window(project, now)
    reach = None if query.bucket else TraceQuality(store).reach(window)
    if reach is None:
        return window
    first, last = reach
    name = next(name for name, longest in LONGEST_SPAN.items() if last - first <= longest * NANOSECONDS)
    length = SECONDS[name] * NANOSECONDS
    return replace(window, since=first // length * length, until=(last // length + 1) * length, bucket=length)


def quality_of(store: Store, window: QualityWindow) -> Quality:
    """Return the metrics of a project's traces in a window."""
    with ThreadPoolExecutor(1) as beside:  # the database reads both at once
        reading_scores = beside.submit(TraceQuality(store).scores, window)
        cells = TraceQuality(store).traces(window)
        scores = reading_scores.result()
    latest: dict[str | None, int] = {}
    for cell in cells:
        latest[cell.version] = max(latest.get(cell.version, 0), cell.bucket)
    ordered = sorted(latest, key=lambda version: (latest[version], version or ""))
    versions = ordered[-MOST_VERSIONS:]
    points: dict[str, dict[str | None, list[QualityPoint]]] = {}

    def add(key: str, version: str | None, point: QualityPoint) -> None:
        if version in versions:
            points.setdefault(key, {}).setdefault(version, []).append(point)

    for cell in cells:
        if cell.version not in versions:
            continue
        n_traces, n_sessions = cell.errors.n, cell.errors.n_sessions
        add("traces", cell.version, QualityPoint(cell.bucket, n_traces, None, None, n_traces, 0, n_sessions))
        add("errors", cell.version, QualityPoint.of(cell.bucket, _mean(cell.errors, is_share=True)))
        seconds, sessions = _seconds(cell.durations)
        if len(seconds):
            for key, share in (("latency", 0.5), ("latency 95%", 0.95)):
                add(key, cell.version, QualityPoint.of(cell.bucket, estimate_quantile(seconds, share, sessions)))
        for key, sums, n_unpriced in (("cost", cell.cost, cell.n_unpriced), ("tokens", cell.tokens, 0)):
            if sums is not None:
                point = QualityPoint.of(cell.bucket, _mean(sums, is_share=False), floor=0.0)
                add(key, cell.version, replace(point, n_unpriced=n_unpriced))
    ends: dict[tuple[str, str], tuple[float, float]] = {}  # by name and source
    for score in scores:
        if score.sums is not None:
            low, high = ends.get(score[:2], (score.sums.low, score.sums.high))
            ends[score[:2]] = min(low, score.sums.low), max(high, score.sums.high)
    numbers = number_scores(store, window.project)
    is_share = {
        key: low >= 0 and high <= 1 and key not in numbers and not is_of_numbers(key[0])
        for key, (low, high) in ends.items()
    }
    of_scores: dict[tuple[str, str], dict[str | None, list[QualityPoint]]] = {}
    for score in scores:
        if score.sums is not None and (score.version in versions or not versions):
            point = QualityPoint.of(score.bucket, _mean(score.sums, is_share=is_share[score[:2]]), score.n_failed)
            of_scores.setdefault(score[:2], {}).setdefault(score.version, []).append(point)
    n_sources = Counter(name for name, _ in of_scores)
    of_traces = [
        QualityMetric(key, title, unit, _series(points[key], versions))
        for key, title, unit in _OF_TRACES
        if key in points
    ]
    metrics = of_traces[:1] + [
        QualityMetric(
            name,
            name if n_sources[name] == 1 else f"{name} ({source})",
            "share" if is_share[name, source] else "number",
            _series(of_scores[name, source], versions),
            source,
        )
        for name, source in sorted(of_scores)
    ]
    return Quality(window, tuple(versions), len(ordered) - len(versions), (*metrics, *of_traces[1:]))


def version_text(version: str | None) -> str:
    """Return a version as legends have it."""
    return "no version" if version is None else version[:LONGEST_VERSION]


_OF_TRACES: tuple[tuple[str, str, Unit], ...] = (
    ("traces", "Traces", "count"),
    ("errors", "Traces with a failed step", "share"),
    ("latency", "Latency, median", "seconds"),
    ("latency 95%", "Latency, 95th percentile", "seconds"),
    ("cost", "Cost of a trace, mean", "cost"),
    ("tokens", "Tokens of a trace, mean", "tokens"),
)


def _mean(sums: Sums, *, is_share: bool) -> IntervalEstimate:
    return estimate_from_sums(
        sums.n, sums.weights, sums.squared_weights, sums.values, sums.squared, sums.squares,
        extremes=(sums.low, sums.high), is_share=is_share, n_clusters=sums.n_sessions,
        has_equal_weights=sums.has_equal_weights,
    )  # fmt: skip


def _seconds(durations: Durations) -> tuple[Floats, NDArray[np.intp] | None]:
    """Return durations in seconds and the number of each one's session; None where no two are of one session."""
    sessions = durations.sessions.split(";") if durations.sessions else []
    text = ",".join([*([durations.alone] if durations.alone else []), *sessions])
    if not text:
        return np.empty(0), None
    seconds = np.fromstring(text, sep=",") / NANOSECONDS
    sizes = np.array([each.count(",") + 1 for each in sessions], dtype=np.intp)
    if not len(sizes) or sizes.max() == 1:
        return seconds, None
    n_alone = len(seconds) - int(sizes.sum())
    return seconds, np.concatenate([np.arange(n_alone), n_alone + np.repeat(np.arange(len(sizes)), sizes)])


def _series(
    by_version: Mapping[str | None, Sequence[QualityPoint]], versions: Sequence[str | None]
) -> tuple[MetricSeries, ...]:
    """Return the series in the order of the versions, so that a version has one colour in all charts."""
    order = list(versions) or list(by_version)
    return tuple(
        MetricSeries(version, tuple(sorted(by_version.get(version, ()), key=lambda point: point.start)))
        for version in order
    )
