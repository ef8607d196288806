"""A run plan as JSON and back; its key comes out the same, which `verify` checks."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from evalstone.errors import HashMismatch
from evalstone.records import JsonValue, ModelIdentity, RunPlan, TaskPlan
from evalstone.store.packing import to_json


def plan_to_json(plan: RunPlan) -> str:
    """Return the plan as JSON text."""
    return to_json(plan.content)


def plan_from_json(text: str) -> RunPlan:
    """Return the plan of a JSON text; fields that this version does not know are kept.

    Raises: HashMismatch if the text is no plan.
    """
    try:
        content = json.loads(text)
        model, tasks = dict(content.pop("model")), content.pop("tasks")
        model["options"], content["extra"] = _pairs(model["options"]), _pairs(content["extra"])
        return RunPlan(
            model=ModelIdentity(**_known(ModelIdentity, model)),
            tasks=tuple(_task(task) for task in tasks),
            **_known(RunPlan, content),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HashMismatch(f"a stored run plan cannot be read: {error!r}; `evalstone verify` names its run") from error


def _known(record: type, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a record; what it has no field for goes into `unknown`."""
    names = {each.name for each in fields(record)} - {"unknown"}
    unknown = tuple((name, value) for name, value in content.items() if name not in names)
    return {**{name: value for name, value in content.items() if name in names}, "unknown": unknown}


def _pairs(content: Any) -> tuple[tuple[str, JsonValue], ...]:
    return tuple((name, value) for name, value in content)


def _task(content: Mapping[str, Any]) -> TaskPlan:
    indices = content["sample_indices"]
    return TaskPlan(**{**_known(TaskPlan, content), "sample_indices": None if indices is None else tuple(indices)})
