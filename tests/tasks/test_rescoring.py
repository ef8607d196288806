"""A task with other filters and metrics: what its own names stand for, and what its stored answers cannot give."""

from dataclasses import replace
from pathlib import Path

import pytest

from evalstone.errors import PlanError, UnknownName, UsageError
from evalstone.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Request
from evalstone.tasks.catalog import Catalog
from evalstone.tasks.rescoring import read_item, refuse_inapplicable, with_scoring
from evalstone.tasks.task import FunctionRef, Task

WRITTEN = GenerateQuery(0, GenerationSettings())
LAST = {"name": "last", "filter": [{"function": "take_first"}]}


def task_named(name: str) -> Task:
    """Return one task of the library."""
    (task,) = Catalog.open(lm_eval=False).select([name]).tasks
    return task


def request(*queries: GenerateQuery | LoglikelihoodQuery) -> Request:
    """Return a stored request with these asks."""
    return Request("any", 0, "sha256:0", ("prompt",), queries)


def test_own_names_stand_for_the_tasks_own_items() -> None:
    """A filter's name brings its steps, a metric's name its options, with new ones over them."""
    task = task_named("gsm8k")
    made = with_scoring(task, ["flexible-extract"], [{"metric": "exact_match", "ignore_case": False}])
    assert [one.name for one in made.filters] == ["flexible-extract"]
    assert made.filters[0] == task.filters[1]
    assert made.metrics[0].kwargs == {**task.metrics[0].kwargs, "ignore_case": False}
    assert made.spec_hash != task.spec_hash
    assert with_scoring(task, [], []) is task


def test_a_metric_that_is_a_function_is_named_by_its_score() -> None:
    """pass@1 is the task's own pass_at_k, and other k go over it."""
    task = task_named("humaneval")
    assert with_scoring(task, [], ["pass@1"]).metrics == task.metrics
    made = with_scoring(task, [], [{"metric": "pass_at_k", "k": [2, 5]}])
    assert [metric.name for metric in made.metrics] == ["pass@2", "pass@5"]


def test_unknown_filters_get_the_nearest() -> None:
    """A mistyped name is answered with the task's own."""
    with pytest.raises(UnknownName, match="nearest: strict-match"):
        with_scoring(task_named("gsm8k"), ["strict-mach"], [])


def test_items_are_read_from_text_and_files(tmp_path: Path) -> None:
    """A name is itself, braces are YAML, and a file may hold the item; a list is none."""
    path = tmp_path / "last.yaml"
    path.write_text("name: last\nfilter:\n  - {function: take_first}\n")
    assert read_item("acc_norm", "--metric") == "acc_norm"
    assert read_item("{name: last, filter: [{function: take_first}]}", "--filter") == LAST
    assert read_item(str(path), "--filter") == LAST
    path.write_text("- name: last\n")
    with pytest.raises(UsageError, match="is no mapping"):
        read_item(str(path), "--filter")


def test_the_stored_kind_of_answer_decides() -> None:
    """Written answers give no choice's likelihood; a continuation weighed beside them does not stand in the way."""
    refuse_inapplicable(task_named("gsm8k"), request(WRITTEN, LoglikelihoodQuery(1, " yes")))
    with pytest.raises(PlanError, match=r"output_type multiple_choice, and .* the kind generate_until"):
        refuse_inapplicable(task_named("mmlu_anatomy"), request(WRITTEN))
    own = replace(task_named("gsm8k"), python_class=FunctionRef("task.Own", None))
    with pytest.raises(PlanError, match="a Python class that scores by itself"):
        refuse_inapplicable(own, request(WRITTEN))
