"""The task format: every key lm-eval's tasks use, and clear errors for unknown ones."""

from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import DataError
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.task import FilterStep, FunctionRef, Task
from tests.tasks.folders import bound, task_spec

HERE = Path("/tasks/sums.yaml")


def read(**changes: Any) -> Task:
    """Return the small task with some keys changed."""
    return task_from_spec(task_spec(**changes), HERE, "user")


def test_defaults_are_lm_evals() -> None:
    """Omitted keys have the harness's defaults."""
    task = read(output_type=..., doc_to_choice=..., metric_list=..., metadata=...)
    assert (task.output_type, task.version, task.num_fewshot, task.repeats) == ("generate_until", "Yaml", None, 1)
    assert (task.prompt.target_delimiter, task.prompt.fewshot_delimiter) == (" ", "\n\n")
    assert [metric.name for metric in task.metrics] == ["exact_match"]
    assert task.filters[0].name == "none"
    assert task.filters[0].steps == (FilterStep("take_first"),)
    assert (task.fewshot.sampler, task.fewshot.split, task.splits.evaluated) == ("default", None, "test")


@pytest.mark.parametrize(
    ("output_type", "names", "aggregations"),
    [
        ("multiple_choice", ["acc", "acc_norm"], ["mean", "mean"]),
        ("loglikelihood", ["perplexity", "acc"], ["perplexity", "mean"]),
        (
            "loglikelihood_rolling",
            ["word_perplexity", "byte_perplexity", "bits_per_byte"],
            ["weighted_perplexity", "weighted_perplexity", "bits_per_byte"],
        ),
    ],
)
def test_default_metrics(output_type: str, names: list[str], aggregations: list[str]) -> None:
    """Without metric_list each output type has its own metrics, and perplexities are better when lower."""
    metrics = read(output_type=output_type, metric_list=...).metrics
    assert [metric.name for metric in metrics] == names
    assert [metric.aggregation for metric in metrics] == aggregations
    assert [metric.higher_is_better for metric in metrics] == ["acc" in name for name in names]


def test_metrics_filters_and_functions() -> None:
    """Metrics and filters have their options; the name of a function is the metric's."""
    own = FunctionRef("utils.score", None)
    task = read(
        metric_list=[
            {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True},
            {"metric": own, "aggregation": FunctionRef("utils.total", None), "hf_evaluate": True},
        ],
        filter_list=[{"name": "strict", "filter": [{"function": "regex", "regex_pattern": "x"}, {"function": own}]}],
    )
    first, second = task.metrics
    assert first.kwargs == {"ignore_case": True}
    assert first.filters == ("strict",)
    assert (second.name, second.function, second.kwargs) == ("score", own, {})
    assert task.filters[0].steps == (FilterStep("regex", {"regex_pattern": "x"}), FilterStep(own))


