"""Rules: which traces they draw, when, what is stored, and what becomes of failures, late spans and killed workers."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from assaymark.applications.live import rule_log
from assaymark.applications.live.annotation import number_scores, rating_score
from assaymark.applications.live.annotation_log import AnnotationLog
from assaymark.applications.live.estimates import estimates_of
from assaymark.applications.live.rule_log import RuleLog
from assaymark.applications.live.rule_rows import Completeness, ScoringOutcome, WeightedScore, draw_of
from assaymark.applications.live.rules import new_rule
from assaymark.applications.live.worker import ScoringWorker
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.tables import trace_scores
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.quality import QualityQuery, quality_of
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.statistics.summed import estimate_sampled_mean
from assaymark.store import Store
from assaymark.store.liveness import Owner
from tests.applications.live.live_traces import LATER, Live, conversation, scorer_file, trace_id
from tests.applications.traces.sending import span
from tests.judges.judge_server import judging_server

POLITE = """
def polite(output):
    return "thank" in output

def polite_too(output):
    return "thank" in output
"""


def test_the_draw_is_the_stated_hash() -> None:
    """A trace's number is the beginning of sha256(trace id + scorer name), so a lower rate's traces are a subset."""
    rng = random.Random(1)
    ids = [rng.randbytes(16) for _ in range(2000)]
    for each in ids[:50]:
        digest = hashlib.sha256((each.hex() + "polite").encode()).hexdigest()
        assert draw_of(each, "polite") == pytest.approx(int(digest, 16) / 2**256, abs=1e-15)
    drawn = {rate: {each for each in ids if draw_of(each, "polite") < rate} for rate in (0.05, 0.2, 1.0)}
    assert drawn[0.05] < drawn[0.2] < drawn[1.0] == set(ids)
    assert abs(len(drawn[0.2]) / len(ids) - 0.2) < 0.05
    both = [each for each in drawn[0.2] if draw_of(each, "other") < 0.2]
    assert abs(len(both) / len(ids) - 0.04) < 0.02  # names draw independently


def test_a_rule_scores_what_its_filter_and_rate_say(live: Live, tmp_path: Path) -> None:
    """Complete traces with these facts that the rate draws are scored once, with the rate beside each score."""
    file = scorer_file(tmp_path, POLITE)
    rule = live.rule("polite", f"{file}:polite", filter="version=1.2 errors=no", rate=0.5)
    for number in range(1, 41):
        live.ask(number, answer="Rome, thank you." if number % 2 else "Rome.")
    live.ask(41, version="1.3")
    live.ask(42, answer=None, error="no page")
    drawn = {number for number in range(1, 41) if draw_of(bytes.fromhex(trace_id(number)), "polite") < 0.5}
    counts = live.score()
    assert (counts.n_drawn, counts.n_scored, counts.problems) == (len(drawn), len(drawn), [])
    for number in range(1, 43):
        result = live.scores(number)
        assert [(each.name, each.value, each.rate, each.source) for each in result] == (
            [("polite", float(number % 2), 0.5, "rule")] if number in drawn else []
        )
    assert live.score().n_drawn == 0
    assert RuleLog(live.store).counts(live.project)[rule.id].scored == len(drawn)
    (estimate,) = estimates_of(RuleLog(live.store).weighted_scores(live.project))
    assert (estimate.version, estimate.n, estimate.n_failed, estimate.rates) == ("1.2", len(drawn), 0, (0.5, 0.5))
    assert estimate.estimate is not None
    assert estimate.estimate.value == pytest.approx(sum(number % 2 for number in drawn) / len(drawn))


def test_when_a_trace_is_complete(live: Live, tmp_path: Path) -> None:
    """Its root has ended and 30 seconds were quiet; or 300 seconds were, whatever is missing."""
    live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    live.ask(1)
    open_root, *_ = conversation(2)
    del open_root["endTimeUnixNano"]
    live.send(open_root)
    live.send(span(7, 6, trace=trace_id(3), attributes={"output.value": "orphan, thank you"}))
    now = time.time()
    for after, drawn in ((20, 0), (31, 1), (290, 0), (301, 2)):
        assert ScoringWorker(live.store).round(now + after).n_drawn == drawn, after
    assert [each.value for number in (1, 2, 3) for each in live.scores(number)] == [1.0] * 3


def test_a_late_span_makes_scores_stale_and_they_are_made_again(live: Live, tmp_path: Path) -> None:
    """What came after the score marks it; the next round replaces it, and its old value is in no estimate."""
    live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    root, *_ = conversation(1, answer=None)
    live.send(root, span(2, 1, trace=trace_id(1), attributes={"gen_ai.operation.name": "chat", "output.value": "No."}))
    live.score()
    assert [(each.value, each.stale) for each in live.scores(1)] == [(0.0, None)]
    late = {"gen_ai.operation.name": "chat", "output.value": "thank you"}
    live.send(span(3, 1, trace=trace_id(1), start=0.5, attributes=late))
    (score,) = live.scores(1)
    assert score.stale == pytest.approx(time.time(), abs=10)
    (estimate,) = estimates_of(RuleLog(live.store).weighted_scores(live.project))
    assert (estimate.n, estimate.n_stale, estimate.estimate) == (0, 1, None)
    assert live.score().n_scored == 1
    assert [(each.value, each.stale) for each in live.scores(1)] == [(1.0, None)]


def test_failures_are_counted_and_tried_a_few_times(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scorer that raises or hangs is a failure with its reason, and never 0; None and NaN are not scored."""
    file = scorer_file(
        tmp_path,
        "import time\n"
        "def bad(output):\n    raise ValueError(f'not {output}')\n"
        "def slow(output):\n    time.sleep(30)\n"
        "def nothing(output):\n    return None if output == 'a' else float('nan')\n",
    )
    for name in ("bad", "slow", "nothing"):
        live.rule(name, f"{file}:{name}")
    live.ask(1, answer="a")
    live.ask(2, answer="b")
    monkeypatch.setattr(rule_log, "CLAIMS", replace(rule_log.CLAIMS, retry_seconds=0.0))
    counts = live.score(timeout_s=0.2)
    assert (counts.n_empty, counts.n_scored, counts.n_failed) == (2, 0, 12)
    results = {(each.name, each.value, each.error) for each in live.scores(1)}
    assert results == {
        ("bad", None, "scorer bad raised ValueError: not a"),
        ("slow", None, "scorer slow did not return within 0.2 s"),
    }
    by_name = {each.name: each for each in RuleLog(live.store).rules(live.project)}
    counted = RuleLog(live.store).counts(live.project)
    assert [counted[by_name[name].id].failed for name in ("bad", "slow", "nothing")] == [2, 2, 0]
    assert RuleLog(live.store).reasons(live.project, by_name["slow"].id) == [
        ("scorer slow did not return within 0.2 s", 2)
    ]
    for estimate in estimates_of(RuleLog(live.store).weighted_scores(live.project)):
        assert (estimate.n, estimate.n_failed, estimate.estimate) == (0, 2, None)
    assert live.score().n == 0


