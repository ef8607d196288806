"""Audits as a user calls them: models and tasks by name, results to print or to write."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from evalstone.api.audits import CONTAMINATION, CONTROL, PROMPTS, where_kept
from evalstone.api.run import Run
from evalstone.audit.calibration import CalibrationAudit
from evalstone.audit.calibration import audit_calibration as calibration_of_run
from evalstone.audit.contamination import ContaminationSettings, ContaminationTest, check_tests, settings_json
from evalstone.audit.contamination import audit_contamination as contamination_of_tasks
from evalstone.audit.likelihoods import Likelihoods
from evalstone.audit.prompt_variants import forms_hash
from evalstone.audit.prompts import PromptAudit, PromptVariant, askable_items
from evalstone.audit.prompts import audit_prompts as prompts_of_task
from evalstone.audit.stored import StoredAudit, audit_plan, stored_audit
from evalstone.drafts import write_whole
from evalstone.errors import StoreError, UnknownName, UsageError
from evalstone.models.lending import gives_back
from evalstone.models.model import Model
from evalstone.records import JsonValue, RunPlan
from evalstone.registry import nearest
from evalstone.runner.evaluate_options import EvaluateOptions
from evalstone.runner.opening import RunOpener
from evalstone.runner.plan import PreparedRun, render_of
from evalstone.runner.prepare import open_store, prepare_run
from evalstone.store import Store
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


@gives_back
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
        told: called with a line before each test, and with the audit's name in the store.
        options: as `evaluate`; tasks are read without shots. The same call again asks for no answer that is stored.

    Raises: as `evaluate`; UsageError for a test that is not known, or cannot be had of this model.
    """
    wanted = settings or ContaminationSettings()
    bare: EvaluateOptions = {**options, "num_fewshot": 0}
    answering, prepared = prepare_run(model, tasks, bare)
    check_tests(wanted, answering)
    beside = None if control is None else prepare_run(control, tasks, {**bare, "model_args": {}})
    other = None if control_task is None else prepare_run(answering, control_task, bare)[1].bound[0]
    return _contamination((answering, prepared), wanted, beside, other, told, options)


def _contamination(
    asked: tuple[Model, PreparedRun], settings: ContaminationSettings, control: tuple[Model, PreparedRun] | None,
    control_task: BoundTask | None, told: Told, options: EvaluateOptions,
) -> list[ContaminationTest]:  # fmt: skip
    identity = None if control is None else control[0].identity
    facts = settings_json(settings, identity, None if control_task is None else control_task.plan)
    store = open_store(options)
    with ExitStack() as stack:
        opened = partial(_opened, stack, partial(_opener, store, told, options), facts, options.get("command"))
        audit = opened(CONTAMINATION, *asked)
        found = contamination_of_tasks(
            Likelihoods(asked[0], audit.answer),
            asked[1].bound,
            settings,
            control=None if control is None else Likelihoods(control[0], opened(CONTROL, *control).answer),
            control_task=control_task,
            told=told,
            keep=audit.part,
        )
    told(where_kept(store, audit.run_id))
    return found


def _opened(
    stack: ExitStack, opener: Callable[[RunPlan], RunOpener], facts: Mapping[str, JsonValue], command: str | None,
    kind: str, model: Model, prepared: PreparedRun,
) -> StoredAudit:  # fmt: skip
    """Return an audit of this kind, closed when the stack is."""
    plan = audit_plan(prepared.plan, kind, facts)
    return stack.enter_context(stored_audit(opener(plan), model, command))


def _opener(store: Store, told: Told, options: EvaluateOptions, plan: RunPlan) -> RunOpener:
    return RunOpener(store, plan, options.get("wait", True), told)


@gives_back
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
        told: called with a line before each form, and with each audit's name in the store.
        options: as `evaluate`; shots are put in each form's own wording.

    The same call again asks for no answer that is stored, as with `evaluate`. Each model is an audit of its own.

    Raises: as `evaluate`; DataError for a task without choices.
    """
    chosen = tuple(system_prompts) if len(system_prompts) > 1 else ()
    store, found = open_store(options), list[PromptAudit]()
    for number, model in enumerate(models):
        own: EvaluateOptions = options if number == 0 else {**options, "model_args": {}}
        answering, prepared = prepare_run(model, tasks, own)
        plan = audit_plan(prepared.plan, PROMPTS, {"systems": list(chosen), "forms": forms_hash()})
        with stored_audit(_opener(store, told, options, plan), answering, options.get("command")) as audit:
            found += _prompts_of(audit, answering, prepared, _Systems(chosen, tasks, own), told)
        told(where_kept(store, audit.run_id))
        answering.close()
    return found


@dataclass(frozen=True, slots=True)
class _Systems:
    """The system prompts of an audit, and what tasks are bound under them with."""

    texts: tuple[str, ...]
    tasks: str | Sequence[str]
    options: EvaluateOptions

    def variants(self, model: Model, place: int) -> list[PromptVariant]:
        """Return the task at a place of the selection under each system prompt."""
        render = render_of(model) if self.options.get("apply_chat_template") else None
        found = []
        for text in self.texts:
            _, prepared = prepare_run(model, self.tasks, {**self.options, "system_instruction": text or None})
            found.append(PromptVariant(text or "none", prepared.bound[place], render))
        return found


def _prompts_of(
    audit: StoredAudit, model: Model, prepared: PreparedRun, systems: _Systems, told: Told
) -> list[PromptAudit]:
    """Return one model's audits of its tasks; a task that cannot be asked so is told before any is asked."""
    for bound in prepared.bound:
        if not audit.has(bound.plan.name):
            askable_items(bound)
    asked = Likelihoods(model, audit.answer)

    def make(place: int) -> PromptAudit:
        return prompts_of_task(asked, prepared.bound[place], systems.variants(model, place), told=told)

    return [
        audit.part(bound.plan.name, PromptAudit, partial(make, place)) for place, bound in enumerate(prepared.bound)
    ]


def audit_calibration(run: Run, tasks: Sequence[str] = ()) -> list[CalibrationAudit]:
    """Return how well the confidences of a stored run fit its answers.

    Raises: DataError where it has no multiple choice task; UnknownName for a task it does not have.
    """
    names = run.row.tasks
    for task in tasks:
        if task not in names:
            raise UnknownName("task in this run", task, nearest(task, names), f"it has: {', '.join(names[:10])}")
    return calibration_of_run(run.store, run.id, tasks)


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
        write_whole(path, json.dumps(value, indent=2, ensure_ascii=False, default=str, allow_nan=False) + "\n")
    except OSError as error:
        raise StoreError(f"the audit cannot be written to {path}: {error}; name another file") from error
    return path
