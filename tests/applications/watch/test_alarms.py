"""Alarms over stored traces: each value counts once, whatever is killed, repeated or done twice at once."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, select

from assaymark.applications.traces.tables import trace_scores
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.alarm_log import AlarmLog
from assaymark.applications.watch.alarm_rows import AlarmEvent
from assaymark.applications.watch.alarms import event_text, guarantee, new_alarm, reset, state_text, watch_once
from assaymark.applications.watch.board import alarm_board
from assaymark.applications.watch.tables import trace_alarm_values
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.statistics.change_of_mean import MeanChangeDetector
from assaymark.statistics.e_detector import Detector, baseline_of, quantile_baseline
from assaymark.store import Store
from tests.applications.traces.sending import Receiver
from tests.applications.watch.filling import MadeTrace, fill, score_row, trace_id

BEGAN = 1_790_000_000.0
RATE = "0.05 in 1000"  # a threshold of 20,000
N_BASELINE = 200


def helpful(values: Sequence[float], first: int = 0) -> list[MadeTrace]:
    """Return a trace every second for scores."""
    return [
        MadeTrace(BEGAN + first + at, version="1" if value > 0.5 else "2", scores=(("helpful", float(value)),))
        for at, value in enumerate(values)
    ]


def drop(generator: np.random.Generator, n_before: int = 500, n_after: int = 200) -> list[float]:
    """Return zeros and ones whose mean falls from .95 to .6."""
    values = np.concatenate([generator.random(n_before) < 0.95, generator.random(n_after) < 0.6])
    return [float(value) for value in values]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with the project `bot`."""
    opened = Store.open(str(tmp_path / "s.sqlite"))
    TraceLog(opened).add_project("bot")
    return opened


def add(store: Store, *metrics: str, name: str = "quality", **options: Any) -> None:
    """Make an alarm."""
    AlarmLog(store).add(1, new_alarm(name, metrics, RATE, **{"n_baseline": N_BASELINE, **options}))


def made_number(trace: bytes) -> int:
    """Return the number that a trace's id was made of."""
    return next(number for number in range(10_000) if trace_id(number) == trace)


def raised(store: Store) -> list[AlarmEvent]:
    """Return what was raised, the earliest first."""
    return AlarmLog(store).events([stream.id for stream in AlarmLog(store).streams()])[::-1]


def essence(events: Sequence[AlarmEvent]) -> list[AlarmEvent]:
    """Return events without what differs between two stores."""
    return [replace(event, id="", raised=0.0) for event in events]


def counted(store: Store) -> list[tuple[int, bytes]]:
    """Return positions and traces of all counted values."""
    columns = trace_alarm_values.c
    with store._database.reading() as connection:
        rows = connection.execute(select(columns.position, columns.trace_id).order_by(columns.alarm, columns.position))
        return [(row[0], bytes(row[1])) for row in rows]


def test_a_drop_raises_one_alarm_where_the_detector_does(store: Store) -> None:
    """The alarm is that of a detector over the same values, raised once, with when and how much it changed."""
    values = drop(np.random.default_rng(1))
    add(store, "helpful")
    fill(store, 1, helpful(values))
    (result,) = watch_once(store, BEGAN + 10_000)
    change = Detector(baseline_of(values[:N_BASELINE]), 20_000).add(values[N_BASELINE:])
    assert change is not None
    event = result.event
    assert event.trace_id == trace_id(N_BASELINE + change.position)
    assert event.evidence == pytest.approx(change.evidence)
    assert event.threshold == 20_000
    assert event.mean_after == pytest.approx(change.mean)
    assert event.mean_before == pytest.approx(np.mean(values[: N_BASELINE + change.since]))
    assert event.since == int((BEGAN + N_BASELINE + change.since) * 1e9)
    assert abs(N_BASELINE + change.since - 500) < 20
    assert "the mean of helpful fell from 9" in event_text(result.stream, event)
    assert watch_once(store, BEGAN + 10_001) == []
    fill(store, 1, helpful([0.0] * 50, 700), 700)
    assert watch_once(store, BEGAN + 10_002) == []
    assert len(raised(store)) == 1


