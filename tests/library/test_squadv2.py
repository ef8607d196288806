"""SQuAD 2.0 in the library: its prompts are those of lm-eval's class, its eight numbers right on a worked example."""

import math
from types import SimpleNamespace

import pytest

from assaymark.datasets import DatasetSpec
from assaymark.datasets.load import load_dataset
from assaymark.errors import DataError
from assaymark.records import Output
from assaymark.scoring.reading_rows import drop_results, drop_rows, squad_results
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.reading_metrics import best_score
from tests.conftest import ROOT
from tests.tasks.golden import queries_of

FIXTURES = ROOT / "tests" / "fixtures" / "data"


def squad(shots: int = 0) -> BoundTask:
    """Return the task on the fixture rows, under the name that people also write."""
    (task,) = Catalog.open(lm_eval=False).select(["squad_v2"]).tasks
    return bind(task, BindOptions(num_fewshot=shots, data_dir=FIXTURES))


@pytest.mark.oracle
def test_prompts_are_those_of_lm_evals_class() -> None:
    """Text, target, stop and the weighed continuation are the class's (which lm-eval 0.4.13 itself cannot run)."""
    theirs = pytest.importorskip("lm_eval.tasks.squadv2.task").SQuAD2
    rows = load_dataset(DatasetSpec("lighteval/squad_v2"), FIXTURES).splits["validation"].to_list()
    for row, request in zip(rows, squad().requests(), strict=True):
        made = theirs.construct_requests(SimpleNamespace(), row, theirs.doc_to_text(None, row), metadata=("", 0, 1))
        expected = [
            [query.args[0], query.args[1]["until"] if isinstance(query.args[1], dict) else query.args[1]]
            for query in made
        ]
        assert queries_of(request) == expected
        assert theirs.doc_to_target(None, row) == f" {request.target}"


def test_a_shot_says_unanswerable() -> None:
    """A shot without an answer shows the word that is weighed."""
    texts = [segment for request in squad(shots=3).requests() for segment in request.segments[:-1]]
    assert any(text.endswith("Answer: unanswerable\n\n") for text in texts)
    assert all(text.startswith("Title: ") for text in texts)


def test_the_eight_numbers_by_hand() -> None:
    """One question right, one half right, one that has no answer and got one; withholding it is the best threshold."""
    rows = [{"text": ["blue"]}, {"text": ["red car"]}, {"text": []}]
    answers = [("blue", 0.1), ("red van", 0.2), ("green", 0.7)]
    found = [
        squad_results({"answers": row}, [text, (math.log(p), False)])
        for row, (text, p) in zip(rows, answers, strict=True)
    ]
    assert [one["exact"] for one in found] == [1.0, 0.0, 0.0]
    assert [one["f1"] for one in found] == [1.0, 0.5, 0.0]
    assert [one["HasAns_f1"] for one in found] == [1.0, 0.5, None]
    assert [one["NoAns_exact"] for one in found] == [None, None, 0.0]
    assert best_score([one["best_exact"] for one in found]) == pytest.approx(2 / 3)
    assert best_score([one["best_f1"] for one in found]) == pytest.approx(2.5 / 3)


def test_what_is_weighed_goes_past_the_filters() -> None:
    """The request holds both asks, and its scores come of the text and the log-likelihood together."""
    bound = squad()
    sample = bound.samples()[0]
    request = bound.request(sample)
    outputs = [
        Output(request.id, 0, text=sample.row["answers"]["text"][0]),
        Output(request.id, 1, total_nats=-2.0, is_greedy=False),
    ]
    scores = {score.metric: score for score in bound.score(request, sample, outputs)}
    assert scores["exact"].value == 1.0
    assert scores["best_f1"].parts == (1.0, pytest.approx(math.exp(-2.0)), True, True)


def test_only_a_written_answer_has_one_beside_it() -> None:
    """The key is refused where the task weighs continuations anyway."""
    spec = {
        "task": "t",
        "dataset_path": "json",
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "q",
        "also_loglikelihood": " no",
    }
    with pytest.raises(DataError, match="also_loglikelihood is ' no'"):
        task_from_spec(spec, FIXTURES / "t.yaml", "user")


def test_drops_rows_and_scores() -> None:
    """Rows keep what prompts need with each different answer once; the best of the readers' answers counts."""
    nothing = {"day": "", "month": "", "year": ""}
    row = {
        "query_id": "q",
        "passage": "p",
        "question": "?",
        "answer": {"number": "3", "date": nothing, "spans": []},
        "validated_answers": {"number": ["3", ""], "date": [nothing, nothing], "spans": [[], ["a red", "b"]]},
    }
    (made,) = drop_rows([row])
    assert made["answers"] == [["3"], ["a red", "b"]]
    assert drop_results(made, ["red"]) == {"em": 0.0, "f1": 0.5}
    assert drop_results(made, ["3.0"]) == {"em": 1.0, "f1": 1.0}
