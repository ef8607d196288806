"""A run plan as JSON and back; its key comes out the same, which `verify` checks."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evalstone.errors import HashMismatch
from evalstone.records import JsonValue, ModelIdentity, RunPlan, TaskPlan
from evalstone.store.packing import to_json


def plan_to_json(plan: RunPlan) -> str:
    """Return the plan as JSON text."""
    return to_json(asdict(plan))


def plan_from_json(text: str) -> RunPlan:
    """Return the plan of a JSON text.

    Raises: HashMismatch if the text is no plan.
    """
    try:
        content = json.loads(text)
        model = dict(content.pop("model"))
        tasks = content.pop("tasks")
        return RunPlan(
            model=ModelIdentity(**{**model, "options": _pairs(model["options"])}),
            tasks=tuple(_task(task) for task in tasks),
            **{**content, "extra": _pairs(content["extra"])},
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HashMismatch(f"a stored run plan cannot be read: {error!r}; `evalstone verify` names its run") from error


def _pairs(content: Any) -> tuple[tuple[str, JsonValue], ...]:
    return tuple((name, value) for name, value in content)


def _task(content: Mapping[str, Any]) -> TaskPlan:
    indices = content["sample_indices"]
    return TaskPlan(**{**content, "sample_indices": None if indices is None else tuple(indices)})