def test_fewshot_settings_are_inherited_and_overridden() -> None:
    """Shots are formatted like the task, except for the keys of fewshot_config."""
    task = read(
        fewshot_split="train",
        gen_prefix="So",
        target_delimiter="",
        fewshot_config={"sampler": "first_n", "doc_to_text": "{{q}}", "fewshot_delimiter": "\n", "gen_prefix": None},
    )
    shots = task.fewshot
    assert (shots.sampler, shots.split) == ("first_n", "train")
    assert (shots.prompt.text, shots.prompt.choice) == ("{{q}}", "choices")
    assert (shots.prompt.target_delimiter, shots.prompt.fewshot_delimiter) == ("", "\n")
    assert (shots.prompt.gen_prefix, task.prompt.gen_prefix) == (None, "So")
    assert read(fewshot_config={"split": "dev"}, fewshot_split="train").fewshot.split == "dev"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_to_txt": "x"}, r"sums\.yaml: unknown key 'doc_to_txt' with value 'x'; nearest known key: doc_to_text"),
        ({"output_type": "choice"}, r"output_type is 'choice'; expected loglikelihood or"),
        ({"num_fewshot": "5"}, r"num_fewshot is '5'; expected number"),
        ({"num_fewshot": True}, r"num_fewshot is True; expected number"),
        ({"metric_list": "acc"}, r"metric_list is 'acc'; expected list"),
        ({"metric_list": [{"name": "acc"}]}, r"metric_list is .*expected items such as `metric: acc`"),
        ({"metric_list": [{"metric": "bleu", "aggregation": "mean"}]}, "bleu.aggregation is 'mean'; expected bleu"),
        ({"metric_list": [{"metric": "acc", "higher_is_better": "no"}]}, "higher_is_better is 'no'; expected true or"),
        ({"filter_list": [{"name": "x"}]}, r"filter_list is .*expected items with `name` and `filter`"),
        ({"filter_list": [{"name": "x", "filter": ["y"]}]}, r"filter_list\.x is 'y'; expected steps"),
        (
            {"fewshot_config": {"sampler": "balanced"}},
            r"fewshot_config\.sampler is 'balanced'; expected default, first_n",
        ),
        ({"fewshot_config": {"sample": []}}, r"unknown key 'fewshot_config\.sample'.*nearest known key: samples"),
        ({"dataset_path": ...}, r"dataset_path is None; expected a Hub name"),
        ({"test_split": ...}, r"test_split is None; expected test_split or validation_split"),
        ({"process_docs": "utils.f"}, r"process_docs is 'utils\.f'; expected !function"),
        ({"task": ...}, r"task is None; expected the task's name"),
        ({"class": "x"}, r"class is 'x'; expected !function"),
    ],
)
def test_faults_name_file_key_value_and_expectation(changes: dict[str, Any], message: str) -> None:
    """An error in a task file is one line with file, key, value and what was expected."""
    with pytest.raises(DataError, match=message):
        read(**changes)


def test_the_hash_covers_content_and_no_path(tmp_path: Path) -> None:
    """Editing a key or a helper's bytes changes the hash; moving the folder does not."""
    hashes = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "utils.py").write_text("def f(rows): return rows\n")
        function = FunctionRef("utils.f", tmp_path / folder / "utils.py")
        hashes.add(task_from_spec(task_spec(process_docs=function), tmp_path / folder / "t.yaml", "user").spec_hash)
    assert len(hashes) == 1
    (tmp_path / "b" / "utils.py").write_text("def f(rows): return rows[:1]\n")
    changed = task_from_spec(
        task_spec(process_docs=FunctionRef("utils.f", tmp_path / "b" / "utils.py")), tmp_path / "t.yaml", "user"
    )
    assert changed.spec_hash not in hashes
    assert read().spec_hash != read(description="x").spec_hash == read(description="x").spec_hash


def test_a_conversation_has_only_turns() -> None:
    """doc_to_turns replaces doc_to_text, and excludes shots, repeats, choices and gen_prefix."""
    turns = {"doc_to_text": ..., "doc_to_choice": ..., "metric_list": [], "output_type": "generate_until"}
    task = read(doc_to_turns="said", **turns)
    assert (task.prompt.turns, task.prompt.text, task.num_fewshot, task.metrics) == ("said", None, 0, ())
    for key, value in (("num_fewshot", 2), ("repeats", 4), ("gen_prefix", "Well,"), ("doc_to_text", "said")):
        with pytest.raises(DataError, match=f"{key} is .*with doc_to_turns"):
            read(doc_to_turns="said", **{**turns, key: value})
    with pytest.raises(DataError, match="output_type is 'multiple_choice'"):
        read(doc_to_turns="said", doc_to_text=...)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_fewshot": -3}, "num_fewshot is -3; expected a whole number from 0"),
        ({"fewshot_config": {"samples": [None]}}, r"fewshot_config\.samples is \[None\]; expected a list of rows"),
        ({"dataset_kwargs": {"data_files": [None]}}, r"data_files is \[None\]; expected a file"),
        ({"include": "a\0b"}, "include names 'a\0b', which is not a file"),
        ({"tag": 5}, "tag is 5; expected text or list"),
    ],
)
def test_invalid_values_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """A negative number of shots, shots that are no rows, and absent files are errors of the task file."""
    with pytest.raises(DataError, match=message):
        bound(tmp_path, **changes)