def test_rounds_of_any_size_are_one_round(tmp_path: Path, store: Store) -> None:
    """Looked at after each few traces, in rounds of one at once or of five, the result is the same."""
    made = helpful(drop(np.random.default_rng(2)))
    add(store, "helpful", "errors")
    fill(store, 1, made)
    watch_once(store, BEGAN + 10_000)
    other = Store.open(str(tmp_path / "other.sqlite"))
    TraceLog(other).add_project("bot")
    add(other, "helpful", "errors")
    at = 0
    generator = random.Random(3)
    while at < len(made):
        size = generator.randint(1, 60)
        fill(other, 1, made[at : at + size], at)
        at += size
        watch_once(other, BEGAN + at + 40)
        watch_once(other, BEGAN + at + 40)
    watch_once(other, BEGAN + 10_000)
    assert essence(raised(store)) == essence(raised(other))
    assert counted(store) == counted(other)


def test_several_metrics_share_their_false_alarms(store: Store) -> None:
    """Two metrics have twice the threshold each, and the promise says so."""
    add(store, "helpful", "errors")
    board = alarm_board(store, 1)
    assert [each.metric for each in board.alarms] == ["helpful", "errors"]
    assert all("of its 2 metrics together within 1,000 values" in each.guarantee for each in board.alarms)
    fill(store, 1, helpful(drop(np.random.default_rng(1))))
    (result,) = watch_once(store, BEGAN + 10_000)
    assert result.event.threshold == 40_000


def test_without_a_baseline(tmp_path: Path, store: Store) -> None:
    """An improvement raises nothing, and later values are compared with it; a drop raises, in rounds of any size."""
    generator = np.random.default_rng(21)
    values = [float(value) for mean, n in ((0.5, 900), (0.9, 900), (0.6, 300)) for value in generator.random(n) < mean]
    made = helpful(values)
    add(store, "helpful", n_baseline=0)
    (stream,) = AlarmLog(store).streams(1)
    assert "whatever their mean" in guarantee(stream)
    assert "baseline" not in guarantee(stream)
    fill(store, 1, made)
    (result,) = watch_once(store, BEGAN + 10_000)
    assert result.event.is_drop
    assert 1790 <= made_number(result.event.trace_id) - result.event.n_since + 1 <= 1815
    detector = MeanChangeDetector(20_000)
    rise = detector.add(values)
    assert rise is not None
    detector.restart()
    drop_at = detector.add(values[rise + 1 :])
    assert drop_at is not None
    assert result.event.trace_id == trace_id(rise + 1 + drop_at)
    assert result.event.n_watched == drop_at + 1
    assert result.event.evidence == pytest.approx(detector.evidence)
    assert re.search(r"the mean of helpful fell from 8\d\.\d% to [56]\d\.\d%", event_text(stream, result.event))
    other = Store.open(str(tmp_path / "other.sqlite"))
    TraceLog(other).add_project("bot")
    add(other, "helpful", n_baseline=0)
    at = 0
    while at < len(made):
        size = int(generator.integers(1, 90))
        fill(other, 1, made[at : at + size], at)
        at += size
        watch_once(other, BEGAN + at + 40)
    watch_once(other, BEGAN + 10_000)
    (again,) = essence(raised(other))  # the evidence is the same but for the order of sums
    assert again.evidence == pytest.approx(result.event.evidence)
    assert [replace(again, evidence=0.0)] == [replace(each, evidence=0.0) for each in essence(raised(store))]
    reset(store, 1, "quality")
    (stream,) = AlarmLog(store).streams(1)
    assert state_text(stream, AlarmLog(store).epoch(stream.id), is_raised=False).startswith("watches, evidence 0.0 of")
    two_sided = Store.open(str(tmp_path / "both.sqlite"))
    TraceLog(two_sided).add_project("bot")
    add(two_sided, "helpful", n_baseline=0, two_sided=True)
    fill(two_sided, 1, made)
    (both,) = watch_once(two_sided, BEGAN + 10_000)
    assert not both.event.is_drop
    assert both.event.trace_id == trace_id(rise)


