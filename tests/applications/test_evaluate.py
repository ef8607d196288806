"""A function is evaluated as a model is: stored, resumed, compared and shown."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest

import assaymark
from assaymark.applications.scorer import Answered, Result, ScorerFacts
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.records import ScoreStatus
from assaymark.results.comparison.compare import compare_runs
from assaymark.results.comparison.gates import check_gates, parse_gate
from assaymark.results.evidence.from_store import run_evidence
from assaymark.store import Store
from tests.conftest import ROOT

ROWS = [
    {"question": "2+2?", "expected": "4"},
    {"question": "3+3?", "expected": "6"},
    {"question": "capital of France?", "expected": "Paris"},
]


def exact(output: Any, expected: Any) -> float:
    """1 where they are equal."""
    return float(output == expected)


def loud(output: str) -> float:
    """The share of capital letters: fewer are neither better nor worse."""
    return sum(letter.isupper() for letter in output) / max(1, len(output))


class Counting:
    """A target that counts its calls, and knows the answers."""

    n_called = 0

    def __call__(self, question: str) -> str:
        """Answer."""
        Counting.n_called += 1
        return {"2+2?": "4", "3+3?": "7"}.get(question, "Paris")


def run_of(target: Any, rows: Any = ROWS, **options: Any) -> assaymark.Run:
    """Evaluate with the scorer `exact`, unless others are given."""
    return assaymark.evaluate(target, rows, **{"scorers": [exact], **options})


def answer(question: str) -> str:
    """Answer one of the questions wrongly."""
    return {"2+2?": "4", "3+3?": "7"}.get(question, "Paris")


def test_a_function_is_evaluated_on_a_file_of_rows(tmp_path: Path) -> None:
    """The run has an estimate for each scorer and for the latency, and the rows' answers are stored."""
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    run = assaymark.evaluate(answer, path, scorers=["exact", loud])
    assert run.row.status == "finished"
    assert run.row.model == "answer"
    estimate = run.estimate("questions")
    assert (estimate.metric, estimate.n, estimate.details["unit"]) == ("exact", 3, "proportion")
    assert estimate.value == pytest.approx(2 / 3)
    assert run.estimate("questions", "loud").value == pytest.approx(0.2 / 3)
    latency = run.estimate("questions", "latency_s")
    assert (latency.higher_is_better, latency.details["unit"]) == (False, "plain")
    assert latency.value is not None
    assert 0 <= latency.value < 5
    samples = run.samples("questions")
    assert [sample.outputs[0].text for sample in samples] == ["4", "7", "Paris"]
    assert [sample.request.prompt for sample in samples] == [row["question"] for row in ROWS]
    assert samples[0].request.target == "4"


def test_the_same_target_version_and_rows_are_the_same_run() -> None:
    """A finished run is returned without a call; another version is another run, with calls of its own."""
    Counting.n_called = 0
    first = run_of(Counting())
    assert (Counting.n_called, first.row.status) == (3, "finished")
    again = run_of(Counting())
    assert (again.id, Counting.n_called) == (first.id, 3)
    released = run_of(Counting(), version="2")
    assert released.id != first.id
    assert Counting.n_called == 6
    assert released.row.model == "Counting@2"


def test_another_scorer_uses_the_stored_answers() -> None:
    """A run with other scorers is another run, and its answers come from the cache: the target is not called."""
    Counting.n_called = 0
    first = run_of(Counting())
    second = run_of(Counting(), scorers=[exact, loud])
    assert second.id != first.id
    assert Counting.n_called == 3
    assert second.estimate("rows", "loud").n == 3
    assert second.estimate("rows", "latency_s").value == first.estimate("rows", "latency_s").value


