"""From options to a plan's fields, and back from a stored plan to options and to what people read of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from evalstone.options.option import InPlan, declared_options
from evalstone.options.shared import SharedOptions
from evalstone.records import JsonValue, RunPlan

__all__ = ["compared_settings", "headings", "options_of", "plan_settings"]


def _in_plans(kind: type = SharedOptions) -> Iterator[InPlan]:
    return (one.option.in_plan for one in declared_options(kind).values() if one.option.in_plan is not None)


def plan_settings(given: Mapping[str, Any], kind: type = SharedOptions) -> dict[str, Any]:
    """Return the plan's fields of all options, with their defaults filled in; those at None are left out.

    Fields that follow from what tasks are bound with (see `BindOptions`) are not among them.

    Raises: UsageError, UnknownName and DataError where something named cannot be looked up.
    """
    found = {one.field: one.value(given) for one in _in_plans(kind) if one.value is not None}
    return {name: value for name, value in found.items() if value is not None}


def options_of(plan: RunPlan, kind: type = SharedOptions) -> dict[str, Any]:
    """Return the options that lead to a plan again, without its shots: tasks may fix those themselves."""
    declared = declared_options(kind).values()
    return {one.name: one.option.reads_back(plan) for one in declared if one.option.reads_back is not None}


def compared_settings(plan: RunPlan, kind: type = SharedOptions) -> dict[str, JsonValue]:
    """Return what comparisons list of a plan's options; of an imported run, what the files of other tools state."""
    shown = [one for one in _in_plans(kind) if one.label and (one.in_files or plan.model.kind != "imported")]
    return {one.label: one.compared(plan) if one.compared else getattr(plan, one.field) for one in shown}


def headings(plan: RunPlan, kind: type = SharedOptions) -> Iterator[tuple[str, str]]:
    """Yield name and text of what stands above a run's table because of an option."""
    for one in _in_plans(kind):
        if one.heading is not None and (line := one.heading(plan)) is not None:
            yield line