def test_a_trace_without_an_output_is_a_failure(live: Live, tmp_path: Path) -> None:
    """An application that raised has no answer to score: a failure with its error, tried once."""
    live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    live.ask(1, answer=None, error="KeyError: 'Atlantis'")
    assert live.score().n_failed == 1
    assert [(each.value, each.error) for each in live.scores(1)] == [
        (None, "the trace has no output: KeyError: 'Atlantis'")
    ]


def test_an_empty_answer_is_the_applications(live: Live, tmp_path: Path) -> None:
    """An application that answers nothing is not scored by what its model said within it."""
    live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    said = {"openinference.span.kind": "LLM", "output.value": "thank you"}
    live.send(*conversation(1, answer=""), span(2, 1, trace=trace_id(1), attributes=said))
    live.score()
    assert [each.value for each in live.scores(1)] == [0.0]


def test_scorers_get_what_the_trace_has(live: Live, tmp_path: Path) -> None:
    """Inputs by name, the output, contexts of searches, calls of tools, the time that it took and its id."""
    file = scorer_file(
        tmp_path,
        "import json, pathlib\n"
        "def seen(inputs, output, contexts, trace_id, metadata):\n"
        "    text = json.dumps([inputs, output, contexts, trace_id, metadata])\n"
        f"    pathlib.Path({str(tmp_path / 'seen.json')!r}).write_text(text)\n"
        "    return 1\n",
    )
    live.rule("seen", f"{file}:seen")
    live.rule("took", "latency")
    live.rule("tools", "{tool_schema: {tools: [{name: weather, parameters: {type: object, required: [city]}}]}}")
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}
    live.send(
        *conversation(1, documents=("Rome is old.", "Rome is old.", "Rome is large.")),
        span(8, 1, trace=trace_id(1), start=0.6, attributes={**call, "gen_ai.tool.call.arguments": '{"city": "Rome"}'}),
        span(9, 1, trace=trace_id(1), start=0.8, attributes={**call, "gen_ai.tool.call.arguments": "{}"}),
    )
    counts = live.score()
    assert counts.problems == []
    assert json.loads((tmp_path / "seen.json").read_text()) == [
        {"question": "What is Rome?"},
        "Rome, thank you.",
        ["Rome is old.", "Rome is large."],
        trace_id(1),
        {"trace_id": trace_id(1), "version": "1.2"},
    ]
    assert {each.name: each.value for each in live.scores(1)} == {
        "seen": 1.0,
        "latency": pytest.approx(1.8),
        "tool_schema": 0.5,
    }