def test_coroutine_functions_run_at_once() -> None:
    """Eight calls that wait 0.3 s each take less than two of them, on one event loop."""
    loops = set()

    async def slow(question: str) -> str:
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0.3)
        return question

    rows = [{"question": str(number), "expected": str(number)} for number in range(8)]
    began = time.monotonic()
    run = run_of(slow, rows, concurrency=8)
    assert run.estimate("rows").value == 1.0
    assert time.monotonic() - began < 10
    latencies = [sample.outputs[0].call for sample in run.samples("rows")]
    assert len(loops) == 1
    assert all(json.loads(call or "")["latency_s"] >= 0.3 for call in latencies)


def test_functions_run_in_several_threads() -> None:
    """With concurrency 4 four calls are in progress at once, never more."""
    inside = threading.Semaphore(4)
    barrier = threading.Barrier(4)

    def meeting(question: str) -> str:
        assert inside.acquire(blocking=False)
        barrier.wait(20)  # passes only if four calls are in it
        inside.release()
        return question

    rows = [{"question": str(number), "expected": str(number)} for number in range(8)]
    assert run_of(meeting, rows, concurrency=4).estimate("rows").value == 1.0


def test_an_exception_is_a_counted_failure() -> None:
    """A row whose call raises has no score: it is neither 0 nor left out, and the error says what was raised where."""

    def fails(question: str) -> str:
        if question == "3+3?":
            raise ValueError("no sums of three")
        return answer(question)

    run = run_of(fails)
    estimate = run.estimate("rows")
    assert (estimate.value, estimate.n, estimate.n_failed) == (1.0, 2, 1)
    failed = run.samples("rows")[1]
    error = failed.outputs[0].error or ""
    assert error.startswith("fails raised ValueError: no sums of three (test_evaluate.py, line ")
    assert failed.outputs[0].error_kind == "Permanent"
    assert {score.status for score in failed.scores} == {ScoreStatus.FAILED}


def test_sys_exit_in_a_target_is_a_failure_too() -> None:
    """A target that ends the process fails in its own row only."""

    def leaves(question: str) -> str:
        if question == "3+3?":
            sys.exit(3)
        return answer(question)

    assert run_of(leaves).estimate("rows").n_failed == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_sys_exit_in_a_scorer_is_a_failed_score(is_async: bool) -> None:
    """A scorer that ends the process fails in its own row only, and the run goes on."""

    def leaves(output: str) -> float:
        if output == "7":
            sys.exit(5)
        return 1.0

    async def leaves_in_a_coroutine(output: str) -> float:
        return leaves(output)

    run = run_of(answer, scorers=[leaves_in_a_coroutine if is_async else leaves])
    estimate = run.estimate("rows")
    assert estimate.n_failed == 1
    assert estimate.n == 2
    assert "exit(5) was called" in str(estimate.details.get("first_error"))


def test_an_interval_of_a_latency_has_no_negative_seconds() -> None:
    """Two calls of very different latency have a wide interval, which ends at 0."""

    def slow(question: str) -> str:
        time.sleep(0.2 if question == "3+3?" else 0.0)
        return answer(question)

    latency = run_of(slow).estimate("rows", "latency_s")
    assert latency.low is not None
    assert latency.low >= 0


@pytest.mark.parametrize("kind", ["function", "coroutine", "blocking coroutine"])
def test_a_call_that_hangs_does_not_hang_the_run(kind: str) -> None:
    """It is a failure after the time limit, and the next command tries it again; the other rows have their scores."""
    released = threading.Event()

    def hangs(question: str) -> str:
        if question == "3+3?":
            released.wait(60)
        return answer(question)

    async def hangs_in_a_coroutine(question: str) -> str:
        if question == "3+3?":
            await asyncio.sleep(60)
        return answer(question)

    async def blocks_the_loop(question: str) -> str:
        return hangs(question)

    target = {"function": hangs, "coroutine": hangs_in_a_coroutine, "blocking coroutine": blocks_the_loop}[kind]
    began = time.monotonic()
    try:
        run = run_of(target, timeout_s=1.0, concurrency=1, version=kind)
    finally:
        released.set()
    assert time.monotonic() - began < 20
    estimate = run.estimate("rows")
    assert (estimate.n, estimate.n_failed, estimate.value) == (2, 1, 1.0)
    output = run.samples("rows")[1].outputs[0]
    assert output.error_kind == "TimedOut"
    assert "did not return within 1 s" in (output.error or "")
    assert run.row.status == "incomplete"