def test_an_alarm_without_a_baseline_begins_with_the_latest_values(store: Store) -> None:
    """Made later, it compares with the latest 300 values that are there, and counts no others."""
    fill(store, 1, helpful([0.0] * 500 + [1.0] * 300))
    add(store, "helpful", n_baseline=0)
    watch_once(store, BEGAN + 10_000)
    assert len(counted(store)) == 300
    fill(store, 1, helpful([0.0] * 60, 10_000), 5000)
    (result,) = watch_once(store, BEGAN + 20_000)
    assert result.event.n_since == made_number(result.event.trace_id) - 5000 + 1


@pytest.mark.slow
def test_a_killed_watcher_has_counted_what_it_stored(tmp_path: Path, store: Store) -> None:
    """Killed at any time (kill -9) and started again, the values, their order and the alarm are as if it was not."""
    made = helpful(drop(np.random.default_rng(4), 3000, 400))
    add(store, "helpful", n_baseline=3000)
    fill(store, 1, made)
    other = Store.open(str(tmp_path / "other.sqlite"))
    TraceLog(other).add_project("bot")
    add(other, "helpful", n_baseline=3000)
    fill(other, 1, made)
    watch_once(other, BEGAN + 10_000)
    program = (
        "import sys, assaymark.applications.watch.alarm_log as log\nfrom assaymark.store import Store\n"
        "from assaymark.applications.watch import alarms\nlog.AT_ONCE = alarms.AT_ONCE = 50\n"
        "pending = log.WatchedStream.pending\n"
        "log.WatchedStream.pending = lambda self, now: pending(self, now, 50)\n"
        "print('looks', flush=True)\n"
        f"alarms.watch_once(Store.open(sys.argv[1]), {BEGAN + 10_000})\nprint('done', flush=True)\n"
    )
    generator, n_killed = random.Random(5), 0
    for _ in range(40):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "s.sqlite")], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "looks\n"
        time.sleep(0.1 + generator.random() * 0.3)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        is_done = "done" in child.stdout.read()
        child.stdout.close()
        if is_done:
            break
        n_killed += 1
    assert n_killed > 0
    watch_once(store, BEGAN + 10_000)
    assert counted(store) == counted(other)
    assert len(raised(store)) == 1
    assert essence(raised(store)) == essence(raised(other))


