"""From a sample's outputs to its scores, by the task's metrics, filters or own function."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import MalformedSample
from assaymark.records import Output, Request, ScoreStatus
from assaymark.results.evidence.from_store import verdict_of
from assaymark.store.rows import SampleRecord
from tests.tasks.folders import ROWS, bound, write_rows


def answered(request: Request, nats: list[float], greedy: tuple[bool, ...] = ()) -> list[Output]:
    """Return outputs for a request's queries."""
    flags = greedy or (False,) * len(nats)
    return [Output(request.id, i, total_nats=n, is_greedy=g) for i, (n, g) in enumerate(zip(nats, flags, strict=True))]


def test_scores_of_choices(tmp_path: Path) -> None:
    """The scores are the task's metrics, and the calibration that every multiple-choice run reports."""
    task = bound(tmp_path)
    sample = task.samples()[0]
    request = task.request(sample)
    scores = {score.metric: score for score in task.score(request, sample, answered(request, [-1.0, -2.0]))}
    assert scores["acc"].value == scores["acc_norm"].value == 1.0
    assert {"brier", "confidence", "n_tied", "acc_ties"} <= set(scores)
    assert scores["acc"].request_id == "sums/0/0"
    wrong = {score.metric: score.value for score in task.score(request, sample, answered(request, [-2.0, -1.0]))}
    assert wrong["acc"] == 0.0


def test_failed_queries_are_failed_scores(tmp_path: Path) -> None:
    """An error or a missing answer gives failed scores with the reason, never a wrong answer."""
    task = bound(tmp_path)
    sample = task.samples()[0]
    request = task.request(sample)
    failed = [Output(request.id, 0, total_nats=-1.0, is_greedy=True), Output(request.id, 1, error="too long")]
    for outputs, reason in ((failed, "too long"), (failed[:1], "there is no answer")):
        scores = task.score(request, sample, outputs)
        assert {score.metric for score in scores} == {"acc", "acc_norm"}
        assert all((s.value, s.status, s.detail) == (None, ScoreStatus.FAILED, reason) for s in scores)


def test_the_tasks_own_scoring(tmp_path: Path) -> None:
    """process_results gets the row and (nats, greedy) per query; numbers become values, compounds parts."""
    (tmp_path / "own.py").write_text(
        "def score(doc, results):\n"
        "    return {'best': max(n for n, g in results), 'pair': (doc['text'], 1), 'whole': {'a': 1}, 'none': None}\n"
    )
    task = bound(tmp_path, process_results="!function own.score")
    sample = task.samples()[0]
    request = task.request(sample)
    scores = {score.metric: score for score in task.score(request, sample, answered(request, [-1.0, -2.0]))}
    assert scores["best"].value == -1.0
    assert (scores["pair"].value, scores["pair"].parts) == (None, ("2", 1))
    assert (scores["whole"].parts, scores["whole"].detail) == (({"a": 1},), {"wrapped": True})
    assert (scores["none"].value, scores["none"].parts) == (None, None)


@pytest.mark.parametrize(("text", "status"), [("", "scored"), ("[invalid]", "unparsed"), ("two", "scored")])
def test_an_empty_answer_to_an_empty_reference_is_an_answer(tmp_path: Path, text: str, status: str) -> None:
    """What equals an empty reference counts as right, and so not as without an answer."""
    task = bound(
        tmp_path,
        output_type="generate_until",
        doc_to_choice=...,
        doc_to_target="{{''}}",
        metric_list=[{"metric": "exact_match"}],
    )
    sample = task.samples()[0]
    request = task.request(sample)
    (score,) = task.score(request, sample, [Output(request.id, 0, 0, text=text)])
    assert (score.value, score.status.value) == (float(text == ""), status)


def test_a_guess_in_scoring_does_not_depend_on_the_order(tmp_path: Path) -> None:
    """A scoring function that draws at random gives a sample the same value in any order; its errors are named."""
    (tmp_path / "own.py").write_text(
        "import random\ndef score(doc, results): return {'guess': random.random()}\n"
        "def faulty(doc, results): return doc['absent']\n"
    )
    task = bound(tmp_path, process_results="!function own.score")
    first, second = task.samples()[:2]

    def guess(sample: Any) -> float | None:
        request = task.request(sample)
        return task.score(request, sample, answered(request, [-1.0, -2.0]))[0].value

    values = [guess(first), guess(second), guess(first)]
    assert values[0] == values[2] != values[1]
    task = bound(tmp_path, process_results="!function own.faulty")
    with pytest.raises(MalformedSample, match=r"sample 0: its scoring function failed: KeyError: 'absent'"):
        guess(first)


