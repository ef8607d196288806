"""Every metric is declared completely, computed as declared, and known by its declaration alone."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.results.evidence.summarise import summarise
from assaymark.runs.explain import explain_metric
from assaymark.scoring import metrics
from assaymark.scoring.call_match import CallMatchRules, score_calls
from assaymark.scoring.choices import ChoiceAnswer, score_choices, score_rotations
from assaymark.scoring.generation import score_generation
from assaymark.scoring.loglikelihood import score_loglikelihood, score_rolling
from assaymark.scoring.metric import (
    GENERATE,
    LOGLIKELIHOOD,
    MULTIPLE_CHOICE,
    ROLLING,
    ROTATIONS,
    SIMULATED,
    TOOL_CALLS,
    Metric,
    ScoreValue,
    facts_of,
    metric,
)
from assaymark.scoring.metrics import (
    accuracies_over_choices,
    aggregation_of,
    computations,
    context_without_question,
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
    needs_every_choice,
    own_metrics,
    preferred_names,
)
from assaymark.scoring.simulated_calls import ConversationAnswer
from assaymark.statistics.aggregate import AGGREGATIONS
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.task_index import why_not_runnable
from assaymark.tasks.yaml_files import read_suite
from tests.results.made import choice_rows

SOURCE = Path(__file__).parents[2] / "src" / "assaymark"
LIBRARY = SOURCE / "library"
OUTPUT_TYPES = (MULTIPLE_CHOICE, LOGLIKELIHOOD, ROLLING, GENERATE, TOOL_CALLS, SIMULATED)


@pytest.mark.parametrize("declared", own_metrics(), ids=lambda declared: declared.name)
def test_a_declaration_is_consistent(declared: Metric) -> None:
    """A metric has a formula, a direction, a range and a known aggregation, and is a default only where it is computed.

    A share lies within [0, 1], but for those that lm-eval's files have in per cent.
    """
    assert declared.aggregation in AGGREGATIONS
    assert len(declared.formula) > 10
    assert isinstance(declared.higher_is_better, bool)
    least, most = declared.value_range
    assert least < most
    assert declared.scale == "number" or (least, most) in {(0.0, 1.0), (0.0, 100.0)}
    assert set(declared.default_for) <= set(declared.output_types) <= set(OUTPUT_TYPES)
    assert {kind for kind, _ in declared.formulas} <= set(declared.of)
    assert not (declared.is_auxiliary and declared.output_types)
    if declared.length is not None or "unconditional" in declared.needs:
        assert declared.picks_choice


def test_facts_that_declarations_of_one_name_share_are_equal() -> None:
    """What is declared for several kinds of answers means the same: direction, scale and aggregation."""
    for kind in OUTPUT_TYPES:
        for name in names_for(kind):
            declared, main = metrics.declared_for(name, kind), find_metric(name)
            assert declared is not None
            assert main is not None
            for fact in ("higher_is_better", "scale", "aggregation", "bounds", "in_lm_eval"):
                assert getattr(declared, fact) == getattr(main, fact), (name, kind, fact)


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
        case "simulated conversation":
            made: ScoreValue = computations(SIMULATED)[name](ConversationAnswer(["f()"], ["1"], None))
            return made
        case "rotations":
            return score_rotations([[-1.0, -2.0], [-2.0, -1.0]], ["A", "B"], 0)[name]
    return score_generation("yes", "yes", {name: {}})[name]


@pytest.mark.parametrize(
    ("output_type", "name"), [(kind, name) for kind in (*OUTPUT_TYPES, ROTATIONS) for name in names_for(kind)]
)
def test_every_declared_metric_is_computed(output_type: str, name: str) -> None:
    """`scoring` computes each metric of each kind of answer that it is declared for: a value, or parts to aggregate."""
    score = computed(output_type, name)
    declared = find_metric(name)
    assert declared is not None
    has_none = declared.compares_nothing or metrics.is_graded_by_model(name)  # until the grader is asked
    assert (score.value is None and score.parts is None) is has_none
    if declared.scale == "right or wrong":
        assert score.value in {0.0, 1.0}
    if declared.aggregation == "mean" and score.value is not None:
        least, most = declared.value_range
        assert least <= score.value <= most


def test_unlisted_scores_of_choices_are_auxiliary() -> None:
    """Exactly the scores that no task lists are auxiliary."""
    beside = score_choices([-1.0, -2.0], [True, False], None, ["a", "b"], 0, [])
    assert set(beside) == {metric.name for metric in own_metrics() if metric.is_auxiliary}


def library_metrics() -> Iterator[tuple[str, str, str]]:
    """Yield (where, task's output type, metric) of everything in the library that names a metric."""
    names = set(library_tasks())
    for task in Catalog.open(lm_eval=False).select(sorted(names)).tasks:
        yield from ((task.name, task.output_type, metric.name) for metric in task.metrics)
    for path in sorted((LIBRARY / "suites").glob("*.yaml")):
        members = [
            member for member in read_suite(path).members if not member.task.startswith("helm_") or member.task in names
        ]
        yield from ((path.name, "", metric) for member in members for metric in member.metrics)
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


def test_every_metric_of_the_library_is_known() -> None:
    """Every metric that a task, suite or card of the library names is known."""
    results = list(library_metrics())
    assert len(results) > 300
    assert sorted({(where, name) for where, _, name in results if find_metric(name) is None}) == []


def test_every_metric_of_the_library_has_a_formula() -> None:
    """`explain` has a formula for each of them."""
    assert sorted({name for _, output_type, name in library_metrics() if not formula_of(name, output_type)}) == []


# ------------------------------------------------------------------------------- nothing else knows a metric's name


@pytest.fixture
def new_metric(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metric]:
    """Declare one more metric of choices, as if a module of `scoring` had it; the caches are emptied around it."""

    @metric(
        of=MULTIPLE_CHOICE,
        formula="the probability of the last choice",
        higher_is_better=False,
        is_default=True,
        preference=99,
    )
    def last_probability(answer: ChoiceAnswer) -> ScoreValue:
        return ScoreValue(float(answer.probabilities[-1]))

    def forget() -> None:
        for name in vars(metrics):
            if hasattr(vars(metrics)[name], "cache_clear") and name != "_declared":
                vars(metrics)[name].cache_clear()

    facts = facts_of(last_probability)
    assert facts is not None
    forget()
    declared = (*metrics._declared(), (facts, last_probability))
    with monkeypatch.context() as patch:
        patch.setattr(metrics, "_declared", lambda: declared)
        yield facts
    forget()


def test_a_declaration_is_all_that_a_metric_needs(new_metric: Metric) -> None:
    """It is listed, looked up, explained, computed, accepted in task files and summarised by its declaration alone."""
    assert names_for(MULTIPLE_CHOICE)[-1] == new_metric.name
    assert new_metric.name in defaults_for(MULTIPLE_CHOICE)
    assert preferred_names()[-1] == new_metric.name
    assert not is_higher_better(new_metric.name)
    assert metric_item(new_metric.name) == {
        "metric": "last_probability",
        "aggregation": "mean",
        "higher_is_better": False,
    }
    explanation = explain_metric(new_metric.name)
    assert explanation is not None
    assert explanation["formula"] == "the probability of the last choice"
    spec = {"task": "t", "output_type": "multiple_choice", "metric_list": [{"metric": new_metric.name}]}
    assert why_not_runnable(spec) is None
    score = score_choices([0.0, 0.0], [False, False], None, ["a", "b"], 0, [new_metric.name])[new_metric.name]
    assert score.value == pytest.approx(0.5)
    rows = [replace(row, metric=new_metric.name, value=0.5, detail=None) for row in choice_rows("t", [1.0, 0.0, 1.0])]
    (estimate,) = summarise(rows, [TaskSummaryInput("t", (MetricInput(new_metric.name),))], bootstrap_iters=0)
    assert (estimate.value, estimate.details["unit"]) == (0.5, "proportion")


def test_which_module_is_imported_first_decides_nothing() -> None:
    """The facts of `acc` and `exact_match`, each declared twice, and the order of names are those of the list."""
    for first in ("loglikelihood", "choices", "uncomputed", "call_match"):
        code = (
            f"import assaymark.scoring.{first}; from assaymark.scoring.metrics import find_metric, own_metrics; "
            "print([m.name for m in own_metrics()], find_metric('acc'), find_metric('exact_match'))"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        own = [each.name for each in own_metrics()]
        assert ended.stdout == f"{own} {find_metric('acc')} {find_metric('exact_match')}\n"


# -------------------------------------------------------------------------------------------- look-ups


def test_defaults_are_lm_evals() -> None:
    """A task file without metrics has the defaults of lm-eval 0.4.13."""
    assert {kind: defaults_for(kind) for kind in OUTPUT_TYPES} == {
        "multiple_choice": ("acc", "acc_norm"),
        "loglikelihood": ("perplexity", "acc"),
        "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
        "generate_until": ("exact_match",),
        "tool_calls": (),
        "simulated conversation": (),
    }


@pytest.mark.oracle
def test_aggregation_and_direction_are_lm_evals() -> None:
    """Each metric that lm-eval registers has the aggregation and direction it has there."""
    pytest.importorskip("lm_eval.api.metrics")
    registry = pytest.importorskip("lm_eval.api.registry")
    for declared in own_metrics():
        if declared.in_lm_eval:
            theirs = registry.get_metric_aggregation(declared.name)
            assert theirs is registry.get_aggregation(declared.aggregation), declared.name
            if declared.name != "bypass":
                assert bool(registry.is_higher_better(declared.name)) is declared.higher_is_better, declared.name


def test_unknown_metrics_are_means_of_which_higher_is_better() -> None:
    """For an unknown name, only the words in it decide."""
    assert find_metric("made_up") is None
    assert (aggregation_of("made_up"), is_higher_better("made_up"), formula_of("made_up", GENERATE)) == (
        "mean",
        True,
        None,
    )
    for name in ("wer", "error_rate", "val_loss", "hallucination_rate", "latency_ms"):
        assert not is_higher_better(name), name
    assert is_higher_better("error_accuracy")
    assert not any(known("made_up") for known in (is_auxiliary, is_number, is_right_or_wrong))
    assert context_without_question("made_up") is None
    assert [may_be_share(name) for name in ("made_up", "my_loss", "ECE", "loss_acc")] == [True, False, False, True]


def test_pass_at_k_is_declared_once() -> None:
    """pass@1 and pass@10 are described by the facts of pass@k."""
    result = find_metric("pass@10")
    assert result is not None
    assert (result.name, result.is_share, find_metric("pass@x")) == ("pass@10", True, None)


def test_acc_tokens_is_an_accuracy_like_the_others() -> None:
    """It is a right-or-wrong accuracy with a formula, comparable with the others."""
    assert is_right_or_wrong("acc_tokens")
    assert formula_of("acc_tokens", MULTIPLE_CHOICE) == (
        "as acc, each log-likelihood divided by the number of tokens of its choice"
    )
    assert set(accuracies_over_choices()) >= {"acc", "acc_norm", "acc_bytes", "acc_tokens", "acc_mutual_info"}
    assert accuracies_over_choices(without=("unconditional", "token counts")) == ("acc_norm", "acc", "acc_bytes")
    assert context_without_question("acc_mutual_info") == ""
    assert context_without_question("acc_calibrated") == "Answer:"
    assert needs_every_choice("brier")
    assert not needs_every_choice("acc")
    assert context_without_question("acc_tokens") is None


def test_preference_is_an_order() -> None:
    """The primary metric of a task is decided by distinct numbers, acc_norm first."""
    preferences = [metric.preference for metric in own_metrics() if metric.preference is not None]
    assert sorted(preferences) == list(range(1, len(preferences) + 1))
    assert preferred_names()[:3] == ("acc_norm", "exact_match", "acc")


def test_an_item_is_as_in_task_files() -> None:
    """`metric_item` returns an item as in a task file's metric_list."""
    assert metric_item("acc") == {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
