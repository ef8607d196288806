"""Exact match and its options, and metrics of a task's own."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assaymark.errors import DataError, UnknownName
from assaymark.scoring.generation import ExactMatchOptions, exact_match, is_unparsed, score_generation

GSM8K = {"ignore_case": True, "regexes_to_ignore": [",", r"\$", r"(?s).*#### ", r"\.$"]}


def test_gsm8k_options_ignore_what_the_authors_ignored() -> None:
    """1,234 equals 1234 and $5. equals 5, but 29.00 is not 29 (lm-eval issue 3214)."""
    options = ExactMatchOptions.from_mapping(GSM8K)
    assert exact_match("1,234", "x #### 1234", options) == 1.0
    assert exact_match("$5.", "5", options) == 1.0
    assert exact_match("$29.00", "29", options) == 0.0


def test_white_space_counts() -> None:
    """Exact match does not strip: filters do."""
    assert exact_match(" a", "a") == 0.0


def test_a_reference_of_another_type_is_read_as_text() -> None:
    """The number 42 in the data equals the answer "42"."""
    assert score_generation("42", 42, {"exact_match": {}})["exact_match"].value == 1.0


def test_what_a_filter_did_not_find_is_no_answer() -> None:
    """`map` returns None for a text that its table does not have; lm-eval stops there."""
    scores = score_generation(None, "18", {"exact_match": {}, "ter": {}})
    assert (scores["exact_match"].value, scores["ter"].parts) == (0.0, ("18", "[invalid]"))


def test_any_of_several_references_is_enough() -> None:
    """One match among the references gives 1, none gives 0."""
    for answer, value in (("b", 1.0), ("d", 0.0)):
        scores = score_generation(answer, ["a", "b", "c"], {"exact_match": {}}, multiple_targets=True)
        assert scores["exact_match"].value == value


def test_corpus_metrics_keep_the_pair() -> None:
    """BLEU and similar metrics are defined over the corpus: a sample's parts are (reference, prediction)."""
    scores = score_generation("answer", "reference", {"bleu": {}, "bypass": {}})
    assert (scores["bleu"].value, scores["bleu"].parts) == (None, ("reference", "answer"))
    assert scores["bypass"].value is None


def test_a_metric_of_the_tasks_own_is_called_by_keyword_or_with_a_pair() -> None:
    """Both of lm-eval's calling conventions work, and a returned mapping becomes several metrics."""

    def by_keyword(references: list[str], predictions: list[str], factor: float) -> dict[str, float]:
        return {"em": factor * float(references == predictions), "length": float(len(predictions[0]))}

    def by_pair(items: list[str]) -> tuple[str, str]:
        return items[0], items[1]

    scores = score_generation("a", "a", {"own": {"factor": 2.0}}, functions={"own": by_keyword})
    assert {name: score.value for name, score in scores.items()} == {"em": 2.0, "length": 1.0}
    assert score_generation("a", "b", {"pair": {}}, functions={"pair": by_pair})["pair"].parts == ("b", "a")


def test_unknown_metrics_and_options_are_named() -> None:
    """A misspelt metric or option is refused with the nearest name."""
    with pytest.raises(UnknownName, match="exact_match"):
        score_generation("a", "a", {"exact_mach": {}})
    with pytest.raises(UnknownName, match="ignore_case"):
        ExactMatchOptions.from_mapping({"ignore_cases": True})
    with pytest.raises(DataError, match="ignore_case of exact_match is 'no'; expected true or false"):
        ExactMatchOptions.from_mapping({"ignore_case": "no"})


def test_an_answer_that_no_filter_took_out_of_its_list_says_so() -> None:
    """lm-eval compares the list itself, which no text equals: the score stays, and its note names take_first."""
    score = score_generation(["4"], "4", {"exact_match": {}})["exact_match"]
    assert (score.value, score.detail) == (0.0, {"extracted": ["4"], "near_miss": "list"})


def test_an_empty_or_fallback_answer_is_unparsed() -> None:
    """An answer from which nothing was extracted is not silently counted as a wrong answer."""
    assert all(is_unparsed(answer) for answer in ("", " \n", "[invalid]", None, ["[invalid]", ""]))
    assert not is_unparsed("no")
    assert is_unparsed("none", ("none",))


def _lm_eval(answer: str, gold: Any, options: dict[str, Any]) -> float:
    task_module = pytest.importorskip("lm_eval.api.task")
    metrics = pytest.importorskip("lm_eval.api.metrics")
    multiple = len(gold) if isinstance(gold, list) else 0
    stand_in = SimpleNamespace(
        config=SimpleNamespace(process_results=None, doc_to_choice=None),
        _metric_fn_list={"exact_match": metrics.exact_match_fn},
        _metric_fn_kwargs={"exact_match": options},
        _aggregation_list={},
        _higher_is_better={},
        OUTPUT_TYPE="generate_until",
        doc_to_target=lambda doc: gold,
        multiple_target=multiple,
    )
    return float(task_module.ConfigurableTask.process_results(stand_in, {}, [answer])["exact_match"])


TEXTS = st.text(alphabet="aA1.,$ #\n-é", max_size=8)


@pytest.mark.oracle
@settings(max_examples=200, deadline=None)
@given(
    answer=TEXTS,
    golds=st.lists(TEXTS, min_size=1, max_size=3),
    regexes=st.sampled_from([None, [",", r"\$"], [r"\.$"], ["a+"]]),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_exact_match_equals_lm_eval(
    answer: str, golds: list[str], regexes: list[str] | None, flags: tuple[bool, bool, bool]
) -> None:
    """For any texts and options, one reference or several, the value is lm-eval's."""
    names = ("ignore_case", "ignore_punctuation", "ignore_numbers")
    options: dict[str, Any] = dict(zip(names, flags, strict=True)) | {"regexes_to_ignore": regexes}
    item = score_generation(answer, golds[0], {"exact_match": options})["exact_match"].value
    assert item == _lm_eval(answer, golds[0], options)
    several = score_generation(answer, golds, {"exact_match": options}, multiple_targets=True)["exact_match"].value
    assert several == _lm_eval(answer, golds, options)
