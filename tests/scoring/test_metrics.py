"""The table of metrics is complete, its rows are computed, and no other file lists metrics."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from assaymark.scoring.call_match import CallMatchRules, score_calls
from assaymark.scoring.choices import score_choices
from assaymark.scoring.generation import score_generation
from assaymark.scoring.loglikelihood import score_loglikelihood, score_rolling
from assaymark.scoring.metrics import (
    GENERATE,
    LOGLIKELIHOOD,
    METRICS,
    MULTIPLE_CHOICE,
    ROLLING,
    TOOL_CALLS,
    Metric,
    accuracies_over_choices,
    aggregation_of,
    defaults_for,
    find_metric,
    formula_of,
    is_auxiliary,
    is_higher_better,
    is_number,
    is_right_or_wrong,
    may_be_share,
    metric_item,
    names_for,
    needs_unconditional,
    preferred_names,
)
from assaymark.scoring.values import ScoreValue
from assaymark.statistics.aggregate import AGGREGATIONS
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.yaml_files import read_suite

SOURCE = Path(__file__).parents[2] / "src" / "assaymark"
TABLE = {SOURCE / "scoring" / f"{name}.py" for name in ("metric", "metric_table", "metrics")}
LIBRARY = SOURCE / "library"
OUTPUT_TYPES = (MULTIPLE_CHOICE, LOGLIKELIHOOD, ROLLING, GENERATE, TOOL_CALLS)
NAMES = {metric.name for metric in METRICS}
WORDS = {"accuracy", "brier", "confidence", "exact", "likelihood"}  # also used in headings and the like


def test_names_are_unique() -> None:
    """No metric has two rows."""
    assert len(NAMES) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_row_is_consistent(metric: Metric) -> None:
    """A row names a known aggregation, has a formula, and is a default only where it is computed."""
    assert metric.aggregation in AGGREGATIONS
    assert metric.formula
    assert set(metric.default_for) <= set(metric.output_types) <= set(OUTPUT_TYPES)
    assert {output_type for output_type, _ in metric.formulas} <= set(metric.output_types)
    assert not (metric.is_auxiliary and metric.output_types)
    if metric.length is not None or metric.needs:
        assert metric.picks_choice


def computed(output_type: str, name: str) -> ScoreValue:
    """Return a metric's score of one made-up sample, by the real scoring of its output type."""
    match output_type:
        case "multiple_choice":
            return score_choices([-1.0, -2.0], [True, False], [-1.0, -1.0], ["a", "bcd"], 0, [name], [1, 2])[name]
        case "loglikelihood":
            return score_loglikelihood(-1.0, True, [name])[name]
        case "loglikelihood_rolling":
            return score_rolling(-3.0, "three words here", [name])[name]
        case "tool_calls":
            return score_calls('{"name": "f"}', (), [], [name], CallMatchRules())[0][name]
    return score_generation("yes", "yes", {name: {}})[name]


@pytest.mark.parametrize(("output_type", "name"), [(kind, name) for kind in OUTPUT_TYPES for name in names_for(kind)])
def test_every_row_is_computed(output_type: str, name: str) -> None:
    """`scoring` computes each metric for each output type that its row names: a value, or parts to aggregate."""
    score = computed(output_type, name)
    assert (score.value is None and score.parts is None) is (name == "bypass")
    row = find_metric(name)
    assert row is not None
    if row.scale == "right or wrong":
        assert score.value in {0.0, 1.0}


def test_unlisted_scores_of_choices_are_auxiliary() -> None:
    """Exactly the scores that no task lists are auxiliary in the table."""
    beside = score_choices([-1.0, -2.0], [True, False], None, ["a", "b"], 0, [])
    assert set(beside) == {metric.name for metric in METRICS if metric.is_auxiliary}


def library_metrics() -> Iterator[tuple[str, str, str]]:
    """Yield (where, task's output type, metric) of everything in the library that names a metric."""
    for task in Catalog.open(lm_eval=False).select(library_tasks()).tasks:
        yield from ((task.name, task.output_type, metric.name) for metric in task.metrics)
    for path in sorted((LIBRARY / "suites").glob("*.yaml")):
        yield from ((path.name, "", metric) for member in read_suite(path).members for metric in member.metrics)
    for path in sorted(LIBRARY.rglob("*.card.yaml")):
        yield from (
            (path.name, "", name) for name in re.findall(r"^primary_metric: *(\S+)", path.read_text(), re.MULTILINE)
        )


def library_tasks() -> list[str]:
    """Return the names of every task of the library."""
    return [
        entry.name
        for entry in Catalog.open(lm_eval=False).entries()
        if entry.kind == "task" and entry.origin == "assaymark"
    ]


def test_every_metric_of_the_library_has_a_row() -> None:
    """Every metric that a task, suite or card of the library names is in the table."""
    found = list(library_metrics())
    assert len(found) > 300
    assert sorted({(where, name) for where, _, name in found if find_metric(name) is None}) == []


def test_every_metric_of_the_library_has_a_formula() -> None:
    """`explain` has a formula for each of them."""
    assert sorted({name for _, output_type, name in library_metrics() if not formula_of(name, output_type)}) == []


# --------------------------------------------------------------------------------------- the rest of the source


