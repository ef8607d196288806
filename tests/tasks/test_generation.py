"""Generation settings: the task's, the user's on top, in lm-eval's normal form."""

from pathlib import Path
from typing import Any

import pytest

from evalstone.errors import PlanError
from evalstone.records import GenerationSettings
from evalstone.tasks.dialect import task_from_spec
from evalstone.tasks.generation import generation_settings
from tests.tasks.folders import task_spec


def settings(given: dict[str, Any] | None, user: dict[str, Any] | None = None, **changes: Any) -> GenerationSettings:
    """Return the settings of a small task."""
    spec = task_spec(output_type="generate_until", doc_to_choice=..., metric_list=..., **changes)
    if given is not None:
        spec["generation_kwargs"] = given
    return generation_settings(task_from_spec(spec, Path("/t.yaml"), "user"), user or {})


def test_defaults() -> None:
    """Without settings 256 tokens are written greedily, up to the delimiter between shots."""
    assert settings(None) == GenerationSettings(max_tokens=256, stop=("\n\n",))
    assert settings({}, fewshot_delimiter="\n") == GenerationSettings(stop=("\n",))


def test_spellings_and_order() -> None:
    """max_gen_toks wins over its other names; one stop text may stand alone; the user's keys win."""
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
    """The task's repeats and keys we do not know travel on."""
    made = settings({"num_beams": 2}, repeats=4)
    assert (made.repeats, made.extra) == (4, (("num_beams", 2),))


def test_nonsense_is_refused() -> None:
    """A value that is no number is an error that names the task."""
    with pytest.raises(PlanError, match=r"generation settings of sums: .*many"):
        settings({"max_gen_toks": "many"})


@pytest.mark.parametrize("name", ["max_gen_toks", "temperature"])
def test_a_negative_setting_is_refused_by_name(name: str) -> None:
    """Below 0 there are no tokens to write and no temperature, so planning ends with the setting's name."""
    with pytest.raises(PlanError, match=rf"generation settings of sums: {name} is -1; expected 0 or more"):
        settings(None, {name: -1})