def test_a_call_that_failed_is_tried_again() -> None:
    """With retries=2 a call that fails twice succeeds, and its record says that it took three tries."""
    tries: dict[str, int] = {}

    def shaky(question: str) -> str:
        tries[question] = tries.get(question, 0) + 1
        if tries[question] < 3 and question == "2+2?":
            raise ConnectionError("reset")
        return answer(question)

    run = run_of(shaky, retries=2, version="1")
    assert (run.estimate("rows").n_failed, tries["2+2?"]) == (0, 3)
    assert json.loads(run.samples("rows")[0].outputs[0].call or "")["n_tries"] == 3


def test_a_temporary_failure_is_asked_again_by_the_next_call() -> None:
    """Only the row that failed for a temporary reason is called again; the others are stored."""
    called: list[str] = []
    broken = {"2+2?"}

    def network(question: str) -> str:
        called.append(question)
        if question in broken:
            raise ConnectionError("reset by peer")
        return answer(question)

    first = run_of(network, version="1", name="network")
    assert (first.row.status, first.estimate("rows").n_failed) == ("incomplete", 1)
    called.clear()
    broken.clear()  # what the function holds is in its hash
    broken.add("2+2?")
    second = run_of(network, version="1", name="network")
    assert second.id == first.id
    assert called == ["2+2?"]


def test_what_a_target_returns_is_stored_as_json() -> None:
    """Mappings and numbers are stored as JSON text and come back as they were; cost, tokens and contexts are read."""
    seen: list[Any] = []

    def rich(question: str) -> dict[str, Any]:
        usage = {"prompt_tokens": 7, "completion_tokens": 5}
        return {"answer": answer(question), "contexts": [f"about {question}"], "cost": 0.25, "usage": usage}

    def sees(output: Any, contexts: Any) -> float:
        seen.append((output["answer"], contexts))
        return 1.0

    run = run_of(rich, scorers=["exact", sees])
    assert run.estimate("rows", "exact").value == pytest.approx(2 / 3)  # of the answer in it
    assert sorted(seen) == [("4", ["about 2+2?"]), ("7", ["about 3+3?"]), ("Paris", ["about capital of France?"])]
    assert run.estimate("rows", "cost").value == 0.25
    tokens = run.estimate("rows", "n_tokens")
    assert (tokens.value, tokens.higher_is_better, tokens.details["unit"]) == (12, False, "plain")
    output = run.samples("rows")[0].outputs[0]
    assert json.loads(output.text or "")["answer"] == "4"
    assert (output.n_context_tokens, output.n_tokens) == (7, 5)


def test_reasoning_in_the_answers_of_an_application_is_said() -> None:
    """The remedy is in the target: a run of an application has no arguments of a model."""
    run = run_of(lambda question: f"<think>hm</think>{answer(question)}")
    said = " ".join(run.remarks())
    assert (
        "3 answers with </think>: the reasoning before it was scored as part of the answer; remove it in the target"
        in said
    )
    assert "model_args" not in said


