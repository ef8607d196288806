"""How a task's answers are to be written: its `generation_kwargs`, the user's on top, in one normal form."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalstone.errors import PlanError
from evalstone.prompts.presets import PromptPreset
from evalstone.records import GenerationSettings, JsonValue
from evalstone.tasks.task import Task

_MAX_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # first wins


def effective_kwargs(task: Task, gen_kwargs: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the task's settings with the user's laid over, in lm-evaluation-harness's spelling.

    Source: lm-evaluation-harness 0.4.13 `TaskConfig.__post_init__`; without `until` the shot delimiter stops.
    """
    if task.generation_kwargs is None:
        own: dict[str, Any] = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256}
    else:
        own = dict(task.generation_kwargs)
    if "until" not in own:
        own["until"] = [task.prompt.fewshot_delimiter]
    return {**own, **gen_kwargs}


def generation_settings(task: Task, gen_kwargs: Mapping[str, JsonValue]) -> GenerationSettings:
    """Return what the model is told.

    Raises: PlanError for a value that is no number or stop text where one is expected.
    Source: lm-evaluation-harness 0.4.13 `normalize_gen_kwargs`.
    """
    return settings_of(task.name, effective_kwargs(task, gen_kwargs), task.repeats)


def with_stops(settings: GenerationSettings, preset: PromptPreset | None) -> GenerationSettings:
    """Return the settings with the texts that end a turn of the preset among the stop texts."""
    if preset is None:
        return settings
    return replace(settings, stop=tuple(dict.fromkeys((*settings.stop, *preset.stop))))


def settings_of(name: str, given: Mapping[str, Any], repeats: int = 1) -> GenerationSettings:
    """Return lm-evaluation-harness's `generation_kwargs` in our form. Raises: PlanError naming the task."""
    kwargs = dict(given)
    until = kwargs.pop("until", [])
    stops = until if isinstance(until, (list, tuple)) else [until]
    try:
        limits = [kwargs.pop(name) for name in _MAX_TOKENS if name in kwargs]
        limit = next((int(value) for value in limits if value is not None), None)
        temperature = float(kwargs.pop("temperature", 0.0) or 0.0)
        do_sample = kwargs.pop("do_sample", None)
        do_sample = temperature > 0.0 if do_sample is None else bool(do_sample)
        top_p, top_k, min_p = (kwargs.pop(name, None) for name in ("top_p", "top_k", "min_p"))
        _refuse_negative({"max_gen_toks": limit, "temperature": temperature})
        return GenerationSettings(
            max_tokens=limit,
            stop=tuple(str(stop) for stop in stops if stop is not None),
            do_sample=do_sample,
            temperature=temperature if do_sample else 0.0,
            top_p=None if top_p is None else float(top_p),
            top_k=None if top_k is None else int(top_k),
            min_p=None if min_p is None else float(min_p),
            seed=int(kwargs.pop("seed", 0) or 0),
            repeats=repeats,
            extra=tuple(sorted(kwargs.items())),
        )
    except (TypeError, ValueError) as error:
        raise PlanError(f"generation settings of {name}: {error}; seen {dict(given)!r:.200}") from error


def _refuse_negative(numbers: Mapping[str, float | None]) -> None:
    """Raise ValueError naming the first setting below 0, or no finite number."""
    for name, value in numbers.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value:g}; expected 0 or more")
