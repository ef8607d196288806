"""Quality over time beside numpy and scipy, its page, its command and its bounds."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from scipy import stats
from sqlalchemy import insert

from assaymark.applications.live.annotation import number_scores
from assaymark.applications.live.annotation_log import AnnotationLog
from assaymark.applications.live.estimates import estimates_of
from assaymark.applications.live.rule_log import RuleLog
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.tables import trace_scores
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.quality import (
    SECONDS,
    QualityMetric,
    QualityPoint,
    QualityQuery,
    quality_of,
    window_of,
)
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.records.json_values import json_fields
from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.summed import estimate_quantile, estimate_sampled_mean
from assaymark.store import Store
from tests.applications.traces.sending import TRACE, Receiver, span
from tests.applications.watch.filling import MadeTrace, fill, score_row, trace_id

DAY = 86_400
NOW = 1_790_000_000 // DAY * DAY + 1000.0  # early in a day, UTC


def some_traces(generator: np.random.Generator, n: int = 240) -> list[MadeTrace]:
    """Return traces of three days and two versions, a half of them scored."""
    return [
        MadeTrace(
            at=NOW - 2 * DAY + at * (2 * DAY / n),
            seconds=float(generator.lognormal()),
            version=("1.0", "1.1")[at >= n // 3],
            failed=bool(generator.random() < 0.2),
            cost=float(generator.random()),
            tokens=int(generator.integers(10, 1000)),
            scores=(("helpful", float(generator.random() < 0.8)), ("length", float(generator.normal(50, 9))))
            if at % 2
            else (),
        )
        for at in range(n)
    ]


def made_store(folder: Path, made: list[MadeTrace]) -> Store:
    """Return a store with a project of traces."""
    store = Store.open(str(folder / "s.sqlite"))
    TraceLog(store).add_project("bot")
    fill(store, TraceLog(store).project_id("bot"), made)
    return store


def test_a_mean_cost_with_calls_without_a_price_is_a_lower_bound(tmp_path: Path) -> None:
    """The calls are counted, but those of traces without any cost, which have no value."""
    made = [
        MadeTrace(NOW - 10, cost=0.5, n_unpriced=2),
        MadeTrace(NOW - 20, cost=0.25),
        MadeTrace(NOW - 30, n_unpriced=3),
    ]
    metrics = quality_of(made_store(tmp_path, made), QualityQuery("1", by="all").window(1, NOW)).metrics
    (metric,) = (each for each in metrics if each.key == "cost")
    ((point,),) = (each.points for each in metric.series)
    assert (point.value, point.n, point.n_unpriced) == (0.375, 2, 2)
    assert (metric.shown_value(point), metric.shown_interval(point)[:4]) == ("≥ $0.375", "$0 t")


def points_of(metrics: tuple[QualityMetric, ...], key: str) -> dict[tuple[str | None, int], QualityPoint]:
    """Return a metric's points by version and start."""
    (metric,) = [each for each in metrics if each.key == key]
    return {(each.version, point.start // 10**9): point for each in metric.series for point in each.points}


def test_every_point_is_what_numpy_computes(tmp_path: Path) -> None:
    """Shares, quantiles and means of each bucket and version, with intervals of scipy."""
    made = some_traces(np.random.default_rng(1))
    store = made_store(tmp_path, made)
    results = quality_of(store, QualityQuery("4").window(1, NOW))
    cells: dict[tuple[str | None, int], list[MadeTrace]] = {}
    for trace in made:
        cells.setdefault((trace.version, int(trace.at) // DAY * DAY), []).append(trace)
    assert {metric.key for metric in results.metrics} == {
        "traces", "helpful", "length", "errors", "latency", "latency 95%", "cost", "tokens",
    }  # fmt: skip
    for cell, own in cells.items():
        errors = points_of(results.metrics, "errors")[cell]
        n_failed = sum(trace.failed for trace in own)
        interval = stats.binomtest(n_failed, len(own)).proportion_ci(0.95, "wilson")
        assert [errors.value, errors.n] == pytest.approx([n_failed / len(own), len(own)])
        assert [errors.low, errors.high] == pytest.approx([interval.low, interval.high], abs=1e-9)
        assert points_of(results.metrics, "traces")[cell].value == len(own)
        durations = sorted(trace.seconds or 0 for trace in own)
        for key, share in (("latency", 0.5), ("latency 95%", 0.95)):
            rank = int(np.ceil(share * len(durations)))
            assert points_of(results.metrics, key)[cell].value == pytest.approx(durations[rank - 1], abs=1e-8)
        costs = [trace.cost or 0 for trace in own]
        cost = points_of(results.metrics, "cost")[cell]
        assert cost.value == pytest.approx(np.mean(costs))
        if len(costs) > 1:
            low, high = stats.t.interval(0.95, len(costs) - 1, np.mean(costs), stats.sem(costs))
            assert (cost.low, cost.high) == pytest.approx((max(low, 0), high))
        tokens = [trace.tokens or 0 for trace in own]
        assert points_of(results.metrics, "tokens")[cell].value == pytest.approx(np.mean(tokens))
        helpful = [dict(trace.scores)["helpful"] or 0.0 for trace in own if trace.scores]
        if not helpful:
            continue
        point = points_of(results.metrics, "helpful")[cell]
        interval = stats.binomtest(int(sum(helpful)), len(helpful)).proportion_ci(0.95, "wilson")
        assert [point.value, point.n] == pytest.approx([float(np.mean(helpful)), len(helpful)])
        assert point.low == pytest.approx(interval.low)
    together = quality_of(store, QualityQuery("4", by="all").window(1, NOW))
    for (_, start), point in points_of(together.metrics, "errors").items():
        own = [trace for trace in made if int(trace.at) // DAY * DAY == start]
        assert point.value == pytest.approx(np.mean([trace.failed for trace in own]))


def width(low: float | None, high: float | None) -> float:
    """Return the width of an interval that there is."""
    assert low is not None
    assert high is not None
    return high - low


def in_sessions(made: list[MadeTrace]) -> list[MadeTrace]:
    """Return traces of which five in a row share a session, and have failures and costs in common."""
    generator = np.random.default_rng(8)
    levels = generator.random(len(made))
    return [
        replace(
            each,
            session=None if at % 11 == 0 else ("" if at % 11 == 1 else f"s{at // 5}"),
            failed=bool(levels[at // 5] < 0.3),
            cost=float(levels[at // 5] + generator.random() / 10),
            scores=(*each.scores, ("fair", float(levels[at // 5]))),
        )
        for at, each in enumerate(made)
    ]


def test_traces_of_a_session_are_clustered(tmp_path: Path) -> None:
    """Intervals are those of `estimate_mean` with the sessions as clusters; a trace without one is one for itself."""
    made = in_sessions(some_traces(np.random.default_rng(9)))
    store = made_store(tmp_path, made)
    window = QualityQuery("4").window(1, NOW)
    rows = [score_row(1, at, "helpful", float(at % 3 > 0), NOW - 60, rate=(1.0, 0.1)[at % 2], source="feedback")
            for at in (5, 6, 7, 60, 61, 61, 99, 100)]  # fmt: skip
    for position, row in enumerate(rows):
        row |= {"name": "drawn", "digest": b"%016d" % position}
    with store._database.writing() as connection:
        connection.execute(insert(trace_scores), rows)
    results = quality_of(store, window)
    cells: dict[tuple[str | None, int], list[int]] = {}
    for at, trace in enumerate(made):
        cells.setdefault((trace.version, int(trace.at) // DAY * DAY), []).append(at)
    is_wider = []
    for cell, positions in cells.items():
        own = [made[at] for at in positions]
        sessions = [trace.session or f"alone {at}" for at, trace in zip(positions, own, strict=True)]
        if len(set(sessions)) < 2:
            continue
        by_metric: dict[str, list[float]] = {
            "errors": [float(trace.failed) for trace in own],
            "cost": [trace.cost or 0.0 for trace in own],
            "fair": [dict(trace.scores)["fair"] or 0.0 for trace in own],
        }
        for key, values in by_metric.items():
            point = points_of(results.metrics, key)[cell]
            bounds = (-np.inf, np.inf) if key == "cost" else (0.0, 1.0)
            whole = estimate_mean(values, clusters=sessions, bounds=bounds)
            assert whole.low is not None
            assert (point.value, point.low, point.high) == pytest.approx(
                (whole.value, max(whole.low, 0.0) if key == "cost" else whole.low, whole.high)
            )
            assert (point.n, point.n_sessions) == (len(values), len(set(sessions)))
            alone = estimate_mean(values, bounds=bounds)
            is_wider.append(width(point.low, point.high) > width(alone.low, alone.high))
        seconds = np.array([trace.seconds or 0.0 for trace in own])
        numbers = np.unique(sessions, return_inverse=True)[1]
        latency, quantile = points_of(results.metrics, "latency")[cell], estimate_quantile(seconds, 0.5, numbers)
        assert (latency.value, latency.low, latency.high) == pytest.approx(
            (quantile.value, quantile.low, quantile.high), abs=1e-8
        )
    assert sum(is_wider) > 0.8 * len(is_wider)
    together = quality_of(store, QualityQuery("4", by="all").window(1, NOW))
    ((_, drawn),) = points_of(together.metrics, "drawn").items()
    numbers_of = {trace_id(at): at for at in range(len(made))}
    scored = [numbers_of[row["trace_id"]] for row in rows]
    estimate = estimate_sampled_mean(
        [row["value"] for row in rows], [row["rate"] for row in rows],
        [made[at].session or f"alone {at}" for at in scored],
    )  # fmt: skip
    assert (drawn.value, drawn.low, drawn.high) == pytest.approx((estimate.value, estimate.low, estimate.high))
    assert drawn.n_sessions == estimate.n_clusters


@pytest.mark.parametrize(("name", "unit"), [("cost", "number"), ("polite", "share")])
def test_a_declared_number_is_no_share_where_all_are_below_1(tmp_path: Path, name: str, unit: str) -> None:
    """A rule's cost of 0.002 is neither 0.2% nor bounded by 1; of a name that no scorer has, the values say it."""
    values = [0.001, 0.001, 0.001, 0.001, 0.02]
    store = made_store(tmp_path, [MadeTrace(NOW - 60 + at, scores=((name, v),)) for at, v in enumerate(values)])
    results = quality_of(store, QualityQuery("1", "day").window(1, NOW))
    (metric,) = (each for each in results.metrics if each.is_score)
    assert (metric.key, metric.unit) == (name, unit)
    (point,) = points_of(results.metrics, name).values()
    (live,) = estimates_of(RuleLog(store).weighted_scores(1))
    assert live.estimate is not None
    student = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    for ends in ((point.low, point.high), (live.estimate.low, live.estimate.high)):
        assert (ends == pytest.approx(student)) is (unit == "number")


def test_a_rules_scores_and_ratings_of_one_name_are_two_series(tmp_path: Path) -> None:
    """Two measures are not averaged: each has its own mean and unit, and says its source."""
    store = made_store(tmp_path, [MadeTrace(NOW - 60 + at, scores=(("polite", 1.0),)) for at in range(4)])
    AnnotationLog(store).add_queue(1, "polite", "1-5", 1)
    ratings = [score_row(1, at, "polite", 5.0, NOW - 50 + at, source="queue", rater="ada") for at in range(2)]
    with store._database.writing() as connection:
        connection.execute(insert(trace_scores), ratings)
    results = quality_of(store, QualityQuery("1", "day").window(1, NOW))
    shown = [(each.key, each.source, each.title, each.unit) for each in results.metrics if each.is_score]
    assert shown == [
        ("polite", "queue", "polite (queue)", "number"),
        ("polite", "rule", "polite (rule)", "share"),
    ]
    means = [point.value for each in results.metrics if each.is_score for line in each.series for point in line.points]
    assert means == [5.0, 1.0]
    numbers = number_scores(store, 1)
    by_source = {each.source: each.estimate for each in estimates_of(RuleLog(store).weighted_scores(1), numbers)}
    assert by_source["rule"] is not None
    assert by_source["rule"].high == 1.0  # the queue's scale is not the rule's


def test_a_session_alone_has_no_interval(tmp_path: Path) -> None:
    """Where all traces of a bucket are of one session, nothing is said of others."""
    made = [MadeTrace(NOW - 60 + at, session="s", failed=at < 3, cost=float(at)) for at in range(20)]
    results = quality_of(made_store(tmp_path, made), QualityQuery("1", "day").window(1, NOW))
    for key in ("errors", "cost", "latency"):
        (point,) = points_of(results.metrics, key).values()
        assert (point.n, point.n_sessions, point.low, point.high) == (20, 1, None, None)


def test_what_is_unknown_is_not_zero(tmp_path: Path) -> None:
    """Unknown costs, running traces, backward clocks and failed scores are left out, the last ones counted."""
    made = [
        MadeTrace(NOW - 10, cost=2.0, tokens=None, scores=(("helpful", 1.0),)),
        MadeTrace(NOW - 9, seconds=None, scores=(("helpful", None),)),
        MadeTrace(NOW - 8, seconds=-5.0),
    ]
    results = quality_of(made_store(tmp_path, made), QualityQuery("1", "day").window(1, NOW))
    (cost,) = points_of(results.metrics, "cost").values()
    assert (cost.value, cost.n, cost.low) == (2.0, 1, None)
    (latency,) = points_of(results.metrics, "latency").values()
    assert (latency.value, latency.n) == (1.0, 1)
    (helpful,) = points_of(results.metrics, "helpful").values()
    assert (helpful.value, helpful.n, helpful.n_failed) == (1.0, 1, 1)
    assert "tokens" not in {metric.key for metric in results.metrics}


def test_the_latest_versions_have_lines(tmp_path: Path) -> None:
    """Of nine versions the latest six have lines, and three are said to be left out."""
    made = [MadeTrace(NOW - DAY * 0.9 * (9 - at) / 9, version=f"v{at}") for at in range(9)]
    results = quality_of(made_store(tmp_path, made), QualityQuery("1", "hour").window(1, NOW))
    assert results.versions == ("v3", "v4", "v5", "v6", "v7", "v8")
    assert results.n_other_versions == 3


def test_scores_are_weighted_by_their_rate(tmp_path: Path) -> None:
    """A score drawn at 10% counts ten times one drawn at 100%; stale scores do not count."""
    store = made_store(tmp_path, [MadeTrace(NOW - 60 + at) for at in range(20)])
    rows = [score_row(1, at, "helpful", float(at < 4), NOW - 60, rate=(1.0, 0.1)[at % 2]) for at in range(20)]
    rows[19]["stale"] = NOW
    with store._database.writing() as connection:
        for row in rows:
            connection.execute(insert(trace_scores), row)
    (point,) = points_of(quality_of(store, QualityQuery("1", "day").window(1, NOW)).metrics, "helpful").values()
    weights = [10 if at % 2 else 1 for at in range(19)]
    assert point.value == pytest.approx(np.average([at < 4 for at in range(19)], weights=weights))
    assert point.n == 19


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (QualityQuery("x"), "days is 'x'; expected a number above 0"),
        (QualityQuery("-1"), "expected a number above 0"),
        (QualityQuery("nan"), "expected a number above 0"),
        (QualityQuery("1", "week"), "expected minute, hour or day"),
        (QualityQuery("90", "hour"), "choose fewer days"),
        (QualityQuery("1", by="model"), "expected version or all"),
    ],
)
def test_bad_queries(query: QualityQuery, message: str) -> None:
    """What an address asks for wrongly is said in one line."""
    with pytest.raises(UsageError, match=message):
        query.window(1)


def test_the_page_and_its_twin(receiver: Receiver) -> None:
    """The page has a chart for each metric whose points lead to their traces; it needs a token of the project."""
    now = time.time()
    fill(receiver.store, receiver.project, [replace(each, at=each.at - NOW + now) for each in
                                            some_traces(np.random.default_rng(2))])  # fmt: skip
    assert receiver.send(span(1, trace=TRACE, name="<script>alert(1)</script>")).json() == {}
    with receiver.client as client:
        twin = client.get("/traces/quality.json?days=4").json()
        text = client.get("/traces/quality?days=4").text
        assert [metric["metric"] for metric in twin["metrics"]][:3] == ["traces", "helpful", "length"]
        assert text.count('<svg class="chart"') == len(twin["metrics"])
        series = twin["metrics"][0]["series"]
        assert [each["version"] for each in series] == ["1.0", "1.1", "1.2"]
        n_of_lists = 0
        links = set(re.findall(r'href="(/traces\?start=[^"]+)"', text))
        for link in links:
            listed = client.get(link.replace("&amp;", "&").replace("/traces?", "/traces.json?")).json()
            n_of_lists += len(listed["traces"])
        points = [point for each in series for point in each["points"]]
        assert len(links) == len(points)
        assert n_of_lists == sum(min(point["n"], 50) for point in points)  # a page of the list has 50
        assert "<script>alert" not in text
        hourly = client.get("/traces/quality?days=1&bucket=hour").text
        (link, *_) = re.findall(r'href="(/traces\?start=[^"]+)"', hourly)
        assert re.search(r"start=\d{4}-\d\d-\d\dT\d\d", link)
        assert client.get(link.replace("&amp;", "&").replace("/traces?", "/traces.json?")).json()["traces"]
        assert client.get("/traces/quality?days=x").status_code == 400
    other = TraceLog(receiver.store).add_project("other")
    import httpx

    for headers, expected in (({}, 401), ({"authorization": "Bearer asm_x"}, 401)):
        assert httpx.get(f"{receiver.url}/traces/quality.json", headers=headers).status_code == expected
    empty = httpx.get(f"{receiver.url}/traces/quality.json", headers={"authorization": f"Bearer {other}"}).json()
    assert empty["metrics"] == []


@pytest.mark.parametrize(
    ("hours", "name"), [(0, "minute"), (1.5, "minute"), (3, "hour"), (90, "hour"), (100, "day"), (140, "day")]
)
def test_the_unit_follows_the_span_of_the_traces(tmp_path: Path, hours: float, name: str) -> None:
    """A point is a minute, an hour or a day by how long the traces and scores lasted, not by the days asked for."""
    last = NOW - 600
    made = [MadeTrace(last - 3600 * hours), MadeTrace(last, scores=(("helpful", 1.0),)), MadeTrace(NOW - 9 * DAY)]
    store = made_store(tmp_path, made)
    window = window_of(store, 1, QualityQuery("7"), NOW)
    length = SECONDS[name] * 10**9
    assert window.bucket == length
    assert window.since <= (last - 3600 * hours) * 10**9 < window.since + length
    assert window.until - length <= last * 10**9 < window.until
    results = quality_of(store, window)
    assert sum(point.n for point in points_of(results.metrics, "traces").values()) == 2
    (point,) = points_of(results.metrics, "helpful").values()
    assert ListQuery.of(dict(parse_qsl(results.list_address(point.start, "1").partition("?")[2]))).start
    assert window_of(store, 1, QualityQuery("7", "day"), NOW) == QualityQuery("7", "day").window(1, NOW)


def test_hostile_names(receiver: Receiver) -> None:
    """Names of scorers and versions are shown as text."""
    now = time.time()
    name = '"><script>alert(1)</script>\x1b[31m'
    fill(receiver.store, receiver.project, [MadeTrace(now - 5, version=name, scores=((name, 0.5),))])
    with receiver.client as client:
        text = client.get("/traces/quality").text
    assert "<script>alert" not in text
    assert "\x1b" not in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command shows what the page shows, as a table and as JSON."""
    now = time.time()
    made = [replace(each, at=each.at - NOW + now) for each in some_traces(np.random.default_rng(3))]
    store = made_store(tmp_path, made)
    location = str(tmp_path / "s.sqlite")
    store.close()
    assert main(["traces", "quality", "--store", location, "--days", "4", "--by", "version", "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {each["version"] for each in content["metrics"][0]["series"]} == {"1.0", "1.1"}
    assert main(["traces", "quality", "--store", location, "--days", "4"]) == 0
    output = capsys.readouterr().out
    assert "Latency, median" in output
    assert "helpful" in output
    assert main(["traces", "quality", "--store", location, "--days", "0"]) == 2
    assert main(["traces", "quality", "--store", location, "--days", "90", "--bucket", "hour"]) == 2
    assert "choose fewer days" in capsys.readouterr().err


@pytest.mark.slow
def test_postgresql_adds_up_the_same(tmp_path: Path, postgres_url: str) -> None:
    """PostgreSQL and SQLite return the same points."""
    made = in_sessions(some_traces(np.random.default_rng(4)))
    on_server = Store.open(postgres_url)
    TraceLog(on_server).add_project("bot")
    fill(on_server, TraceLog(on_server).project_id("bot"), made)
    here = made_store(tmp_path, made)
    for query in (QualityQuery("4"), QualityQuery("2", "hour", "all")):
        both = [json_fields(quality_of(store, query.window(1, NOW)))["metrics"] for store in (here, on_server)]
        first, second = (json.loads(json.dumps(each), parse_float=lambda text: round(float(text), 9)) for each in both)
        assert first == second
