"""Convert options to a plan's fields, and a stored plan back to options and to text for display."""

from collections.abc import Iterator, Mapping
from typing import Any

from assaymark.options.option import InPlan, declared_options
from assaymark.options.shared import SharedOptions
from assaymark.records import JsonValue, RunPlan


def _in_plans(kind: type = SharedOptions) -> Iterator[InPlan]:
    return (
        declared.option.in_plan for declared in declared_options(kind).values() if declared.option.in_plan is not None
    )


def plan_settings(options: Mapping[str, object], kind: type = SharedOptions) -> dict[str, Any]:
    """Return the plan's fields of all options, with their defaults filled in; fields that are None are omitted.

    Fields that are set from `BindOptions` are not among them.

    Raises: UsageError, UnknownName and DataError where a name cannot be looked up.
    """
    fields = {plan.field: plan.value(options) for plan in _in_plans(kind) if plan.value is not None}
    return {name: value for name, value in fields.items() if value is not None}


def options_of(plan: RunPlan, kind: type = SharedOptions) -> dict[str, object]:
    """Return the options that recreate a plan, except its shots: tasks may fix those themselves."""
    declared = declared_options(kind).values()
    return {entry.name: entry.option.reads_back(plan) for entry in declared if entry.option.reads_back is not None}


def compared_settings(plan: RunPlan, kind: type = SharedOptions) -> dict[str, JsonValue]:
    """Return a plan's options that comparisons list; for an imported run, only those that other tools' files state."""
    plans = [
        in_plan for in_plan in _in_plans(kind) if in_plan.label and (in_plan.in_files or plan.model.kind != "imported")
    ]
    return {
        in_plan.label: in_plan.compared(plan) if in_plan.compared else getattr(plan, in_plan.field) for in_plan in plans
    }


def headings(plan: RunPlan, kind: type = SharedOptions) -> Iterator[tuple[str, str]]:
    """Yield name and text of each heading that an option adds above a run's table."""
    for in_plan in _in_plans(kind):
        if in_plan.heading is not None and (line := in_plan.heading(plan)) is not None:
            yield line