def test_two_watchers_at_once(store: Store) -> None:
    """Several watchers count each value once and raise one alarm."""
    add(store, "helpful")
    fill(store, 1, helpful(drop(np.random.default_rng(1))))
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(len(watch_once(store, BEGAN + 10_000)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 0, 0, 1]
    assert [position for position, _ in counted(store)] == list(range(700))


@pytest.mark.slow
def test_watchers_on_postgresql(postgres_url: str, store: Store) -> None:
    """On PostgreSQL several watchers at once raise the alarm that one raises on SQLite."""
    made = helpful(drop(np.random.default_rng(1)))
    server = Store.open(postgres_url)
    TraceLog(server).add_project("bot")
    for each in (store, server):
        add(each, "helpful", "latency", "cost")
        fill(each, 1, made)
    threads = [threading.Thread(target=lambda: watch_once(server, BEGAN + 10_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    watch_once(store, BEGAN + 10_000)
    assert essence(raised(server)) == essence(raised(store))
    assert counted(server) == counted(store)
    TraceLog(server).remove_project("bot")
    assert counted(server) == []


def test_only_complete_traces_count_in_the_order_in_which_they_came(store: Store) -> None:
    """A trace whose last span came just now, or that has not ended, waits; the order is that of the last spans."""
    add(store, "errors")
    now = BEGAN + 1000
    fill(store, 1, [
        MadeTrace(BEGAN, received=now - 40), MadeTrace(BEGAN + 1, received=now - 50),
        MadeTrace(BEGAN + 2, received=now - 10), MadeTrace(BEGAN + 3, seconds=None, received=now - 60),
    ])  # fmt: skip
    watch_once(store, now)
    assert [trace for _, trace in counted(store)] == [trace_id(1), trace_id(0)]
    watch_once(store, now + 250)
    assert [trace for _, trace in counted(store)] == [trace_id(at) for at in (1, 0, 3, 2)]


def test_a_reset_alarm_watches_again(store: Store) -> None:
    """After a reset the next drop raises again, against the same baseline or a new one, and nothing counts twice."""
    add(store, "helpful")
    fill(store, 1, helpful(drop(np.random.default_rng(1))))
    assert len(watch_once(store, BEGAN + 10_000)) == 1
    reset(store, 1, "quality")
    assert watch_once(store, BEGAN + 10_000) == []
    fill(store, 1, helpful([0.0, 1.0] * 100, 10_000), 700)
    (again,) = watch_once(store, BEGAN + 20_000)
    assert again.event.n_watched < 200
    reset(store, 1, "quality", new_baseline=True)
    (stream,) = AlarmLog(store).streams(1)
    assert "gathers its baseline, 0 of 200" in state_text(stream, AlarmLog(store).epoch(stream.id), is_raised=False)
    fill(store, 1, helpful([0.0, 1.0] * 200, 20_000), 900)
    assert watch_once(store, BEGAN + 30_000) == []  # half of them is usual now
    assert len(raised(store)) == 2
    assert len(counted(store)) == 1300
    with pytest.raises(UnknownName, match="quality"):
        reset(store, 1, "qualit")


def test_latency_and_errors(store: Store) -> None:
    """Latency is watched as the share above a frozen quantile, errors as a share; an alarm says what rose."""
    generator = np.random.default_rng(6)
    durations = np.concatenate([generator.lognormal(0, 0.5, 600), generator.lognormal(0.7, 0.5, 300)])
    made = [MadeTrace(BEGAN + at, seconds=round(float(each), 6), failed=at % 30 == 0 or (at > 700 and at % 3 == 0))
            for at, each in enumerate(durations)]  # fmt: skip
    add(store, "latency", name="slow")
    add(store, "errors", name="broken")
    fill(store, 1, made)
    results = {each.stream.name: each for each in watch_once(store, BEGAN + 10_000)}
    seconds = [each.seconds for each in made if each.seconds is not None]
    quantile, bounds = quantile_baseline(seconds[:N_BASELINE])
    change = Detector(bounds, 20_000).add([float(each <= quantile) for each in seconds[N_BASELINE:]])
    assert change is not None
    assert results["slow"].event.trace_id == trace_id(N_BASELINE + change.position)
    text = event_text(results["slow"].stream, results["slow"].event)
    assert text.startswith("the share of traces whose latency is above the baseline's 90% quantile rose from")
    assert "the share of traces with a failed step rose from 3" in event_text(
        results["broken"].stream, results["broken"].event
    )


def test_a_stated_bound(store: Store) -> None:
    """Scores are divided by a stated bound; what is beyond counts as at it; a lower score may be the better."""
    values = [1.0] * 300 + [4.5] * 100 + [90.0]
    add(store, "toxicity", bound=5.0, lower_is_better=True)
    fill(store, 1, [MadeTrace(BEGAN + at, scores=(("toxicity", each),)) for at, each in enumerate(values)])
    (result,) = watch_once(store, BEGAN + 10_000)
    assert "the mean of toxicity rose from 1 to 4.5" in event_text(result.stream, result.event)


def test_scores_beyond_an_unstated_bound_are_said(store: Store) -> None:
    """An alarm on stars from 1 to 5 without a bound can never be raised, and says so where it is listed."""
    add(store, "stars")
    fill(store, 1, [MadeTrace(BEGAN + at, scores=(("stars", float(1 + at % 5)),)) for at in range(100)])
    watch_once(store, BEGAN + 10_000)
    (listed,) = alarm_board(store, 1).alarms
    assert listed.state.endswith("; 80 values are beyond [0, 1] and count as 0 or 1: make it again with --bound")


def test_failed_scores_do_not_count(store: Store) -> None:
    """A score that could not be computed is neither 0 nor a value."""
    add(store, "helpful")
    fill(store, 1, [MadeTrace(BEGAN + at, scores=(("helpful", None if at % 2 else 1.0),)) for at in range(100)])
    watch_once(store, BEGAN + 10_000)
    assert len(counted(store)) == 50


def test_another_judge_begins_anew(store: Store) -> None:
    """Scores of a later rule restart the alarm with another baseline; those of the earlier one count no more."""
    add(store, "helpful")
    fill(store, 1, [MadeTrace(BEGAN + at) for at in range(900)])
    rows = [
        score_row(1, at, "helpful", (1.0, 0.5)[at >= 400], BEGAN + at, rule=1 + (at >= 400), rule_version=b"%016d" % at)
        for at in range(900)
    ]
    for row in rows:
        row["rule_version"] = b"%016d" % row["rule"]
    rows += [score_row(1, at, "helpful", 0.0, BEGAN + at + 0.5, source="feedback") for at in range(400, 900, 3)]
    with store._database.writing() as connection:
        for row in rows:
            connection.execute(insert(trace_scores), row)
    assert watch_once(store, BEGAN + 10_000) == []
    (stream,) = AlarmLog(store).streams(1)
    epoch = AlarmLog(store).epoch(stream.id)
    assert (epoch.reason, epoch.rule, epoch.first) == ("judge", 2, 400)
    assert epoch.low is not None
    assert epoch.low < 0.5 < (epoch.high or 0)
    assert len(counted(store)) == 900


def test_the_baseline_begins_with_what_is_there(store: Store) -> None:
    """An alarm made later has the latest values as its baseline, not the first ones."""
    fill(store, 1, helpful([0.0] * 300 + [1.0] * N_BASELINE))
    add(store, "helpful")
    watch_once(store, BEGAN + 10_000)
    (stream,) = AlarmLog(store).streams(1)
    epoch = AlarmLog(store).epoch(stream.id)
    assert epoch.low is not None
    assert epoch.low > 0.9
    assert len(counted(store)) == N_BASELINE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"false_alarms": "5 in 100"}, "as '0.05 in 10000'"),
        ({"false_alarms": "never"}, "as '0.05 in 10000'"),
        ({"false_alarms": "1.2.3 in 100"}, "as '0.05 in 10000'"),
        ({"name": " "}, "expected 1 to 128"),
        ({"metrics": [""]}, "expected errors, latency, cost or the name of a scorer"),
        ({"bound": -1.0}, "above 0"),
        ({"bound": float("nan")}, "above 0"),
        ({"n_baseline": 3}, "expected 30 to 100,000"),
        ({"n_baseline": 0, "metrics": ["errors", "latency"]}, "state with --bound"),
        ({"metrics": ["errors"], "bound": 2.0}, "errors are counted"),
        ({"metrics": ["latency"], "lower_is_better": True}, "is for scorers"),
    ],
)
def test_bad_alarms(options: dict[str, Any], message: str) -> None:
    """What cannot be watched is refused with what was expected."""
    arguments = {"name": "a", "metrics": ["helpful"], "false_alarms": RATE, **options}
    with pytest.raises(UsageError, match=message):
        new_alarm(arguments.pop("name"), arguments.pop("metrics"), arguments.pop("false_alarms"), **arguments)