def test_generated_answers_are_filtered(tmp_path: Path) -> None:
    """Each filter has its own scores, any of several targets counts, and an answer without extraction is unparsed."""
    task = bound(
        tmp_path,
        output_type="generate_until",
        doc_to_choice=...,
        doc_to_target="{{[text, 'two']}}",
        repeats=2,
        metric_list=[{"metric": "exact_match", "ignore_case": True}],
        filter_list=[
            {
                "name": "number",
                "filter": [{"function": "regex", "regex_pattern": "([0-9]+)"}, {"function": "take_first"}],
            },
            {"name": "plain", "filter": [{"function": "take_first"}]},
        ],
    )
    sample = task.samples()[0]
    request = task.request(sample)

    def scored(text: str) -> dict[str, tuple[float | None, str]]:
        outputs = [Output(request.id, 0, repeat, text=text) for repeat in range(2)]
        return {score.filter: (score.value, score.status.value) for score in task.score(request, sample, outputs)}

    assert scored("It is 2") == {"number": (1.0, "scored"), "plain": (0.0, "scored")}
    assert scored("TWO") == {"number": (0.0, "unparsed"), "plain": (1.0, "scored")}


def test_an_error_that_the_task_counts_is_no_right_answer(tmp_path: Path) -> None:
    """Where the file says that lower is better, a score of 1 says nothing about right or wrong."""
    (tmp_path / "own.py").write_text("def score(doc, results): return {'flagged': 1, 'fair': 1}")
    own = [{"metric": "flagged", "higher_is_better": False}, {"metric": "fair", "higher_is_better": True}]
    task = bound(tmp_path, process_results="!function own.score", metric_list=own)
    sample = task.samples()[0]
    request = task.request(sample)
    flagged, fair = task.score(request, sample, answered(request, [-1.0, -2.0]))
    verdicts = [verdict_of(SampleRecord(sample, request, (), (score,))) for score in (flagged, fair)]
    assert verdicts == ["scored", "right"]


def test_what_the_tasks_own_scoring_was_given_is_stored(tmp_path: Path) -> None:
    """Where filters changed the answer, each score of the task's own function names what it was given."""
    (tmp_path / "own.py").write_text("def score(doc, results): return {'n': len(results[0]), 'all': results}")
    task = bound(
        tmp_path,
        output_type="generate_until",
        doc_to_choice=...,
        process_results="!function own.score",
        filter_list=[{"name": "first", "filter": [{"function": "regex", "regex_pattern": "[0-9]+"}]}],
    )
    sample = task.samples()[0]
    request = task.request(sample)
    number, whole = task.score(request, sample, [Output(request.id, 0, 0, text="It is 22")])
    assert (number.value, number.detail) == (1.0, {"extracted": ["22"]})
    assert (whole.parts, whole.detail) == ((["22"],), {"extracted": ["22"]})


@pytest.mark.parametrize(("gold", "is_absent"), [(2, True), (-1, True), ("3", False), ("9", True), ([0, 2], True)])
def test_a_gold_answer_that_is_no_choice_is_wrong_and_marked(tmp_path: Path, gold: Any, is_absent: bool) -> None:
    """A gold beyond the choices is always scored as wrong, as in lm-eval, and marked in the detail."""
    write_rows(
        tmp_path,
        [{**ROWS[0], "answer": 0}, {**ROWS[0], "answer": gold}] if gold in (2, -1) else [{**ROWS[0], "answer": gold}],
    )
    task = bound(tmp_path)
    sample = task.samples()[-1]
    request = task.request(sample)
    scores = {score.metric: score for score in task.score(request, sample, answered(request, [-2.0, -1.0]))}
    assert task.gold_is_absent(sample) is is_absent
    detail = scores["acc"].detail
    assert isinstance(detail, Mapping)
    assert detail.get("gold_is_absent", False) is is_absent
    assert scores["acc"].value == float(not is_absent)


def test_a_gold_answer_that_is_null_is_an_error(tmp_path: Path) -> None:
    """A gold that is null is a fault of the row; the error names task, file and sample."""
    write_rows(tmp_path, [ROWS[0], {**ROWS[0], "answer": None}])
    task = bound(tmp_path)
    sample = task.samples()[1]
    with pytest.raises(MalformedSample, match=r"task sums \(.*sums\.yaml\), sample 1: the gold answer is None"):
        task.gold_is_absent(sample)
    request = task.request(sample)
    with pytest.raises(MalformedSample, match=r"sums\.yaml\), sample 1: the gold answer is None"):
        task.score(request, sample, answered(request, [-2.0, -1.0]))


def test_a_reference_beyond_the_choices_is_an_error(tmp_path: Path) -> None:
    """Where the reference is a position among choices, the error names the position that does not exist."""
    write_rows(tmp_path, [{**ROWS[0], "answer": 5}])
    task = bound(tmp_path, output_type="generate_until", metric_list=[{"metric": "exact_match"}])
    sample = task.samples()[0]
    request = task.request(sample)
    with pytest.raises(MalformedSample, match="doc_to_target gives 5; expected the position of one of the 2 choices"):
        task.score(request, sample, [Output(request.id, 0, text="2")])