def source_files() -> list[Path]:
    """Return the files that may not list metrics; the library's functions return scores under the names of theirs."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if path not in TABLE and LIBRARY not in path.parents]


def constants(node: ast.AST) -> list[str]:
    """Return the texts among the items of a literal list, set or tuple, or the keys of a dict of plain values."""
    items: list[ast.expr] = []
    if isinstance(node, ast.List | ast.Set | ast.Tuple):
        items = node.elts
    elif isinstance(node, ast.Dict) and not any(isinstance(value, ast.Call) for value in node.values):
        items = [key for key in node.keys if key is not None]
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def lists_of_metrics(source: str) -> list[tuple[int, list[str]]]:
    """Return the line and names of each literal collection that holds two metrics or more."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [name for name in constants(node) if name in NAMES - WORDS]
        if len(set(names)) > 1:
            found.append((node.lineno, names))  # type: ignore[attr-defined]
    return found


def compared_literals(source: str) -> set[str]:
    """Return the texts that a file compares with something called a metric: `metric.name == "acc"`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_is_metric(side) for side in sides):
                found |= {text for side in sides for text in (constants(side) or constants(ast.Tuple([side])))}
        elif isinstance(node, ast.Match) and _is_metric(node.subject):
            found |= {
                part.value
                for case in node.cases
                for part in ast.walk(case.pattern)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
    return found


def _is_metric(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "metric" or (node.attr == "name" and _is_metric(node.value))
    return isinstance(node, ast.Name) and node.id == "metric"


def test_no_other_file_lists_metrics() -> None:
    """There is no list, set or dict of metrics anywhere else in the source."""
    found = {str(path.relative_to(SOURCE)): lists_of_metrics(path.read_text()) for path in source_files()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_every_metric_that_is_compared_has_a_row() -> None:
    """A name that the source compares a metric with is in the table."""
    found = {
        (str(path.relative_to(SOURCE)), name) for path in source_files() for name in compared_literals(path.read_text())
    }
    assert len(found) > 5
    assert sorted((path, name) for path, name in found if find_metric(name) is None) == []


def test_the_search_finds_lists_and_comparisons() -> None:
    """The two searches above find lists and comparisons in an example."""
    listed = 'KNOWN = {"acc", "acc_norm"}\nHOW = {"acc": "mean", "f1": "f1"}\nMADE = {"acc": f(1), "f1": f(2)}\n'
    assert [line for line, _ in lists_of_metrics(listed)] == [1, 2]
    assert compared_literals('score.metric == "ac"\nmetric.name in {"x"}\n') == {"ac", "x"}
    assert compared_literals('match metric:\n    case "y" | "z":\n        pass\n') == {"y", "z"}


# -------------------------------------------------------------------------------------------- look-ups


def test_defaults_are_lm_evals() -> None:
    """A task file without metrics has the defaults of lm-eval 0.4.13."""
    assert {kind: defaults_for(kind) for kind in OUTPUT_TYPES} == {
        "multiple_choice": ("acc", "acc_norm"),
        "loglikelihood": ("perplexity", "acc"),
        "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
        "generate_until": ("exact_match",),
        "tool_calls": (),
    }


@pytest.mark.oracle
def test_aggregation_and_direction_are_lm_evals() -> None:
    """Each metric that lm-eval registers has the aggregation and direction it has there."""
    pytest.importorskip("lm_eval.api.metrics")
    registry = pytest.importorskip("lm_eval.api.registry")
    for metric in METRICS:
        if metric.in_lm_eval:
            theirs = registry.get_metric_aggregation(metric.name)
            assert theirs is registry.get_aggregation(metric.aggregation), metric.name
            if metric.name != "bypass":
                assert bool(registry.is_higher_better(metric.name)) is metric.higher_is_better, metric.name


def test_unknown_metrics_are_means_of_which_higher_is_better() -> None:
    """For a name without a row, only the words in it decide."""
    assert find_metric("made_up") is None
    assert (aggregation_of("made_up"), is_higher_better("made_up"), formula_of("made_up", GENERATE)) == (
        "mean",
        True,
        None,
    )
    assert not any(known("made_up") for known in (is_auxiliary, is_number, is_right_or_wrong, needs_unconditional))
    assert [may_be_share(name) for name in ("made_up", "my_loss", "ECE", "loss_acc")] == [True, False, False, True]


def test_pass_at_k_has_one_row() -> None:
    """pass@1 and pass@10 are described by the row of pass@k."""
    found = find_metric("pass@10")
    assert found is not None
    assert (found.name, found.is_share, find_metric("pass@x")) == ("pass@10", True, None)


def test_acc_tokens_is_an_accuracy_like_the_others() -> None:
    """It is a right-or-wrong accuracy with a formula, comparable with the others."""
    assert is_right_or_wrong("acc_tokens")
    assert formula_of("acc_tokens", MULTIPLE_CHOICE) == (
        "as acc, each log-likelihood divided by the number of tokens of its choice"
    )
    assert set(accuracies_over_choices()) >= {"acc", "acc_norm", "acc_bytes", "acc_tokens", "acc_mutual_info"}
    assert accuracies_over_choices(without=("unconditional", "token counts")) == ("acc_norm", "acc", "acc_bytes")
    assert needs_unconditional("acc_mutual_info")
    assert not needs_unconditional("acc_tokens")


def test_preference_is_an_order() -> None:
    """The primary metric of a task is decided by distinct numbers, acc_norm first."""
    preferences = [metric.preference for metric in METRICS if metric.preference is not None]
    assert sorted(preferences) == list(range(1, len(preferences) + 1))
    assert preferred_names()[:3] == ("acc_norm", "exact_match", "acc")


def test_an_item_is_as_in_task_files() -> None:
    """`metric_item` returns an item as in a task file's metric_list."""
    assert metric_item("acc") == {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
