"""What options that are looked up become in a run's plan, and what a stored plan says of them."""

from collections.abc import Mapping
from typing import Any

from evalstone.errors import UsageError
from evalstone.prompts.presets import PromptPreset
from evalstone.records import PresetPlan, RunPlan

__all__ = [
    "limit_shown",
    "model_arguments",
    "positions",
    "preset_heading",
    "preset_of",
    "preset_plan",
    "preset_shown",
    "short_hash",
    "shots_are_turns",
    "stored_preset",
    "system_heading",
    "template_heading",
    "template_name",
]


def preset_of(given: Mapping[str, Any]) -> PromptPreset | None:
    """Return the prompt preset that the options name; None for the model's own template, or plain text.

    Raises: UnknownName, DataError; UsageError where a chat template is asked for as well.
    """
    from evalstone.tasks.prompt_presets import NONE, find_preset

    preset = find_preset(given["prompt_preset"] or NONE)
    if preset is not None and given["apply_chat_template"]:
        raise UsageError(f"prompt_preset {preset.name} and apply_chat_template both put the prompt; leave one out")
    return preset


def limit_shown(limit: float) -> str:
    """Return which samples a run with `--limit` evaluated."""
    if limit < 1:
        return f"first {limit:.0%} of the samples"
    return f"first {int(limit):,} sample{'' if int(limit) == 1 else 's'} per task"


def template_name(given: Mapping[str, Any]) -> str | None:
    """Return the name of the chat template that is asked for; None for the model's own, or none."""
    template = given["apply_chat_template"]
    return template if isinstance(template, str) and template else None


def preset_plan(given: Mapping[str, Any]) -> PresetPlan | None:
    """Return the prompt preset as the plan keeps it."""
    preset = preset_of(given)
    return None if preset is None else PresetPlan(preset.name, preset.template_hash, preset.spec)


def stored_preset(plan: RunPlan) -> str | PromptPreset | None:
    """Return the format that a plan keeps; its name, of runs made before the format itself was kept."""
    from evalstone.tasks.prompt_presets import preset_from

    kept = plan.prompt_preset
    if kept is None or kept.spec is None:
        return None if kept is None else kept.name
    return preset_from(kept.spec, f"preset {kept.name}")


def preset_shown(plan: RunPlan) -> str | None:
    """Return the prompt preset of a plan as people read it."""
    kept = plan.prompt_preset
    return None if kept is None else f"{kept.name} ({short_hash(kept.template_hash)})"


def template_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the line above a run's table that says its prompts went through the model's chat template."""
    if plan.prompt_preset is not None or not plan.apply_chat_template:
        return None
    own = plan.model.template_hash
    return "chat template", "chat template" + (f" ({short_hash(own)})" if own else "")


def system_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the line above a run's table that says there was a system text, with its name if it has one."""
    from evalstone.tasks.prompt_presets import system_prompts

    text = plan.system_instruction
    if text is None:
        return None
    named = next((name for name, known in system_prompts().items() if known == text), None)
    return "system prompt", "system prompt" if named is None else f"system prompt {named}"


def shots_are_turns(plan: RunPlan) -> bool | None:
    """Return whether shots were turns; None where no conversation was asked for."""
    return plan.fewshot_as_multiturn if plan.apply_chat_template or plan.prompt_preset is not None else None


def positions(plan: RunPlan) -> dict[str, tuple[int, ...]] | None:
    """Return the positions that were named, by task; None where none were."""
    return {task.name: task.sample_indices for task in plan.tasks if task.sample_indices is not None} or None


def model_arguments(plan: RunPlan) -> dict[str, Any]:
    """Return the arguments that lead to the plan's model again."""
    from evalstone.models.create import arguments_of

    return arguments_of(plan.model)


def short_hash(text: str) -> str:
    """Return the first eight digits of a hash such as `sha256:1f2e...`."""
    return text.rpartition(":")[2][:8]


def preset_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the line above a run's table that names its prompt preset."""
    shown = preset_shown(plan)
    return None if shown is None else ("prompt preset", f"prompt preset {shown}")