def test_rows_may_be_a_table_of_pandas() -> None:
    """Its columns are the rows' own, and decimals in it are numbers."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        [{"question": "2+2?", "expected": Decimal(4)}, {"question": "3+3?", "expected": Decimal(7)}]
    )
    run = assaymark.evaluate(answer, frame, scorers="exact")
    assert run.estimate("rows", "exact").value == 1.0
    wrong: list[Any] = ["1", True, 1.5]
    for limit in wrong:
        with pytest.raises(UsageError, match="expected a whole number of samples from 1"):
            assaymark.evaluate(answer, frame, scorers="exact", limit=limit)


def test_decimals_and_enumerations_are_the_values_that_they_stand_for() -> None:
    """A sum from a database and a member of an enumeration are read as number and text."""

    class Colour(Enum):
        RED = "red"

    values = {"sum": Decimal("7.50"), "colour": Colour.RED}
    rows = [{"question": "sum", "expected": 7.5}, {"question": "colour", "expected": "red"}]
    assert run_of(lambda question: values[question], rows).estimate("rows", "exact").value == 1.0


class Unspeakable(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


def test_an_exception_that_cannot_be_printed_is_a_failure_too() -> None:
    """Of a target, and of a scorer: the run goes on, and the reason names the class."""

    def fails(question: str) -> str:
        if question == "3+3?":
            raise Unspeakable
        return answer(question)

    def picky(output: str) -> float:
        if output == "4":
            raise Unspeakable
        return 1.0

    run = run_of(fails, scorers=[picky])
    assert (run.estimate("rows").n, run.estimate("rows").n_failed) == (1, 2)
    assert "raised Unspeakable: (its __str__ raised RuntimeError)" in (run.samples("rows")[1].outputs[0].error or "")
    assert "picky raised Unspeakable: (its __str__ raised RuntimeError)" in str(run.estimate("rows").details)


def test_labels_without_values_are_counted_in_the_table() -> None:
    """A scorer that returns a text has no mean; how often each label was given is said, beside what failed."""

    def mood(output: str) -> str:
        return "even" if int(output) % 2 == 0 else "odd"

    def fails(question: str) -> str:
        if question == "no":
            raise ValueError("no number")
        return question

    rows = [{"question": each} for each in ("2", "4", "5", "no")]
    run = run_of(fails, rows, scorers=[mood])
    assert run.estimate("rows").value is None
    assert run.estimate("rows").details["labels"] == {"even": 2, "odd": 1}
    text = " ".join(str(run).split())
    assert "labels and no values: even 2, odd 1" in text
    assert "all requests failed" not in text


def test_what_json_cannot_hold_is_a_failure() -> None:
    """A target that returns an open file or a NaN has failed in that row, and the error says what was expected."""

    def strange(question: str) -> Any:
        return float("nan") if question == "2+2?" else {1, 2} if question == "3+3?" else "Paris"

    run = run_of(strange)
    assert (run.estimate("rows").n, run.estimate("rows").n_failed) == (1, 2)
    assert "expected a text, a number, a list or a mapping" in (run.samples("rows")[0].outputs[0].error or "")


def test_a_scorer_that_raises_or_returns_nothing_is_not_zero() -> None:
    """What it raises is a failed score with its reason; None and NaN are not scored."""

    def picky(output: str, expected: str) -> float | None:
        if output == "7":
            raise KeyError("seven")
        return None if output == "4" else float("nan") if expected == "x" else 1.0

    run = run_of(answer, [*ROWS, {"question": "?", "expected": "x"}], scorers=[picky])
    estimate = run.estimate("rows")
    assert (estimate.value, estimate.n, estimate.n_failed, estimate.details["n_unscored"]) == (1.0, 1, 1, 2)
    assert "picky raised KeyError: 'seven'" in str(estimate.details["first_error"])


@dataclass(frozen=True)
class Returning:
    """A scorer that returns given results."""

    results: tuple[Result, ...]
    facts: ScorerFacts = field(default_factory=lambda: ScorerFacts("own", scale="number", higher_is_better=False))
    content_hash: str = "1"

    async def score(self, answered: Answered) -> Sequence[Result]:
        """Return them."""
        return self.results


def test_what_a_scorer_declares_is_what_is_shown() -> None:
    """A number below 1 is not a share, lower is better, and labels, comments and further results are stored."""
    odd: dict[Any, Any] = {("a", 1): 1, "when": Path("x")}
    results = (Result("own", 0.25, "low", "because", odd), Result("other", 1.0), Result("label", label="yes"))
    run = run_of(answer, scorers=[Returning(results)])
    estimate = run.estimate("rows")
    assert (estimate.metric, estimate.value, estimate.details["unit"]) == ("own", 0.25, "plain")
    assert estimate.higher_is_better is False
    assert run.estimate("rows", "other").n == 3
    scores = {score.metric: score for score in run.samples("rows")[0].scores}
    assert scores["own"].detail == {
        "is_share": False, "label": "low", "comment": "because", "metadata": {"when": "x"},
    }  # fmt: skip
    assert (scores["label"].value, scores["label"].status) == (None, ScoreStatus.SCORED)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (Result("own", cast("float", "high")), "scorer own returned the value 'high'; expected a number"),
        (cast("Result", 0.5), "scorer own returned 0.5; expected results"),
        (Result("exact", 1.0), "returned a result named 'exact', which is the name of another score"),
        (Result("latency_s", 1.0), "returned a result named 'latency_s'"),
        (Result("x" * 300, 1.0), "expected a name of 1 to 200 characters"),
    ],
)
def test_what_is_no_result_is_a_failed_score(result: Result, message: str) -> None:
    """A scorer that returns something else has failed in that row, and the others have their scores."""
    run = run_of(answer, scorers=[exact, Returning((result,))])
    assert run.estimate("rows", "exact").n == 3
    failed = run.estimate("rows", "own")
    assert (failed.n, failed.n_failed) == (0, 3)
    assert message in str(failed.details["first_error"])


def test_a_limit_takes_the_first_rows() -> None:
    """With limit=2 two rows are called, as a run of its own, whose answers the whole run uses."""
    Counting.n_called = 0
    some = run_of(Counting(), limit=2)
    assert (some.estimate("rows").n, Counting.n_called) == (2, 2)
    whole = run_of(Counting())
    assert whole.id != some.id
    assert (whole.estimate("rows").n, Counting.n_called) == (3, 3)


def test_repeats_cluster_by_row() -> None:
    """Each row is called three times, its score is the mean, and the interval counts rows."""
    calls: dict[str, int] = {}
    lock = threading.Lock()

    def unsure(question: str) -> str:
        with lock:
            calls[question] = calls.get(question, 0) + 1
            return "4" if calls[question] != 2 else "5"

    rows = [{"question": str(number), "expected": "4"} for number in range(10)]
    run = run_of(unsure, rows, repeats=3, version="1")
    estimate = run.estimate("rows")
    assert set(calls.values()) == {3}
    assert estimate.value == pytest.approx(2 / 3)
    assert estimate.n == 10
    detail = run.samples("rows")[0].scores[0].detail
    assert isinstance(detail, dict)
    assert sorted(detail["repeats"]) == [0.0, 1.0, 1.0]
    assert len(run.samples("rows")[0].outputs) == 3


def test_two_versions_are_compared_row_by_row() -> None:
    """A comparison pairs the rows of two versions, and has a difference for each scorer."""

    def better(question: str) -> str:
        return {"2+2?": "4", "3+3?": "6"}.get(question, "paris")

    first = run_of(answer, scorers=[exact, loud])
    second = run_of(better, scorers=[exact, loud])
    (pair,) = compare_runs([run_evidence(run.store, run.id) for run in (first, second)]).pairs
    (line,) = pair.tasks
    assert (line.metric, line.n, line.difference, line.n_better, line.n_worse) == ("exact", 3, 0.0, 1, 1)
    assert len(pair.flips) == 2
    others = {each.name: each for each in pair.scorers}
    assert set(others) == {"rows/loud", "rows/latency_s"}
    assert others["rows/loud"].difference == pytest.approx(-0.2 / 3)
    assert (others["rows/latency_s"].higher_is_better, others["rows/latency_s"].scale) == (False, "plain")


def test_a_score_without_a_direction_makes_no_run_better() -> None:
    """A scorer whose values are neither better high nor low has a difference, and a gate on it is refused."""
    low, high = (
        Returning((Result("own", value),), ScorerFacts("own", scale="number", higher_is_better=None), str(value))
        for value in (1.0, 5.0)
    )
    rows = [{"question": str(number)} for number in range(20)]
    runs = [run_of(answer, rows, scorers=[scorer]) for scorer in (low, high)]
    compared = compare_runs([run_evidence(run.store, run.id) for run in runs])
    (line,) = compared.pairs[0].tasks
    assert (line.difference, line.is_significant, line.better, line.is_neutral) == (4.0, True, None, True)
    assert "differ on rows" in compared.verdict
    assert "better than" not in compared.verdict
    with pytest.raises(UsageError, match="neither higher nor lower own is better"):
        check_gates(compared, [parse_gate("rows >= 0")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 0}, "repeats is 0; expected a whole number from 1"),
        ({"repeats": 10**9}, "repeats is 1000000000; expected a whole number from 1 to 10,000"),
        ({"timeout_s": -1}, "timeout_s is -1; expected a number of seconds above 0"),
        ({"num_fewshot": 5}, "unknown option of evaluate with scorers 'num_fewshot'"),
        ({"headers": {"a": "b"}}, "headers is of an HTTP endpoint"),
        ({"files": ["absent.txt"]}, "no file 'absent.txt'"),
        ({"scorers": ["exakt"]}, "unknown scorer 'exakt'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    """Nothing is called, and nothing is stored."""
    with pytest.raises(UsageError, match=message):
        run_of(answer, **options)


def test_keywords_of_applications_are_refused_for_models() -> None:
    """`version` belongs to applications: a model with it is refused by name."""
    with pytest.raises(UnknownName, match="version"):
        assaymark.evaluate("fake", "demo_yesno", version="2")


def test_a_missing_reference_is_refused_before_the_first_call() -> None:
    """A scorer that needs the expected answer is refused where a row has none."""
    with pytest.raises(UsageError, match="scorer 'exact' needs an expected value, and row 0 of 1 has none"):
        run_of(answer, [{"question": "2+2?"}], scorers=["exact"])


# ------------------------------------------------------------------------------------------------ the command line

APP = """
import os, time
CALLS = os.environ["CALLS"]