def test_a_judge_scores_traces(live: Live) -> None:
    """A judged scorer asks its judge about each drawn trace; without contexts it does not score."""

    def reply(prompt: str) -> str:
        return '{"verdict": "yes"}' if "Rome is old." in prompt else '{"verdict": "no"}'

    with judging_server(reply) as server:
        live.rule("grounded", "groundedness", judge="local-chat-completions", judge_args=server.arguments)
        live.ask(1, documents=("Rome is old.",))
        live.ask(2, documents=("Oslo is north.",))
        live.ask(3)
        counts = live.score()
    assert counts.problems == []
    assert [[each.value for each in live.scores(number)] for number in (1, 2, 3)] == [[1.0], [0.0], []]


def test_a_judge_that_is_away_costs_no_try(live: Live) -> None:
    """Where the judge cannot be reached, the round says so, and traces wait."""
    live.rule(
        "grounded", "groundedness", judge="local-chat-completions", judge_args="model=j,base_url=http://127.0.0.1:9/v1"
    )
    live.ask(1, documents=("Rome is old.",))
    (problem,) = live.score().problems
    assert "grounded" in problem
    (counts,) = RuleLog(live.store).counts(live.project).values()
    assert (counts.waiting, counts.failed) == (1, 0)


@pytest.mark.parametrize(
    ("scorer", "keywords", "problem"),
    [
        ("exact", {}, "needs expected"),
        ("nothing_like_that", {}, "unknown scorer"),
        ("pii,latency", {}, "names 2"),
        ("pii", {"rate": 0.0}, "above 0"),
        ("pii", {"rate": float("nan")}, "above 0"),
        ("pii", {"rate": 1.5}, "at most 1"),
        ("pii", {"judge": "org/model"}, "asks none"),
        ("faithfulness", {}, "asks a judge"),
        ("pii", {"filter": "colour=red"}, "unknown word of the filter 'colour'"),
        ("pii", {"filter": "q=refund"}, "come later"),
        ("pii", {"filter": "thumbs<1"}, "come later"),
        ("pii", {"filter": "hours=3"}, "come later"),
        ("pii", {"filter": "errors=maybe"}, "expected yes or no"),
        ("pii", {"filter": "version='1"}, "cannot be read"),
        ("pii", {"filter": "version=1 version=2"}, "twice"),
    ],
)
def test_what_a_rule_cannot_be(scorer: str, keywords: dict[str, Any], problem: str) -> None:
    """Each mistake is refused in one line that names it, before anything is stored."""
    with pytest.raises(UsageError, match=problem) as raised:
        new_rule("r", scorer, **keywords)
    assert "\n" not in str(raised.value)


def test_words_of_a_filter_are_read_as_they_are_written() -> None:
    """A filter as text and as a query are the same thing."""
    query = ListQuery.of_text("version='1 2' errors=yes slower=2.5 faithfulness>=0.5")
    assert (query.version, query.errors, query.slower, query.score) == ("1 2", "yes", "2.5", "faithfulness>=0.5")
    assert ListQuery.of_text(query.text) == query
    assert ListQuery.of_text("") == ListQuery()


