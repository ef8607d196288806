"""A run plan to JSON and back; its key stays the same, which `verify` checks."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from assaymark.errors import HashMismatch
from assaymark.records import AuditPlan, JsonValue, ModelIdentity, PresetPlan, RunPlan, TaskPlan

_SETTING_FIELDS: Mapping[str, str] = {
    each.metadata["in_extra"]: each.name for each in fields(RunPlan) if "in_extra" in each.metadata
}
"""Name under `extra` -> field of the plan, in the order in which they are written."""


def plan_from_json(text: str) -> RunPlan:
    """Return the plan of a JSON text, with fields that this version does not know.

    Raises: HashMismatch if the text is not a plan.
    """
    try:
        content = json.loads(text)
        model, tasks = dict(content.pop("model")), content.pop("tasks")
        model["options"], extra = _pairs(model["options"]), _pairs(content.pop("extra"))
        return RunPlan(
            model=ModelIdentity(**_known(ModelIdentity, model)),
            tasks=tuple(_task(task) for task in tasks),
            **_known(RunPlan, content),
            **_settings(extra),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HashMismatch(f"a stored run plan cannot be read: {error!r}; `assaymark verify` shows its run") from error


def _settings(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, Any]:
    """Return the fields of a plan's settings under `extra`; unknown ones stay there.

    Reading stops at the first setting that is unknown or out of order, so that the key stays the same.
    """
    settings: dict[str, object] = {}
    expected = list(_SETTING_FIELDS)
    for position, (name, value) in enumerate(pairs):
        setting = _READ[name](value) if name in _READ else value
        if name not in expected or setting is None or getattr(setting, "content", setting) != value:
            return {**settings, "extra": tuple(pairs[position:])}
        settings[_SETTING_FIELDS[name]] = setting
        expected = expected[expected.index(name) + 1 :]
    return settings


def _preset(value: JsonValue) -> PresetPlan:
    match value:
        case {"name": str(name), "template_hash": str(template_hash), **rest}:
            spec = rest.get("content")
            return PresetPlan(name, template_hash, spec if isinstance(spec, Mapping) else None)
    raise ValueError(f"{value!r} is no prompt format")


def _audit(value: JsonValue) -> AuditPlan:
    match value:
        case {"kind": str(kind), "version": int(version), **settings}:
            return AuditPlan(kind, version, {str(name): setting for name, setting in settings.items()})
    raise ValueError(f"{value!r} is not the settings of an audit")


_READ: Mapping[str, Callable[[JsonValue], PresetPlan | AuditPlan]] = {"prompt_preset": _preset, "audit": _audit}


def _known(record: type, content: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the arguments of a record; names without a field go into `unknown`."""
    names = {each.name for each in fields(record) if "in_extra" not in each.metadata} - {"unknown"}
    unknown = tuple((name, value) for name, value in content.items() if name not in names)
    return {**{name: value for name, value in content.items() if name in names}, "unknown": unknown}


def _pairs(content: Iterable[tuple[str, JsonValue]]) -> tuple[tuple[str, JsonValue], ...]:
    return tuple((name, value) for name, value in content)


def _task(content: Mapping[str, JsonValue]) -> TaskPlan:
    known = _known(TaskPlan, content)
    indices = known["sample_indices"]
    return TaskPlan(**{**known, "sample_indices": None if indices is None else tuple(indices)})
