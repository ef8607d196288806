"""A run's key stays the same while plans grow, and a plan of a later version is read without losing anything."""

import dataclasses
import json
from typing import Any

import pytest

from assaymark.errors import HashMismatch
from assaymark.records import AuditPlan, ModelIdentity, PresetPlan, RunPlan, TaskPlan, plans
from assaymark.records.plans import FIRST_FIELDS, plan_content
from assaymark.store.packing import to_json
from assaymark.store.plan_json import plan_from_json

GOLDEN = "sha256:eedef5ff42f04f0f681679d3da26f965e1017347cce1849a47d0d2065b2cb6e9"
MODEL = ModelIdentity(
    "a/model", "hf", "sha256:1", "sha256:2", None, "float32", "float32", 2048, 10, None, (("a", [1]),)
)
TASK = TaskPlan("t", "1", "spec", "data", 5, 10, (1, 2, 3), {"until": ["\n"]})
PLAN = RunPlan(MODEL, "lm-eval-0.4.13", (TASK,), limit=0.5, gen_kwargs={"temperature": 0.5})


def test_the_key_of_a_plan_is_pinned() -> None:
    """A change of this value would lose every stored run."""
    assert PLAN.key == GOLDEN


@dataclasses.dataclass(frozen=True, slots=True)
class LaterPlan(RunPlan):
    """A plan of a later version, with a field more."""

    judge: str | None = None


def test_a_later_field_counts_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field added to plans changes no key while it has its default."""
    monkeypatch.setattr(plans, "FIRST_FIELDS", {**FIRST_FIELDS, "LaterPlan": FIRST_FIELDS["RunPlan"]})
    own = {each.name: getattr(PLAN, each.name) for each in dataclasses.fields(PLAN)}
    assert LaterPlan(**own).key == PLAN.key
    assert LaterPlan(**own, judge="x").key != PLAN.key
    assert "judge" not in LaterPlan(**own).content


def test_fields_of_a_later_version_are_kept() -> None:
    """What this version does not know is read, hashed and written back, in the plan, its model and its tasks."""
    content = json.loads(to_json(PLAN.content))
    content["judge"] = "x"
    content["model"]["parts"] = [1, 2]
    content["tasks"][0]["visibility"] = "hidden"
    plan = plan_from_json(json.dumps(content))
    assert plan.key != PLAN.key
    assert json.loads(to_json(plan.content)) == content
    assert plan_from_json(to_json(plan.content)).key == plan.key


def test_the_first_fields_are_those_that_have_no_default_to_leave_out() -> None:
    """A field that is not among the first ones has a default, or plans without it could not be read."""
    for record in (RunPlan, ModelIdentity, TaskPlan):
        for each in dataclasses.fields(record):
            assert each.name in FIRST_FIELDS[record.__name__] or each.default is not dataclasses.MISSING
    assert set(plan_content(TASK)) == FIRST_FIELDS["TaskPlan"]


SETTINGS: dict[str, tuple[Any, Any]] = {  # field -> its value, and what the first versions stored under `extra`
    "gen_kwargs": ({"temperature": 0.5, "until": ["\n"]}, {"temperature": 0.5, "until": ["\n"]}),
    "prompt_style": ("cot", "cot"),
    "prompt_preset": (
        PresetPlan("chatml", "sha256:3", {"name": "chatml", "stop": ["<|im_end|>"]}),
        {"name": "chatml", "template_hash": "sha256:3", "content": {"name": "chatml", "stop": ["<|im_end|>"]}},
    ),
    "code_runs_in": ({"mbpp": "bubblewrap"}, {"mbpp": "bubblewrap"}),
    "audit_settings": (
        AuditPlan("contamination", 1, {"tests": ["order"]}),
        {"kind": "contamination", "version": 1, "tests": ["order"]},
    ),
}
OLD_NAMES = {"audit_settings": "audit", "prompt_style": "prompting"}


@pytest.mark.parametrize("fields", [[name] for name in SETTINGS] + [list(SETTINGS)])
def test_a_setting_with_a_field_has_the_key_it_had_as_a_pair(fields: list[str]) -> None:
    """A plan of the first layout has the same content and key, is read into its fields, and is written as it was."""
    pairs = tuple((OLD_NAMES.get(name, name), SETTINGS[name][1]) for name in fields)
    old = RunPlan(MODEL, "lm-eval-0.4.13", (TASK,), extra=pairs)
    new = RunPlan(MODEL, "lm-eval-0.4.13", (TASK,), **{name: SETTINGS[name][0] for name in fields})
    assert new.key == old.key
    assert to_json(new.content) == to_json(old.content)
    assert plan_from_json(to_json(old.content)) == new


@pytest.mark.parametrize(
    "pairs",
    [
        [["prompt_preset", {"name": "chatml", "template_hash": "sha256:3"}]],  # before presets were kept
        [["prompt_preset", {"name": "chatml", "template_hash": "sha256:3", "later": 1}]],
        [["of_a_later_version", [1, 2]], ["prompting", "cot"]],
        [["prompting", "cot"], ["gen_kwargs", {"top_k": 1}]],  # in an order in which no version writes them
        [["gen_kwargs", {}], ["prompting", None]],
    ],
)
def test_settings_of_another_form_keep_their_key(pairs: list[Any]) -> None:
    """What has no field, or not this form, is kept as it was stored."""
    content = {**json.loads(to_json(PLAN.content)), "extra": pairs}
    plan = plan_from_json(json.dumps(content))
    assert json.loads(to_json(plan.content)) == content
    assert plan_from_json(to_json(plan.content)) == plan


def test_a_preset_without_its_content_is_read() -> None:
    """Runs made before the format itself was kept have its name and hash."""
    content = {**json.loads(to_json(PLAN.content)), "extra": [["prompt_preset", {"name": "a", "template_hash": "b"}]]}
    assert plan_from_json(json.dumps(content)).prompt_preset == PresetPlan("a", "b")


@pytest.mark.parametrize("setting", [["prompt_preset", {"name": "a"}], ["audit", {"kind": "x", "version": "new"}]])
def test_a_setting_that_is_damaged_is_named(setting: list[object]) -> None:
    """The error of a plan that cannot be read says which value."""
    content = {**json.loads(to_json(PLAN.content)), "extra": [setting]}
    with pytest.raises(HashMismatch, match=r"cannot be read.*'(name|kind)'"):
        plan_from_json(json.dumps(content))