def test_rules_are_paused_removed_and_named_once(live: Live, tmp_path: Path) -> None:
    """A paused rule draws nothing until it is resumed; a removed one leaves its scores and its name free."""
    file = scorer_file(tmp_path, POLITE)
    live.rule("polite", f"{file}:polite")
    with pytest.raises(UsageError, match="already"):
        live.rule("polite", f"{file}:polite_too")
    RuleLog(live.store).set_state(live.project, "polite", "paused")
    live.ask(1)
    assert live.score().n_drawn == 0
    RuleLog(live.store).set_state(live.project, "polite", "active")
    assert live.score().n_scored == 1
    RuleLog(live.store).set_state(live.project, "polite", "removed")
    assert RuleLog(live.store).rules(live.project) == []
    assert len(live.scores(1)) == 1
    live.rule("polite", f"{file}:polite_too")
    with pytest.raises(UnknownName, match="polite"):
        RuleLog(live.store).set_state(live.project, "polit", "paused")
    other = TraceLog(live.store).add_project("other")
    assert other
    with pytest.raises(UnknownName):
        RuleLog(live.store).set_state(TraceLog(live.store).project_id("other"), "polite", "removed")


def test_one_broken_rule_does_not_stop_the_others(live: Live, tmp_path: Path) -> None:
    """A file of scorers that is gone is a problem of its rule alone."""
    gone = tmp_path / "gone"
    gone.mkdir()
    live.rule("gone", f"{scorer_file(gone, POLITE)}:polite")
    live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    (gone / "scorers.py").unlink()
    live.ask(1)
    counts = live.score()
    assert counts.n_scored == 1
    assert len(counts.problems) == 1
    assert counts.problems[0].startswith("rule 'gone': scorer: no file")