def test_percentages_and_separators() -> None:
    """A probability may be in per cent, and the number of values may have separators."""
    alarm = new_alarm("a", ["errors"], " 1% in 100,000 ")
    assert (alarm.alpha, alarm.horizon) == (0.01, 100_000)


def test_the_commands(tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Add, watch, list, reset and remove, with one line for what is wrong."""
    location = ["--store", str(tmp_path / "s.sqlite")]
    made = [replace(each, at=each.at - BEGAN + time.time() - 2000) for each in helpful(drop(np.random.default_rng(1)))]
    fill(store, 1, made)
    words = ["traces", "alarm", "add", "quality", "--metric", "helpful", "--false_alarms", RATE, *location]
    assert main([*words, "--baseline", "700"]) == 0
    output = capsys.readouterr().out
    assert "within 1,000 values has a probability of at most 5%" in output
    assert main(words) == 2
    assert "there is an alarm 'quality' already" in capsys.readouterr().err
    assert main(["traces", "watch", "--once", *location]) == 0
    capsys.readouterr()
    fill(store, 1, [MadeTrace(time.time() - 100 + at / 10, scores=(("helpful", 0.0),)) for at in range(300)], 5000)
    assert main(["traces", "watch", "--once", *location]) == 0
    output = capsys.readouterr().out
    assert "ALARM 'quality': the mean of helpful fell from 8" in output
    assert main(["traces", "watch", "--once", *location]) == 0
    assert "ALARM" not in capsys.readouterr().out
    assert main(["traces", "alarm", "list", "--json", *location]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in content["alarms"]] == ["raised"]
    assert main(["traces", "alarm", "list", *location]) == 0
    assert "of 20,000" in capsys.readouterr().out
    assert main(["traces", "alarm", "reset", "quality", *location]) == 0
    assert main(["traces", "alarm", "reset", "nothing", *location]) == 2
    assert main(["traces", "alarm", "remove", "quality", *location]) == 0
    assert main(["traces", "alarm", "remove", "quality", *location]) == 2
    capsys.readouterr()
    assert main(["traces", "alarm", "list", *location]) == 0
    assert "there is no alarm" in capsys.readouterr().out
    assert counted(store) == []


def test_the_page_shows_alarms(receiver: Receiver) -> None:
    """The page has the promise, the raised alarm and a line on its chart; another project sees neither."""
    now = time.time()
    made = [replace(each, at=each.at - BEGAN + now - 2000) for each in helpful(drop(np.random.default_rng(1)))]
    name = "<b>quality</b>"
    alarm = new_alarm(name, ["helpful"], RATE, n_baseline=N_BASELINE)
    AlarmLog(receiver.store).add(receiver.project, alarm)
    fill(receiver.store, receiver.project, made)
    assert len(watch_once(receiver.store, now)) == 1
    rating = score_row(receiver.project, 0, "helpful", 1.0, now - 60, source="queue", rater="ada")
    with receiver.store._database.writing() as connection:
        connection.execute(insert(trace_scores), rating)  # a chart of its own, on which the rule's alarm is not
    with receiver.client as client:
        text = client.get("/traces/quality?days=1").text
        assert "helpful (queue) over time" in text
        twin = client.get("/traces/quality.json?days=1").json()
    assert text.count('<path class="alarm"') == 2  # the chart is drawn for wide and for narrow windows
    assert "<b>quality" not in text
    assert "has a probability of at most 5%" in text
    assert [each["name"] for each in twin["raised"]] == [name]
    other = TraceLog(receiver.store).add_project("other")
    import httpx

    headers = {"authorization": f"Bearer {other}"}
    assert httpx.get(f"{receiver.url}/traces/quality.json", headers=headers).json()["raised"] == []
