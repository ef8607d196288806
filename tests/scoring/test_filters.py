"""Filters against worked examples and lm-eval's own."""

from typing import Any

import numpy as np
import pytest

from assaymark.errors import PlanError, UnknownName
from assaymark.scoring.filters import FILTERS, build_filter, build_pipeline

FLEXIBLE: dict[str, Any] = {"regex_pattern": r"(-?[$0-9.,]{2,})|(-?[0-9]+)", "group_select": -1}


def run(name: str, texts: list[Any], row: dict[str, Any] | None = None, **options: Any) -> Any:
    """Apply one step to one sample."""
    return next(iter(build_filter(name, options).apply([texts], [row or {}])))


def test_regex_keeps_the_selected_match_stripped_or_the_fallback() -> None:
    """gsm8k's strict pattern takes the first answer after ####, its flexible one the last number of any kind."""
    assert run("regex", ["so #### 1,200 . #### 7"], regex_pattern=r"#### (\-?[0-9\.\,]+)") == ["1,200"]
    assert run("regex", ["it is 3 or $29.00", "none"], **FLEXIBLE) == ["$29.00", "[invalid]"]
    assert run("regex", ["no"], regex_pattern="x", fallback="?") == ["?"]
    assert run("regex", ["a a"], regex_pattern="a", group_select=5) == ["[invalid]"]


def test_a_pipeline_runs_its_steps_in_order_and_take_first_ends_it() -> None:
    """Votes are counted after extraction: 12, 12 and 13 give 12."""
    steps: list[dict[str, Any]] = [
        {"function": "regex", **FLEXIBLE},
        {"function": "majority_vote"},
        {"function": "take_first"},
    ]
    pipeline = build_pipeline("maj@3", steps)
    assert pipeline.apply_one(["13", "is 12", "12!"], {}) == "12"
    assert pipeline.apply([["1"], ["2"]], [{}, {}]) == ["1", "2"]


def test_majority_vote_breaks_ties_by_who_came_first() -> None:
    """Of two equally frequent answers the first one wins."""
    assert run("majority_vote", ["b", "a", "a", "b"]) == ["b"]


def test_take_first_k_needs_k_answers() -> None:
    """Fewer answers than k are an error with the remedy, not truncated silently."""
    assert run("take_first_k", ["a", "b", "c"], k=2) == ["a", "b"]
    with pytest.raises(PlanError, match="repeats"):
        run("take_first_k", ["a"], k=2)


def test_multi_choice_regex_falls_back_from_pattern_to_text_to_letter() -> None:
    """Pattern first, then a choice's text (longest first), then a letter after a colon."""
    row = {"choices": ["Guilty", "Guilty of Romance", "Love Exposure"]}
    pattern = {"regex_pattern": r"(\([A-Z]\))"}
    assert run("multi_choice_regex", ["the answer is (C)"], row, **pattern) == ["(C)"]
    assert run("multi_choice_regex", ["It is Guilty of Romance."], row, **pattern) == ["(B)"]
    assert run("multi_choice_regex", ["Answer: A"], row, **pattern) == ["(A)"]
    assert run("multi_choice_regex", ["no idea"], row, **pattern) == ["[invalid]"]


def test_custom_filters_and_classes_of_a_task_file_work() -> None:
    """A task may have a function over all answers, or a class with lm-eval's `apply`."""

    class Reverse:
        def __init__(self, times: int = 1) -> None:
            self.times = times

        def apply(self, resps: Any, docs: Any) -> Any:
            return [[text[:: (-1) ** self.times] for text in texts] for texts in resps]

    steps: list[dict[str, Any]] = [
        {"function": Reverse, "times": 1},
        {"function": "custom", "filter_fn": lambda resps, docs: [texts[0] for texts in resps]},
    ]
    assert build_pipeline("own", steps).apply_one(["abc"], {}) == "cba"


def test_mistakes_are_named() -> None:
    """Errors name the nearest known step, the step of an unknown option, and a pipeline that loses a sample."""
    with pytest.raises(UnknownName, match="take_first"):
        build_filter("take_frist")
    with pytest.raises(PlanError, match="regex"):
        build_filter("regex", {"pattern": "x"})
    lossy = build_pipeline("lossy", [{"function": "custom", "filter_fn": lambda resps, docs: []}])
    with pytest.raises(PlanError, match="0 answers for 1 samples"):
        lossy.apply_one(["a"], {})


@pytest.mark.parametrize("name", ["lowercase", "uppercase", "remove_whitespace"])
def test_what_is_no_text_is_left_as_it_is(name: str) -> None:
    """After a `map` an answer may be a number, or None where the table does not have it."""
    (texts,) = build_filter(name, {}).apply([[None, 2, " a"]], [{}])
    assert texts[:2] == [None, 2]


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "regex": [FLEXIBLE, {"regex_pattern": "(a)|(b)"}, {"regex_pattern": "b*", "group_select": -1}, {}],
    "regex_pos": [{}],
    "remove_whitespace": [{}],
    "lowercase": [{}],
    "uppercase": [{}],
    "map": [{"mapping_dict": {"a": 1, " ": 2}, "default_value": 0}],
    "take_first": [{}],
    "take_first_k": [{"k": 2}],
    "majority_vote": [{}],
    "multi_choice_regex": [
        {"regex_pattern": r"(\([A-Z]\))"},
        {"regex_pattern": r"(\([A-Z]\))|x(y)?", "ignore_case": True, "ignore_punctuation": True},
        {"regex_pattern": "answer is ([A-D])", "regexes_to_ignore": ["a"], "group_select": -1},
    ],
    "format_span": [{}],
}
PIECES = [
    "a",
    "B",
    "b ",
    "(A)",
    ": C",
    "12",
    "$3.5",
    "\n",
    "person: Ann, none",
    "LOC : Rome $$ ",
    "('x', 'NN')",
    "Date:",
    ".",
]


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_filter_equals_lm_eval(name: str) -> None:
    """For 400 texts made of relevant pieces each step returns what lm-eval's returns."""
    pytest.importorskip("lm_eval.filters")
    registry = pytest.importorskip("lm_eval.api.registry")
    rng = np.random.default_rng(0)
    texts = [["".join(rng.choice(PIECES, size=rng.integers(0, 6))) for _ in range(4)] for _ in range(100)]
    rows = [{"choices": ["a", "a b", "B."]}, {"choices": ["12", "", "$3.5"]}] * 50
    for options in OPTIONS[name]:
        theirs = list(registry.get_filter(name)(**options).apply(texts, rows))
        assert list(build_filter(name, options).apply(texts, rows)) == theirs


def test_every_lm_eval_filter_name_is_known() -> None:
    """No filter that lm-eval registers is missing here, except the unregistered decontamination stub."""
    pytest.importorskip("lm_eval.filters")
    registry = pytest.importorskip("lm_eval.api.registry")
    names = set(registry.filter_registry)
    assert names - {"decontaminate"} <= set(FILTERS)


def test_a_choice_letter_is_extracted_from_a_generated_answer() -> None:
    """The stated letter is returned, or the fallback where there is none; the task sets the letters."""
    pipeline = build_pipeline("letter", [{"function": "choice_letter", "letters": "ABCD"}, {"function": "take_first"}])
    assert pipeline.apply_one(["It barks, so the answer is (B)."], {}) == "B"
    assert pipeline.apply_one(["I cannot say."], {}) == "[invalid]"
    assert pipeline.apply_one(["The answer is (E)."], {}) == "[invalid]"