def test_scores_have_the_version_of_the_code_that_runs(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is edited while a worker runs is not loaded again, so its scores are not of the edited code."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "edited_scorers.py"
    module.write_text("def polite(output):\n    return 1\n")
    live.rule("polite", "edited_scorers:polite")
    worker = ScoringWorker(live.store)
    live.ask(1)
    worker.round(time.time() + LATER)
    module.write_text("def polite(output):\n    return 0\n")
    live.ask(2)
    worker.round(time.time() + LATER)
    (estimate,) = estimates_of(RuleLog(live.store).weighted_scores(live.project))
    assert estimate.estimate is not None
    assert (estimate.n, estimate.estimate.value) == (2, 1.0)


NUMBERS = """
import assaymark

@assaymark.scorer(scale="number")
def seconds(output):
    return len(output) / 1000

@assaymark.scorer
def part(output):
    return len(output) / 1000
"""


def test_a_declared_number_is_no_share(live: Live, tmp_path: Path) -> None:
    """Scores of an own function that declares numbers, and of a scale from 1 to 5, are no shares below 1 either."""
    file = scorer_file(tmp_path, NUMBERS)
    for name in ("seconds", "part"):
        live.rule(name, f"{file}:{name}")
    queue = AnnotationLog(live.store).add_queue(live.project, "stars", "1-5", 1)
    AnnotationLog(live.store).add_queue(live.project, "thumbs", "thumbs", 1)
    for number in range(1, 6):
        trace = bytes.fromhex(live.ask(number, answer="x" * (20 if number == 1 else 1)))
        AnnotationLog(live.store).add_items(queue, [trace], "all")
        AnnotationLog(live.store).rate(queue, "ada", rating_score(queue, trace, "1", None, None))
    live.score()
    assert number_scores(live.store, live.project) == {("seconds", "rule"), ("stars", "queue")}
    weighted = RuleLog(live.store).weighted_scores(live.project)
    lows = {
        each.name: each.estimate.low
        for each in estimates_of(weighted, number_scores(live.store, live.project))
        if each.estimate is not None and each.estimate.low is not None
    }
    assert lows["seconds"] < 0 <= lows["part"]
    results = quality_of(live.store, QualityQuery("1", "day").window(live.project))
    assert {each.key: each.unit for each in results.metrics if each.is_score} == {
        "part": "share", "seconds": "number", "stars": "number",
    }  # fmt: skip


def test_two_rules_of_one_score_count_a_trace_once(live: Live, tmp_path: Path) -> None:
    """Failed traces at 1 and all at 0.3: each trace has the rate at which it was drawn, the higher one."""
    file = scorer_file(tmp_path, POLITE)
    live.rule("failed", f"{file}:polite", filter="errors=yes")
    live.rule("some", f"{file}:polite", rate=0.3)
    for number in range(1, 31):
        live.ask(number, error="" if number % 3 else "late")
    live.score()
    (estimate,) = estimates_of(RuleLog(live.store).weighted_scores(live.project))
    low = {n for n in range(1, 31) if draw_of(bytes.fromhex(trace_id(n)), "polite") < 0.3}
    assert estimate.n == len({n for n in range(1, 31) if not n % 3} | low)
    assert estimate.rates == (0.3, 1.0)
    results = quality_of(live.store, QualityQuery("1", "day").window(live.project))
    (metric,) = (each for each in results.metrics if each.is_score)
    (point,) = (point for series in metric.series for point in series.points)
    assert estimate.estimate is not None
    assert point.n == estimate.n
    assert point.value == pytest.approx(estimate.estimate.value)


def workers_together(place: str, n_traces: int, folder: Path) -> None:
    """Let four workers, with a store of their own each, score the same traces at once; each is scored once."""
    calls = folder / "calls"
    calls.mkdir()
    file = scorer_file(
        folder,
        "import os, pathlib, time\n"
        "def noted(output, trace_id):\n"
        f"    path = pathlib.Path({str(calls)!r}) / trace_id\n"
        "    with path.open('a') as file:\n        file.write('x')\n"
        "    time.sleep(0.005)\n    return 1\n",
    )
    with Live.open(place) as live:
        live.rule("noted", f"{file}:noted")
        for number in range(1, n_traces + 1):
            live.ask(number)
        at = time.time() + 1000
        results = []

        def work() -> None:
            with Store.open(place) as store:
                results.append(ScoringWorker(store).round(at))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert [each.problems for each in results] == [[]] * 4
        assert sum(each.n_scored for each in results) == n_traces
        assert sum(each.n_drawn for each in results) == n_traces
        assert sum(each.n_scored > 0 for each in results) >= 2
        assert {path.name: path.read_text() for path in calls.iterdir()} == {
            trace_id(number): "x" for number in range(1, n_traces + 1)
        }
        assert sum(1 for _ in RuleLog(live.store).weighted_scores(live.project)) == n_traces
        assert live.store.verify() == []


def test_workers_share_a_store(tmp_path: Path) -> None:
    """On SQLite."""
    workers_together(str(tmp_path / "live.sqlite"), 120, tmp_path)


@pytest.mark.slow
def test_workers_share_a_server(postgres_url: str, tmp_path: Path) -> None:
    """On PostgreSQL."""
    workers_together(postgres_url, 120, tmp_path)


def test_a_suspended_worker_stores_nothing(live: Live, tmp_path: Path) -> None:
    """A claim that has expired is taken over, and what its first holder has is not stored then."""
    rule = live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    live.ask(1)
    rules = RuleLog(live.store)
    filter_ = ListQuery.of_text(rule.filter).filter()
    assert rules.draw(rule, filter_, Completeness(), time.time() + 1000) == 1
    first = rules.claim(rule, Owner.this_process("first"), 0.0, 10)
    time.sleep(0.05)
    second = rules.claim(rule, Owner.this_process("second"), 60.0, 10)
    assert [each.trace_id for each in first] == [each.trace_id for each in second]
    assert rules.finish([ScoringOutcome(first[0])]) == 0
    rules.release(first)
    assert rules.claim(rule, Owner.this_process("third"), 60.0, 10) == []
    assert rules.finish([ScoringOutcome(second[0])]) == 1
    assert rules.counts(live.project)[rule.id].empty == 1


def test_a_span_that_comes_while_a_trace_is_scored(live: Live, tmp_path: Path) -> None:
    """The score is stored as stale, and the trace is scored again."""
    rule = live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    live.ask(1)
    rules = RuleLog(live.store)
    rules.draw(rule, ListQuery().filter(), Completeness(), time.time() + 1000)
    worker = ScoringWorker(live.store)
    held = rules.claim(rule, Owner.this_process("a"), 60.0, 10)
    outcomes = worker._outcomes(worker._ready(rule), held)
    live.send(span(5, 1, trace=trace_id(1), name="late"))
    assert rules.finish(outcomes) == 1
    (score,) = live.scores(1)
    assert score.stale is not None
    assert live.score().n_scored == 1
    (score,) = live.scores(1)
    assert score.stale is None


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(live: Live, tmp_path: Path) -> None:
    """After kill -9 in the middle the next worker takes what was held at once, and every trace is scored once."""
    file = scorer_file(
        tmp_path,
        "import os, signal, pathlib\n"
        "def deadly(output, trace_id):\n"
        f"    marker = pathlib.Path({str(tmp_path / 'killed')!r})\n"
        f"    if trace_id.endswith('a') and not marker.exists():\n"
        "        marker.touch()\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 1\n",
    )
    live.rule("deadly", f"{file}:deadly")
    for number in range(1, 41):
        live.ask(number)
    command = [sys.executable, "-m", "assaymark", "traces", "score", "--once", "--quiet_s", "0", "--store", live.place]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    (counts,) = RuleLog(live.store).counts(live.project).values()
    assert counts.running > 0
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120, check=True)
    (after,) = RuleLog(live.store).counts(live.project).values()
    assert json.loads(again.stdout)["scored"] == 40 - counts.scored
    assert (after.scored, after.running, after.waiting, after.failed) == (40, 0, 0, 0)
    assert sum(1 for _ in RuleLog(live.store).weighted_scores(live.project)) == 40