def answer(question):
    with open(CALLS, "a") as stream:
        stream.write(question + "\\n")
    time.sleep(float(os.environ.get("SLEEP", "0")))
    return question.removeprefix("say ")

def shorter(output, expected):
    return len(output) < len(expected)
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an application and 40 rows."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    rows = [{"question": f"say {number}", "expected": str(number)} for number in range(40)]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls.log"))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


COMMAND = ["--target", "app.py:answer", "--tasks", "questions.jsonl", "--scorers", "exact,app.py:shorter"]


def started(folder: Path, *words: str, **environment: str) -> "subprocess.Popen[str]":
    """Start a command in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "assaymark", *words],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed(folder: Path, *words: str, code: int = 0, **environment: str) -> str:
    """Run a command to its end, and return what it printed."""
    process = started(folder, *words, **environment)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == code, text
    return text


@pytest.mark.slow
def test_a_killed_command_continues_where_it_was(app: Path) -> None:
    """After kill -9 the same command asks only for rows that were not stored; each stored row was called once."""
    calls = app / "calls.log"
    process = started(app, "run", *COMMAND, "--concurrency", "1", "--quiet", SLEEP="0.1")
    while not calls.exists() or len(calls.read_text().split("\n")) < 15:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with Store.open(str(app / "home" / "store.sqlite") if (app / "home" / "store.sqlite").exists() else None) as store:
        (row,) = store.runs()
        stored = {sample.request.prompt for sample in store.samples(row.run_id, "questions") if sample.outputs}
    assert 0 < len(stored) < 40
    calls.unlink()
    text = printed(app, "run", *COMMAND, "--quiet")
    asked = calls.read_text().splitlines()
    assert not stored & set(asked)
    assert len(asked) == len(set(asked)) == 40 - len(stored)
    assert "app.py:answer" in text
    assert "100.0%" in text  # exact
    calls.unlink()
    assert "the run was already in the store; no request was sent" in printed(app, "run", *COMMAND, "--quiet")
    assert not calls.exists()


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run a command that calls no application, in this process; return what it printed."""
    assert main(list(words)) == code
    output = capsys.readouterr()
    return output.out + output.err


