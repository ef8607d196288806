"""Outlines and worked samples of tasks."""

from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import DataError
from assaymark.records import RollingQuery
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.describe import made_up_outputs, outline_task, work_sample
from assaymark.tasks.python_tasks import bind
from tests.tasks.folders import task_spec, write_task


def test_a_library_task_has_card_prompt_and_worked_sample(shared_dir: Path) -> None:
    """TruthfulQA's card names its six hidden shots; a made-up answer is scored by the real code."""
    (task,) = Catalog.open(lm_eval=False).select(["truthfulqa_mc1"]).tasks
    worked, outline = work_sample(bind(task, BindOptions(data_dir=shared_dir / "data"))), outline_task(task)
    assert outline.card is not None
    assert (worked.n_samples, worked.n_shots, worked.hidden_shots) == (817, 0, 6)
    assert worked.request.prompt.endswith("\nA:")
    assert len(worked.outputs) == len(worked.request.queries)
    assert {score.metric for score in worked.scores} >= {"acc"}
    assert worked.failure is None
    assert "log-likelihood per choice" in outline.request_type


def test_hidden_shots_are_counted_without_a_card(tmp_path: Path) -> None:
    """Answered examples in the question's own text are counted."""
    text = "Q: 1?\nA: one\n\nQ: 2?\nA: two\n\nQ: {{question}}\nA:"
    path = write_task(tmp_path, task_spec("hidden_sums", doc_to_text=text))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    worked = work_sample(bind(task, BindOptions(num_fewshot=2)), position=1)
    assert outline_task(task).card is None
    assert (worked.hidden_shots, worked.n_shots, worked.sample.index) == (2, 2, 1)
    with pytest.raises(DataError, match="there is no sample 8"):
        work_sample(bind(task, BindOptions()), position=8)


def test_a_card_of_the_family_is_found(tmp_path: Path) -> None:
    """A task without a card of its own has that of a prefix of its name; a card must be a mapping."""
    path = write_task(tmp_path, task_spec("sums_of_two"))
    (tmp_path / "sums.card.yaml").write_text("title: Sums\nhidden_shots: 4\n")
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    assert outline_task(task).card == {"title": "Sums", "hidden_shots": 4}
    assert work_sample(bind(task, BindOptions())).hidden_shots == 4
    (tmp_path / "sums_of_two.card.yaml").write_text("- no\n")
    with pytest.raises(DataError, match="the card contains list; expected keys and values"):
        outline_task(task)


def test_filters_and_formulas_are_spelled_out(tmp_path: Path) -> None:
    """Filters show their regular expressions, metrics their formulas and options."""
    changes: dict[str, Any] = {
        "output_type": "generate_until",
        "doc_to_choice": ...,
        "doc_to_target": "text",
        "metric_list": [{"metric": "exact_match", "ignore_case": True}],
        "filter_list": [{"name": "n", "filter": [{"function": "regex", "regex_pattern": "[0-9]+"}]}],
    }
    path = write_task(tmp_path, task_spec(**changes))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    outline = outline_task(task)
    assert outline.filters[0].steps == ("regex(regex_pattern='[0-9]+')",)
    (metric,) = outline.metrics
    assert (metric.name, metric.options, metric.aggregation) == ("exact_match", {"ignore_case": True}, "mean")
    assert "after the filters" in metric.formula
    assert work_sample(bind(task, BindOptions())).outputs[0].text == "2"


def test_own_functions_are_named_as_the_formula(tmp_path: Path) -> None:
    """Where the task scores itself, the formula is its function's name; an error in it is shown, not raised."""
    (tmp_path / "own.py").write_text("def score(doc, results): return {'acc': 1.0}\n")
    path = write_task(tmp_path, task_spec(process_results="!function own.score"))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    assert outline_task(task).metrics[0].formula == "computed by the task's function own.score"
    assert [score.value for score in work_sample(bind(task, BindOptions())).scores] == [1.0]


def test_made_up_answers_are_the_same_each_time(tmp_path: Path) -> None:
    """The worked sample's answers depend only on the request."""
    path = write_task(
        tmp_path,
        task_spec(output_type="loglikelihood_rolling", doc_to_choice=..., metric_list=..., doc_to_target="text"),
    )
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    request = next(bind(task, BindOptions()).requests())
    assert isinstance(request.queries[0], RollingQuery)
    assert made_up_outputs(request) == made_up_outputs(request)
    assert made_up_outputs(request)[0].total_nats == -0.25