def test_a_trace_that_kills_its_workers_is_given_up(live: Live, tmp_path: Path) -> None:
    """What was held three times by workers that ended is a failure, so that it does not kill for ever."""
    rule = live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    live.ask(1)
    rules = RuleLog(live.store)
    rules.draw(rule, ListQuery().filter(), Completeness(), time.time() + 1000)
    for _ in range(3):
        assert len(rules.claim(rule, Owner.this_process("a"), 0.0, 10)) == 1
        time.sleep(0.02)
    assert rules.claim(rule, Owner.this_process("a"), 60.0, 10) == []
    assert rules.counts(live.project)[rule.id].failed == 1
    assert rules.reasons(live.project, rule.id) == [("the worker that scored it ended, 3 times", 1)]


def test_a_project_that_is_removed_takes_all_with_it(live: Live, tmp_path: Path) -> None:
    """Rules, what they drew and scores of a project go with it; pruned traces leave nothing to be scored."""
    rule = live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    live.ask(1)
    live.score()
    TraceLog(live.store).prune(live.project, most_bytes=0)
    assert rule.id not in RuleLog(live.store).counts(live.project)
    live.ask(2)
    live.score()
    TraceLog(live.store).remove_project("bot")
    assert RuleLog(live.store).rules() == []
    assert list(RuleLog(live.store).weighted_scores(live.project)) == []