@pytest.mark.slow
def test_other_commands_work_as_for_any_run(
    app: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples show inputs and answers; a changed source is another run, compared with the first row by row.

    A stored plan does not hold the application: where it would be called, the error says that the same command is run
    again.
    """
    monkeypatch.chdir(app)
    printed(app, "run", *COMMAND, "--quiet")
    (run,) = json.loads(said(capsys, "ls", "runs", "--json"))
    first = str(run["run_id"])
    result = said(capsys, "show", first, "--samples", "questions", "--limit", "2")
    assert "say 0" in result
    assert "right" in result
    source = (app / "app.py").read_text()
    (app / "app.py").write_text(source.replace('removeprefix("say ")', 'removeprefix("say 1")'), encoding="utf-8")
    text = printed(app, "run", *COMMAND, "--quiet", "--json")
    second = json.loads(text[text.index("{") :])["run_id"]
    assert second != first
    compared = said(capsys, "compare", first, second)
    assert "exact" in compared
    assert "40" in compared
    for command in ("rescore", "reproduce"):
        text = said(capsys, command, first, code=2)
        assert "is of the application app.py:answer" in text
        assert "run the same command again" in text


def test_a_scorer_changed_in_the_same_file_calls_nothing_again(app: Path) -> None:
    """Only what the target depends on is in its identity: another scorer beside it uses the stored answers."""
    printed(app, "run", *COMMAND, "--quiet")
    source = (app / "app.py").read_text()
    (app / "app.py").write_text(source.replace("len(output) < len(expected)", "len(output) > 1"), encoding="utf-8")
    (app / "calls.log").unlink()
    printed(app, "run", *COMMAND, "--quiet")
    assert not (app / "calls.log").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scorers", "exact", "--tasks", "x.jsonl"], "--scorers is for applications; name one with --target"),
        ([*COMMAND, "--num_fewshot", "5"], "--num_fewshot is for models, and --target names an application"),
        ([*COMMAND, "--tasks", "more.jsonl"], "--target needs one source of rows"),
        (["--target", "absent.py:answer", "--tasks", "questions.jsonl"], "no file 'absent.py'"),
        (["--target", "app.py:anser", "--tasks", "questions.jsonl"], "nearest: answer"),
        (["--target", "app.py", "--tasks", "questions.jsonl"], "expected FILE.py:NAME, module:name, a URL"),
        (["--target", "app.py:answer", "--tasks", "absent.jsonl"], "no file 'absent.jsonl'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(app: Path, words: list[str], message: str) -> None:
    """Each in one line, with exit code 2, before anything is called."""
    text = printed(app, "run", *words, code=2)
    assert message in text
    assert len(text.strip().splitlines()) == 1
    assert not (app / "calls.log").exists()


def test_a_run_without_scorers_says_so(tmp_path: Path) -> None:
    """Where only the latency was measured, a line names the option that judges the answers."""
    rows = [{"question": "2+2?", "answer": "4"}]
    unjudged = assaymark.evaluate(answer, rows, scorers=[], store=tmp_path / "store.sqlite")
    judged = assaymark.evaluate(answer, rows, scorers=["exact"], store=tmp_path / "store.sqlite")
    told = [any("no scorer judged the answers" in line for line in run.remarks()) for run in (unjudged, judged)]
    assert told == [True, False]
