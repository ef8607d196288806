"""Conversions between options that are looked up by name and the fields of a run's plan."""

from collections.abc import Mapping, Sequence
from typing import cast

from assaymark.errors import UsageError
from assaymark.perturbations.named import Perturbation, perturbation_from, perturbations_of
from assaymark.prompts.presets import PromptPreset
from assaymark.records import PerturbationPlan, PresetPlan, RunPlan


def preset_of(options: Mapping[str, object]) -> PromptPreset | None:
    """Return the prompt preset that the options name; None for the model's own template, or plain text.

    Raises: UnknownName, DataError; UsageError where a chat template is requested as well.
    """
    from assaymark.tasks.prompt_presets import NONE, find_preset

    preset = find_preset(cast("str | PromptPreset | None", options["prompt_preset"]) or NONE)
    if preset is not None and options["apply_chat_template"]:
        raise UsageError(
            f"prompt_preset {preset.name} and apply_chat_template both set the prompt's format; omit one of them"
        )
    return preset


def limit_shown(limit: float) -> str:
    """Return, in words, which samples a run with `--limit` evaluated."""
    if limit < 1:
        return f"first {limit:.0%} of the samples"
    return f"first {int(limit):,} sample{'' if int(limit) == 1 else 's'} per task"


def template_name(options: Mapping[str, object]) -> str | None:
    """Return the name of the requested chat template; None for the model's own, or no template."""
    template = options["apply_chat_template"]
    return template if isinstance(template, str) and template else None


def preset_plan(options: Mapping[str, object]) -> PresetPlan | None:
    """Return the prompt preset as the plan stores it."""
    preset = preset_of(options)
    return None if preset is None else PresetPlan(preset.name, preset.template_hash, preset.spec)


def stored_preset(plan: RunPlan) -> str | PromptPreset | None:
    """Return a plan's prompt preset; only its name for runs made before its content was stored."""
    from assaymark.tasks.prompt_presets import preset_from

    stored = plan.prompt_preset
    if stored is None or stored.spec is None:
        return None if stored is None else stored.name
    return preset_from(stored.spec, f"preset {stored.name}")


def preset_shown(plan: RunPlan) -> str | None:
    """Return a plan's prompt preset for display: name and short hash."""
    stored = plan.prompt_preset
    return None if stored is None else f"{stored.name} ({short_hash(stored.template_hash)})"


def template_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the heading of a run's table that states that the model's chat template was applied."""
    if plan.prompt_preset is not None or not plan.apply_chat_template:
        return None
    own = plan.model.template_hash
    return "chat template", "chat template" + (f" ({short_hash(own)})" if own else "")


def system_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the heading of a run's table that states that there was a system text, with its name if it has one."""
    from assaymark.tasks.prompt_presets import system_prompts

    text = plan.system_instruction
    if text is None:
        return None
    named = next((name for name, known in system_prompts().items() if known == text), None)
    return "system prompt", "system prompt" if named is None else f"system prompt {named}"


def shots_are_turns(plan: RunPlan) -> bool | None:
    """Return whether shots were turns; None where prompts were no conversations."""
    return plan.fewshot_as_multiturn if plan.apply_chat_template or plan.prompt_preset is not None else None


def positions(plan: RunPlan) -> dict[str, tuple[int, ...]] | None:
    """Return the sample positions that were given, by task; None where none were. A suite draws its own again."""
    chosen = [task for task in plan.tasks if task.sample_indices is not None and task.drawn is None]
    return {task.name: task.sample_indices for task in chosen if task.sample_indices is not None} or None


def part_shown(plan: RunPlan) -> str | None:
    """Return, in words, which part of its tasks' samples a run was told to evaluate; None for all of them."""
    if plan.limit is not None:
        return limit_shown(plan.limit)
    return "chosen samples" if positions(plan) else None


def limit_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the heading of a run's table that states which samples were evaluated, where not all of each task."""
    if (part := part_shown(plan)) is not None:
        return "limit", part
    drawn = [(task, task.drawn) for task in plan.tasks if isinstance(task.drawn, Mapping)]
    words = [f"{task.name} {task.n_samples:,} of {drawn['of']:,} samples" for task, drawn in drawn]
    return ("draw", f"{', '.join(words)} (HELM's draw, seed 0)") if words else None


def model_arguments(plan: RunPlan) -> dict[str, object]:
    """Return the arguments that recreate the plan's model."""
    from assaymark.models.create import arguments_of

    return arguments_of(plan.model)


def short_hash(text: str) -> str:
    """Return the first eight digits of a hash such as `sha256:1f2e...`."""
    return text.rpartition(":")[2][:8]


def preset_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the heading of a run's table that names its prompt preset."""
    preset_text = preset_shown(plan)
    return None if preset_text is None else ("prompt preset", f"prompt preset {preset_text}")


def perturb_plan(options: Mapping[str, object]) -> list[PerturbationPlan] | None:
    """Return the perturbations as the plan stores them; None where none are named.

    Raises: as `perturbations_of`.
    """
    named = cast("str | Sequence[str | Perturbation] | None", options["perturb"])
    return None if named is None else [each.content for each in perturbations_of(named)]


def stored_perturbations(plan: RunPlan) -> tuple[Perturbation, ...] | None:
    """Return a plan's perturbations, with the lists of words that it stores; None where it has none."""
    return None if plan.perturb is None else tuple(perturbation_from(each) for each in plan.perturb)


def perturb_shown(plan: RunPlan) -> str | None:
    """Return a plan's perturbations for display."""
    stored = stored_perturbations(plan)
    return None if stored is None else ", ".join(each.label for each in stored)


def perturb_heading(plan: RunPlan) -> tuple[str, str] | None:
    """Return the heading of a run's table that names its perturbations."""
    labels = perturb_shown(plan)
    return None if labels is None else ("perturbations", f"perturbed by {labels}")
