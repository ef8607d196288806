"""A task with other filters and metrics: names of its own items, and scores that stored answers do not allow."""

from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.errors import PlanError, UnknownName, UsageError
from assaymark.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Request
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.rescoring import read_item, refuse_inapplicable, with_scoring
from assaymark.tasks.task import FunctionRef, Task

WRITTEN = GenerateQuery(0, GenerationSettings())
LAST = {"name": "last", "filter": [{"function": "take_first"}]}


def task_named(name: str) -> Task:
    """Return one task of the library."""
    (task,) = Catalog.open(lm_eval=False).select([name]).tasks
    return task


def request(*queries: GenerateQuery | LoglikelihoodQuery) -> Request:
    """Return a stored request with these queries."""
    return Request("any", 0, "sha256:0", ("prompt",), queries)


def test_names_refer_to_the_tasks_own_items() -> None:
    """A filter's name includes its steps, a metric's name its options, overridden by new ones."""
    task = task_named("gsm8k")
    made = with_scoring(task, ["flexible-extract"], [{"metric": "exact_match", "ignore_case": False}])
    assert [each.name for each in made.filters] == ["flexible-extract"]
    assert made.filters[0] == task.filters[1]
    assert made.metrics[0].kwargs == {**task.metrics[0].kwargs, "ignore_case": False}
    assert made.spec_hash != task.spec_hash
    assert with_scoring(task, [], []) is task


def test_a_metric_that_is_a_function_is_named_by_its_score() -> None:
    """pass@1 is the task's own pass_at_k, and another k overrides its own."""
    task = task_named("humaneval")
    assert with_scoring(task, [], ["pass@1"]).metrics == task.metrics
    made = with_scoring(task, [], [{"metric": "pass_at_k", "k": [2, 5]}])
    assert [metric.name for metric in made.metrics] == ["pass@2", "pass@5"]


def test_unknown_filters_get_the_nearest() -> None:
    """The error about a misspelt name lists the task's own."""
    with pytest.raises(UnknownName, match="nearest: strict-match"):
        with_scoring(task_named("gsm8k"), ["strict-mach"], [])


def test_items_are_read_from_text_and_files(tmp_path: Path) -> None:
    """A name is itself, braces are YAML, and a file may contain the item; a list is an error."""
    path = tmp_path / "last.yaml"
    path.write_text("name: last\nfilter:\n  - {function: take_first}\n")
    assert read_item("acc_norm", "--metric") == "acc_norm"
    assert read_item("{name: last, filter: [{function: take_first}]}", "--filter") == LAST
    assert read_item(str(path), "--filter") == LAST
    path.write_text("- name: last\n")
    with pytest.raises(UsageError, match="is not a mapping"):
        read_item(str(path), "--filter")


def test_the_stored_kind_of_answer_decides() -> None:
    """Generated answers have no choice's likelihood; an additional log-likelihood query does not matter."""
    refuse_inapplicable(task_named("gsm8k"), request(WRITTEN, LoglikelihoodQuery(1, " yes")))
    with pytest.raises(PlanError, match=r"output_type multiple_choice, and .* the kind generate_until"):
        refuse_inapplicable(task_named("mmlu_anatomy"), request(WRITTEN))
    own = replace(task_named("gsm8k"), python_class=FunctionRef("task.Own", None))
    with pytest.raises(PlanError, match="a Python class that scores by itself"):
        refuse_inapplicable(own, request(WRITTEN))