def test_commands(live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule is made, scores, is listed with its counts, and the scores are shown by version."""
    file = scorer_file(tmp_path, POLITE)
    at = ["--store", live.place]
    assert main(["traces", "rule", "add", "polite", "--scorer", f"{file}:polite", *at]) == 0
    assert "polite of 100% of all traces" in capsys.readouterr().out
    for number in range(1, 6):
        live.ask(number, version="1.0" if number < 3 else "1.1", answer="thank you" if number != 4 else "no")
    assert main(["traces", "score", "--quiet_s", "0", "--longest_s", "0", *at]) == 0
    assert "scored 5 traces, 0 not scored, 0 failed" in capsys.readouterr().out
    assert main(["traces", "rule", "list", "--json", *at]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["traces"] == {"waiting": 0, "running": 0, "scored": 5, "empty": 0, "failed": 0}
    assert main(["traces", "scores", "--json", *at]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [(each["version"], each["n"], each["mean"]) for each in output] == [
        ("1.0", 2, 1.0),
        ("1.1", 3, pytest.approx(2 / 3)),
    ]
    assert main(["traces", "scores", *at]) == 0
    assert "polite" in capsys.readouterr().out
    assert main(["traces", "rule", "pause", "polite", *at]) == 0
    assert main(["traces", "rule", "remove", "polite", *at]) == 0
    assert main(["traces", "rule", "remove", "polite", *at]) == 2
    assert "unknown rule 'polite'" in capsys.readouterr().err


def test_watching_ends_with_a_signal(live: Live, tmp_path: Path) -> None:
    """`--watch` scores what becomes complete while it runs, and Ctrl-C ends it in a line."""
    live.rule("polite", f"{scorer_file(tmp_path, POLITE)}:polite")
    command = [sys.executable, "-m", "assaymark", "traces", "score", "--watch", "--every", "0.1", "--quiet_s", "0"]
    process = subprocess.Popen(
        [*command, "--store", live.place], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        for number in (1, 2):
            live.ask(number)
            while not live.scores(number) and time.monotonic() < deadline:
                time.sleep(0.1)
        assert [each.value for number in (1, 2) for each in live.scores(number)] == [1.0, 1.0]
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait(10)
    assert process.returncode == 130
    assert "scored 1 traces" in out
    assert "Traceback" not in error


def test_texts_of_others_do_nothing_in_the_terminal(
    live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a scorer raises, and versions that senders name, are printed as text, without escapes or markup."""
    file = scorer_file(tmp_path, "def bad(output):\n    raise ValueError('[red]x\\x1b[31m' + output)\n")
    live.rule("bad", f"{file}:bad")
    live.ask(1, answer="\x1b]0;owned\x07[bold]", version="[link=http://evil]\x1b[2J")
    assert live.score().n_failed == 1
    for command in (["rule", "list"], ["scores"], ["ls"], ["show", trace_id(1)]):
        assert main(["traces", *command, "--store", live.place]) == 0
        captured = capsys.readouterr()
        assert "\x1b" not in captured.out + captured.err
    assert main(["traces", "rule", "list", "--store", live.place]) == 0
    assert "[red]x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--feedback_origins", "https://a.example"], "add --traces"),
        (["--traces", "--feedback_origins", "*"], "expected a site"),
    ],
)
def test_the_servers_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    """An option without traces, and a site that is none, are refused before the server starts."""
    assert main(["serve", *arguments, "--store", str(tmp_path / "s.sqlite"), "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_estimates_need_little_memory_and_count_sessions_as_clusters(tmp_path: Path) -> None:
    """Of 50,000 scores a few bytes each are kept; the mean and its interval are those of all of them at once."""
    generator = random.Random(1)
    rows = [
        WeightedScore("polite", "rule", "1", b"v", float(generator.random() < 0.8), None, generator.choice((0.1, 0.5)),
                      is_failed=False, is_stale=False, session=f"s{at // 5:06}", trace_id=at.to_bytes(16, "big"))
        for at in range(50_000)
    ]  # fmt: skip
    tracemalloc.start()
    (estimate,) = estimates_of(iter(rows))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    whole = estimate_sampled_mean(
        [row.value or 0.0 for row in rows], [row.rate or 1.0 for row in rows], [row.session for row in rows]
    )
    assert (estimate.n, estimate.rates) == (50_000, (0.1, 0.5))
    assert estimate.estimate == whole
    assert whole.n_clusters == 10_000
    assert peak < 200 * len(rows)


def test_scores_are_read_in_the_order_of_estimates(live: Live) -> None:
    """Groups, sessions and traces follow each other whatever was stored first, the higher rate of a trace first."""
    for number, session in enumerate(("b", "a", "b", None), 1):
        more = {} if session is None else {"session.id": session}
        live.send(*conversation(number, more=more), resource={"service.version": str(1 + number % 2)})
    trace = [bytes.fromhex(trace_id(number)) for number in range(1, 5)]
    rows = [
        {"project": live.project, "digest": bytes([at]) * 16, "trace_id": trace[number], "name": name, "value": 1.0,
         "observed": 10 - at, "received": 1.0, "source": "rule", "rate": rate}
        for at, (number, name, rate) in enumerate(
            [(0, "y", 0.1), (1, "x", 0.5), (2, "x", 0.1), (0, "x", 0.1), (3, "x", 1.0), (0, "x", 0.5)]
        )
    ]  # fmt: skip
    with live.store._database.writing() as connection:
        connection.execute(insert(trace_scores), rows)
    scores = list(RuleLog(live.store).weighted_scores(live.project))
    keys = [(each.name, each.version, each.session, each.trace_id) for each in scores]
    assert [key for key, _ in groupby(keys)] == list(dict.fromkeys(keys))
    assert [(each.trace_id, each.rate) for each in scores if each.name == "x" and each.version == "2"] == [
        (trace[0], 0.5), (trace[0], 0.1), (trace[2], 0.1),
    ]  # fmt: skip
    assert {(each.name, each.version): each.n for each in estimates_of(scores)} == {
        ("x", "1"): 2, ("x", "2"): 2, ("y", "2"): 1,
    }  # fmt: skip
