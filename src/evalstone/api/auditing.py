"""Audits as a user calls them: models and tasks by name, results to print or to write."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from evalstone.api.evaluate import prepare_run
from evalstone.api.options import EvaluateOptions
from evalstone.api.run import Run
from evalstone.audit.calibration import CalibrationAudit
from evalstone.audit.calibration import audit_calibration as calibration_of_run
from evalstone.audit.contamination import ContaminationSettings, ContaminationTest
from evalstone.audit.contamination import audit_contamination as contamination_of_tasks
from evalstone.audit.prompts import PromptAudit, PromptVariant, askable_items
from evalstone.audit.prompts import audit_prompts as prompts_of_task
from evalstone.errors import StoreError, UnknownName, UsageError
from evalstone.models.model import Model
from evalstone.records import JsonValue
from evalstone.registry import nearest
from evalstone.runner.plan import render_of
from evalstone.tasks.bound import BoundTask

__all__ = [
    "SYSTEM_PROMPTS",
    "audit_calibration",
    "audit_contamination",
    "audit_prompts",
    "check_ending",
    "write_json",
]

Told = Callable[[str], None]
SYSTEM_PROMPTS = (
    "",
    "You are a helpful assistant.",
    "Answer the question.",
    "You are an expert. Think carefully and give the right answer.",
)


def audit_contamination(
    model: Any,
    tasks: str | Sequence[str],
    settings: ContaminationSettings | None = None,
    *,
    control: str | Path | None = None,
    control_task: str | None = None,
    told: Told = lambda _: None,
    **options: Unpack[EvaluateOptions],
) -> list[ContaminationTest]:
    """Ask a model for log-likelihoods that would be otherwise had it seen these tasks.

    Args:
        model: as `evaluate` takes it.
        tasks: names, groups, globs or files.
        settings: which tests, and how much they ask.
        control: folder or hub id of a model that cannot have seen the tasks.
        control_task: a task of the same kind that cannot have been seen.
        told: called with a line before each test.
        options: as `evaluate`; tasks are read without shots.

    Raises: as `evaluate`; UsageError for a test that is not known.
    """
    answering, bound = _without_shots(model, tasks, options)
    beside = None if control is None else _without_shots(control, tasks, {**options, "model_args": {}})[0]
    control_bound = None if control_task is None else _without_shots(model, control_task, options)[1][0]
    return contamination_of_tasks(
        answering, bound, settings or ContaminationSettings(), control=beside, control_task=control_bound, told=told
    )


def audit_prompts(
    models: Sequence[Any],
    tasks: str | Sequence[str],
    system_prompts: Sequence[str] = SYSTEM_PROMPTS,
    *,
    told: Told = lambda _: None,
    **options: Unpack[EvaluateOptions],
) -> list[PromptAudit]:
    """Ask models the same multiple choice samples in many forms, under system prompts and option orders.

    Args:
        models: each as `evaluate` takes it; `model_args` is the first one's.
        tasks: names, groups, globs or files.
        system_prompts: put before the task's own form (as the chat's system message, with a chat template); fewer
            than two: none are compared.
        told: called with a line before each form.
        options: as `evaluate`; tasks are read without shots.

    Raises: as `evaluate`; DataError for a task without choices.
    """
    found: list[PromptAudit] = []
    for number, model in enumerate(models):
        own: EvaluateOptions = options if number == 0 else {**options, "model_args": {}}
        answering, bound = _without_shots(model, tasks, own)
        for one in bound if number == 0 else ():
            askable_items(one)  # a task that cannot be asked so is told now, not after the others
        chosen = system_prompts if len(system_prompts) > 1 else ()
        variants = [
            (text or "none", _without_shots(answering, tasks, {**own, "system_instruction": text or None})[1])
            for text in chosen
        ]
        render = render_of(answering) if options.get("apply_chat_template") else None
        for place, one in enumerate(bound):
            systems = [PromptVariant(name, tasks_under[place], render) for name, tasks_under in variants]
            found.append(prompts_of_task(answering, one, systems, told=told))
        answering.close()
    return found


def audit_calibration(run: Run, tasks: Sequence[str] = ()) -> list[CalibrationAudit]:
    """Return how well the confidences of a stored run fit its answers.

    Raises: DataError where it has no multiple choice task; UnknownName for a task it does not have.
    """
    names = run.row.tasks
    for task in tasks:
        if task not in names:
            raise UnknownName("task in this run", task, nearest(task, names), f"it has: {', '.join(names[:10])}")
    return calibration_of_run(run.store, run.id, tasks)


def _without_shots(
    model: Any, tasks: str | Sequence[str], options: EvaluateOptions
) -> tuple[Model, tuple[BoundTask, ...]]:
    answering, prepared = prepare_run(model, tasks, {**options, "num_fewshot": 0})
    return answering, prepared.bound


def check_ending(path: Path | None) -> None:
    """Raise UsageError for a file that `write_json` would refuse, before anything is asked."""
    if path is not None and path.suffix != ".json":
        raise UsageError(f"'{path.name}' ends in '{path.suffix}'; audits are written as .json")


def write_json(path: Path, value: JsonValue) -> Path:
    """Write a result as JSON; undefined is null.

    Raises: UsageError for another ending than .json; StoreError if it cannot be written.
    """
    check_ending(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=2, ensure_ascii=False, default=str, allow_nan=False) + "\n")
    except OSError as error:
        raise StoreError(f"the audit cannot be written to {path}: {error}; name another file") from error
    return path
