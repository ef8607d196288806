"""Generation settings: the task's, overridden by the user's, in lm-eval's normal form."""

from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import DataError, PlanError
from assaymark.records import GenerationSettings
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.generation import AnswerSettings, answer_settings, check_gen_kwargs
from tests.tasks.folders import task_spec


def settings_by_sample(
    given: dict[str, Any] | None, user: dict[str, Any] | None = None, **changes: Any
) -> AnswerSettings:
    """Return the generation settings of a small task."""
    spec = task_spec(output_type="generate_until", doc_to_choice=..., metric_list=..., **changes)
    if given is not None:
        spec["generation_kwargs"] = given
    return answer_settings(task_from_spec(spec, Path("/t.yaml"), "user"), user or {})


def settings(given: dict[str, Any] | None, user: dict[str, Any] | None = None, **changes: Any) -> GenerationSettings:
    """Return the settings of a small task, the same for all its samples."""
    return settings_by_sample(given, user, **changes).of_all


def test_defaults() -> None:
    """Without settings 256 tokens are generated greedily, up to the delimiter between shots."""
    assert settings(None) == GenerationSettings(max_tokens=256, stop=("\n\n",))
    assert settings({}, fewshot_delimiter="\n") == GenerationSettings(stop=("\n",))


def test_stops_of_plain_text_are_not_those_of_a_chat() -> None:
    """They count after text alone, and not where the user's `until` is given; earlier plans have no such key."""
    own = {"plain_until": ["\n\n"]}
    spec = task_spec(output_type="generate_until", doc_to_choice=..., metric_list=..., generation_kwargs=own)
    task = task_from_spec(spec, Path("/t.yaml"), "user")
    plain, chat = answer_settings(task, {}), answer_settings(task, {}, is_chat=True)
    assert plain.of_all == GenerationSettings(stop=("\n\n",), stop_after_text=True)
    assert (chat.of_all, "stop_after_text" in chat.facts) == (GenerationSettings(), False)
    assert plain.facts["stop_after_text"] is True
    assert answer_settings(task, {"until": ["."]}).of_all == GenerationSettings(stop=(".",))


def test_spellings_and_order() -> None:
    """max_gen_toks wins over its other names; one stop text needs no list; the user's keys win."""
    assert settings({"max_new_tokens": 9, "max_gen_toks": 7, "until": "."}).max_tokens == 7
    assert settings({"until": "."}).stop == (".",)
    changed = settings({"until": ["a"], "max_gen_toks": 5, "temperature": 0}, {"max_gen_toks": 6})
    assert (changed.stop, changed.max_tokens) == (("a",), 6)


def test_sampling() -> None:
    """A temperature alone means sampling; do_sample false means greedy whatever the temperature."""
    warm = settings({"temperature": 0.7, "top_p": 0.9, "top_k": 5})
    assert (warm.do_sample, warm.temperature, warm.top_p, warm.top_k) == (True, 0.7, 0.9, 5)
    cold = settings({"temperature": 0.7, "do_sample": False})
    assert (cold.do_sample, cold.temperature) == (False, 0.0)


def test_repeats_and_other_keys() -> None:
    """The task's repeats and unknown keys are passed on."""
    made = settings({"num_beams": 2}, repeats=4)
    assert (made.repeats, made.extra) == (4, (("num_beams", 2),))


def test_nonsense_is_refused() -> None:
    """A value that is not a number is an error that names the task."""
    with pytest.raises(PlanError, match=r"generation settings of sums: .*many"):
        settings({"max_gen_toks": "many"})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_gen_toks", 0, "1 or more"),
        ("max_gen_toks", -1, "1 or more"),
        ("max_gen_toks", 1.5, "a whole number"),
        ("temperature", -1, "0 or more"),
        ("temperature", "nan", "0 or more"),
        ("top_p", 0, "more than 0, at most 1"),
        ("top_p", 1.01, "more than 0, at most 1"),
        ("top_k", -3, "0 or more"),
        ("top_k", 2.5, "a whole number"),
        ("min_p", 1.2, "0 to 1"),
        ("seed", -5, "0 or more"),
        ("do_sample", "maybe", "true or false"),
    ],
)
def test_a_setting_out_of_its_range_is_refused_by_name(name: str, value: Any, expected: str) -> None:
    """The error names the setting, its value and the expected range, for a task's and for the user's settings."""
    with pytest.raises(PlanError, match=rf"generation settings of sums: {name} is {value}; expected {expected}"):
        settings({name: value})
    with pytest.raises(PlanError, match=rf"generation settings of gen_kwargs: {name} is {value}; expected {expected}"):
        check_gen_kwargs({name: value})


def test_the_ends_of_the_ranges_are_accepted() -> None:
    """top_p of 1 and min_p of 0 or 1 are valid; top_k of 0, or vLLM's -1, allows every token."""
    made = settings({"temperature": 1, "top_p": 1, "min_p": 1, "top_k": -1, "max_gen_toks": 1})
    assert (made.top_p, made.min_p, made.top_k, made.max_tokens) == (1.0, 1.0, 0, 1)


KINDS = {"column": "kind", "values": {"poem": {"temperature": 0.7}, "sum": {"temperature": 0.0}}}


def test_samples_of_several_kinds_have_settings_of_their_own() -> None:
    """A row's column decides, other kinds have the task's settings, the user's override all; the plan has all."""
    made = settings_by_sample({"temperature": 0.3}, generation_by=KINDS)
    temperatures = [made.of({"kind": kind}).temperature for kind in ("poem", "sum", "letter")]
    assert temperatures == [0.7, 0.0, 0.3]
    assert [made.of({"kind": kind}).do_sample for kind in ("poem", "sum")] == [True, False]
    facts: Any = made.facts
    assert (facts["temperature"], facts["by"]["kind"]["poem"]["temperature"]) == (0.3, 0.7)
    greedy = settings_by_sample({"temperature": 0.3}, {"do_sample": False}, generation_by=KINDS)
    assert not any(greedy.of({"kind": kind}).do_sample for kind in ("poem", "sum", "letter"))


@pytest.mark.parametrize(
    "by", [{"column": "kind"}, {"column": 1, "values": {}}, {"column": "kind", "values": {"a": 1}}]
)
def test_settings_by_kind_are_a_column_and_its_values(by: dict[str, Any]) -> None:
    """Anything else under generation_by is refused with what was expected."""
    with pytest.raises(DataError, match=r"generation_by.*column: NAME, values"):
        settings_by_sample({}, generation_by=by)
