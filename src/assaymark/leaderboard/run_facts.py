"""A run's facts about its model and its setup, as a row shows them."""

from collections.abc import Mapping
from typing import Any

from assaymark.leaderboard.board import Board
from assaymark.leaderboard.stored import StoredRun
from assaymark.options.of_plans import limit_shown, short_hash
from assaymark.records import JsonValue, RunPlan
from assaymark.tasks.prompt_presets import system_prompts

__all__ = ["PLAIN_TEXT", "facts_of_run", "identity_of", "prompt_set"]

PLAIN_TEXT = "plain text"


def identity_of(plan: RunPlan) -> dict[str, JsonValue]:
    """Return what makes two runs the same row: the model, its numbers, the prompts' layout, rules and limit."""
    model = plan.model
    return {
        "model": model.content_hash or model.name,
        "name": model.name,
        "dtype": model.dtype,
        "numerics": model.numerics,
        "options": [list(option) for option in model.options],
        "profile": plan.profile,
        "limit": plan.limit,
        "template": plan.apply_chat_template and (model.template_hash or str(plan.apply_chat_template)),
        "turns": plan.fewshot_as_multiturn and bool(plan.apply_chat_template),
        "system": plan.system_instruction,
        "preset": None if plan.prompt_preset is None else plan.prompt_preset.content,
        "prompt_style": plan.prompt_style,
    }


def prompt_set(plan: RunPlan) -> str:
    """Return how prompts were built, in words; rows that differ in it are ranked separately."""
    words = []
    if plan.prompt_preset is not None:
        words.append(f"preset {plan.prompt_preset.name}")
    elif plan.apply_chat_template:
        words.append("chat template")
    if plan.prompt_style is not None:
        words.append(f"style {plan.prompt_style}")
    if plan.system_instruction is not None:
        words.append(f"system prompt {_system_name(plan.system_instruction)}")
    return ", ".join(words) or PLAIN_TEXT


def _system_name(text: str) -> str:
    named = next((name for name, known in system_prompts().items() if known == text), None)
    return named if named is not None else " ".join(text.split())[:60]


def _set_up(plan: RunPlan, board: Board) -> str:
    """Return the prompt set, with profile and limit where they are not the board's; such rows rank separately."""
    words = [prompt_set(plan)]
    if board.suite is not None and plan.profile != board.suite.profile and plan.model.kind != "imported":
        words.append(f"profile {plan.profile}")
    if plan.limit is not None:
        words.append(limit_shown(plan.limit))
    return ", ".join(words)


def _work(work: Any) -> dict[str, float]:
    """Return speed and memory of a run's latest attempt, rounded as precisely as they are repeatable."""
    if not isinstance(work, Mapping):
        return {}
    found = {}
    n_tokens, seconds, peak = (work.get(name) for name in ("n_tokens", "seconds", "peak_bytes"))
    if isinstance(n_tokens, int) and n_tokens and isinstance(seconds, float) and seconds > 0:
        found["speed"] = float(f"{n_tokens / seconds:.3g}")
    if isinstance(peak, int):
        found["memory"] = round(peak / 1e9, 2)
    return found


def _prompt_spread(run: StoredRun) -> float | None:
    """Return the mean spread over wordings of the run's tasks that were audited, in points; None if none was."""
    found = [spread for task, spread in run.spreads.items() if task in run.row.tasks]
    return round(sum(found) / len(found), 1) if found else None


def facts_of_run(run: StoredRun, board: Board) -> dict[str, Any]:
    """Return the facts of a row; what the board's file says of the model counts before what the run knows."""
    plan = run.plan
    model, preset = plan.model, plan.prompt_preset
    sha = model.revision or (short_hash(model.content_hash) if model.content_hash else None)
    is_known = "unknown" not in model.dtype
    found = {
        "type": "unknown",
        "weight": "adapter" if "+" in model.name else None,
        "precision": model.dtype if is_known else None,
        "params": None if model.n_parameters is None else model.n_parameters / 1e9,
        "sha": sha,
        "chat_template": bool(plan.apply_chat_template) or preset is not None,
        "preset": None if preset is None else preset.name,
        "system": None if plan.system_instruction is None else _system_name(plan.system_instruction),
        "prompts": _set_up(plan, board),
        "limit": None if plan.limit is None else limit_shown(plan.limit),
        "profile": plan.profile,
        "date": run.row.updated_at[:10],
        **(run.mark.facts if run.mark is not None else {}),
        "prompt_spread": _prompt_spread(run),
        **_work(run.row.summary.get("work")),
        **board.models.get(run.model, {}),
        **board.models.get(model.name, {}),
    }
    return {key: value for key, value in found.items() if value is not None}
