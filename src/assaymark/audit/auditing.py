"""Audits of models and tasks given by name.

Also the kinds of stored audits, and the display of their results.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from assaymark.audit.calibration import audit_calibration as calibration_of_run
from assaymark.audit.contamination import (
    ContaminationSettings,
    ContaminationTest,
    check_tests,
    corrected,
    settings_json,
)
from assaymark.audit.contamination import audit_contamination as contamination_of_tasks
from assaymark.audit.efficiency import EfficiencyFit
from assaymark.audit.likelihoods import Likelihoods
from assaymark.audit.notebook import CalibrationAudits, ContaminationTests, PromptAudits
from assaymark.audit.prompts import PromptAudit, SystemPrompt, eligible_items, variants_hash
from assaymark.audit.prompts import audit_prompts as prompts_of_task
from assaymark.audit.stored import PARTS, StoredAudit, audit_plan, stored_audit, stored_parts
from assaymark.drafts import write_whole
from assaymark.errors import PlanError, UsageError, write_errors
from assaymark.models.lending import gives_back
from assaymark.models.model import Model
from assaymark.records import AUDIT, AuditPlan, JsonValue, RunPlan
from assaymark.records.json_values import json_of
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import RunOpener
from assaymark.runs.plan import PreparedRun, render_of
from assaymark.runs.prepare import open_store, prepare_run
from assaymark.runs.run import Run
from assaymark.runs.stored import AuditKind, stored_line
from assaymark.store import RunRow, Store
from assaymark.tasks.bound import BoundTask

if TYPE_CHECKING:
    from assaymark.documents.document import Document

CONTAMINATION = "contamination"
CONTROL = "contamination, control"
PROMPTS = "prompts"
EFFICIENCY = "efficiency"


def _stored_audit(_store: Store, row: RunRow) -> "tuple[JsonValue, Document]":
    from assaymark.audit.documents import contamination_document, contamination_json

    parts: list[tuple[ContaminationTest, ...]] = stored_parts(row, tuple[ContaminationTest, ...])
    tests = corrected([test for part in parts for test in part])
    return contamination_json(tests), contamination_document(tests)


def _prompts(_store: Store, row: RunRow) -> "tuple[JsonValue, Document]":
    from assaymark.audit.documents import prompts_document

    audits: list[PromptAudit] = stored_parts(row, PromptAudit)
    return {"audits": json_of(audits), "ranks": []}, prompts_document(audits)


def _efficiency(_store: Store, row: RunRow) -> "tuple[JsonValue, Document]":
    from assaymark.audit.documents import efficiency_document

    content = row.extra[AUDIT][PARTS][EFFICIENCY]
    return content, efficiency_document(EfficiencyFit.from_json(content))


contamination_kind = AuditKind(_stored_audit)
control_kind = AuditKind(
    _stored_audit, remark="responses of a control model; see their results with the audit that used it"
)
prompts_kind = AuditKind(_prompts)
efficiency_kind = AuditKind(_efficiency)


Announce = Callable[[str], None]
SYSTEM_PROMPTS = (
    "",
    "You are a helpful assistant.",
    "Answer the question.",
    "You are an expert. Think carefully and give the right answer.",
)


@gives_back
def audit_contamination(
    model: object,
    tasks: str | Sequence[str],
    settings: ContaminationSettings | None = None,
    *,
    control: str | Path | None = None,
    control_task: str | None = None,
    announce: Announce = lambda _: None,
    **options: Unpack[EvaluateOptions],
) -> ContaminationTests:
    """Test whether a model has seen tasks in training, by log-likelihoods that would differ if it had.

    The same call continues an interrupted audit: no stored response is requested again.

    Args:
        model: as for `evaluate`.
        tasks: names, groups, globs or files.
        settings: which tests to run, and their parameters.
        control: folder or hub id of a model that cannot have seen the tasks.
        control_task: a task of the same kind that cannot have been seen.
        announce: called with a line before each test, and at the end with the id of the stored audit.
        options: as for `evaluate`; tasks are evaluated without shots.

    Raises: as `evaluate`; UsageError for an unknown test, or one that this model does not support.
    """
    wanted = settings or ContaminationSettings()
    bare: EvaluateOptions = {**options, "num_fewshot": 0}
    opened_model, prepared = prepare_run(model, tasks, bare)
    _refuse_images(prepared)
    check_tests(wanted, opened_model)
    prepared_control = None if control is None else prepare_run(control, tasks, {**bare, "model_args": {}})
    other = None if control_task is None else prepare_run(opened_model, control_task, bare)[1].bound[0]
    return ContaminationTests(
        _contamination((opened_model, prepared), wanted, prepared_control, other, announce, options)
    )


def _refuse_images(prepared: PreparedRun) -> None:
    """Raise PlanError for tasks with images: an audit words questions anew, and its own prompts are of text."""
    for task in prepared.selection.tasks:
        if task.prompt.image is not None:
            raise PlanError(f"task {task.name} has images, and an audit's own prompts are of text only; omit it")


def _contamination(
    tested: tuple[Model, PreparedRun], settings: ContaminationSettings, control: tuple[Model, PreparedRun] | None,
    control_task: BoundTask | None, announce: Announce, options: EvaluateOptions,
) -> list[ContaminationTest]:  # fmt: skip
    identity = None if control is None else control[0].identity
    facts = settings_json(settings, identity, None if control_task is None else control_task.plan)
    store = open_store(options)
    with ExitStack() as stack:
        bound = () if control_task is None else (control_task,)
        opener = partial(_opener, store, announce, options, (*tested[1].bound, *bound))
        opened = partial(_opened, stack, opener, facts, options.get("command"))
        audit = opened(CONTAMINATION, *tested)
        tests = contamination_of_tasks(
            Likelihoods(tested[0], audit.answer),
            tested[1].bound,
            settings,
            control=None if control is None else Likelihoods(control[0], opened(CONTROL, *control).answer),
            control_task=control_task,
            notify=announce,
            keep=audit.part,
        )
    announce(stored_line(store, audit.run_id))
    return tests


def _opened(
    stack: ExitStack, opener: Callable[[RunPlan], RunOpener], facts: Mapping[str, JsonValue], command: str | None,
    kind: str, model: Model, prepared: PreparedRun,
) -> StoredAudit:  # fmt: skip
    """Return an open audit of this kind, which is closed with the stack."""
    plan = audit_plan(prepared.plan, kind, facts)
    return stack.enter_context(stored_audit(opener(plan), model, command))


def _opener(
    store: Store, announce: Announce, options: EvaluateOptions, bound: Sequence[BoundTask], plan: RunPlan
) -> RunOpener:
    return RunOpener(store, plan, options.get("wait", True), announce, bound=bound)


@gives_back
def audit_prompts(
    models: Sequence[object],
    tasks: str | Sequence[str],
    system_prompts: Sequence[str] = SYSTEM_PROMPTS,
    *,
    announce: Announce = lambda _: None,
    **options: Unpack[EvaluateOptions],
) -> PromptAudits:
    """Evaluate models on multiple-choice samples with many prompt variants, system prompts and option orders.

    Each model has an audit of its own. The same call continues interrupted audits: no stored response is requested
    again.

    Args:
        models: each as for `evaluate`; `model_args` applies to the first one.
        tasks: names, groups, globs or files.
        system_prompts: texts before the task's own prompt (with a chat template, its system message); with fewer than
            two, none are compared.
        announce: called with a line before each variant, and with the id of each stored audit.
        options: as for `evaluate`; shots have the wording of each variant.

    Raises: as `evaluate`; DataError for a task without choices.
    """
    chosen = tuple(system_prompts) if len(system_prompts) > 1 else ()
    store, audits = open_store(options), PromptAudits()
    for number, model in enumerate(models):
        own: EvaluateOptions = options if number == 0 else {**options, "model_args": {}}
        opened, prepared = prepare_run(model, tasks, own)
        _refuse_images(prepared)
        plan = audit_plan(prepared.plan, PROMPTS, {"systems": list(chosen), "forms": variants_hash()})
        opener = _opener(store, announce, options, prepared.bound, plan)
        with stored_audit(opener, opened, options.get("command")) as audit:
            audits += _prompts_of(audit, opened, prepared, _SystemPrompts(chosen, tasks, own), announce)
        announce(stored_line(store, audit.run_id))
        opened.close()
    return audits


@dataclass(frozen=True, slots=True)
class _SystemPrompts:
    """The system prompts of an audit, with the tasks and options to bind under each."""

    texts: tuple[str, ...]
    tasks: str | Sequence[str]
    options: EvaluateOptions

    def variants(self, model: Model, position: int) -> list[SystemPrompt]:
        """Return the task at a position of the selection under each system prompt."""
        render = render_of(model) if self.options.get("apply_chat_template") else None
        variants = []
        for text in self.texts:
            _, prepared = prepare_run(model, self.tasks, {**self.options, "system_instruction": text or None})
            variants.append(SystemPrompt(text or "none", prepared.bound[position], render))
        return variants


def _prompts_of(
    audit: StoredAudit, model: Model, prepared: PreparedRun, systems: _SystemPrompts, announce: Announce
) -> list[PromptAudit]:
    """Return one model's audits of its tasks; raise DataError for an unsuitable task before any is evaluated."""
    for bound in prepared.bound:
        if not audit.has(bound.plan.name):
            eligible_items(bound)
    likelihoods = Likelihoods(model, audit.answer)

    def make(position: int) -> PromptAudit:
        variants = systems.variants(model, position)
        return prompts_of_task(likelihoods, prepared.bound[position], variants, notify=announce)

    return [
        audit.part(bound.plan.name, PromptAudit, partial(make, position))
        for position, bound in enumerate(prepared.bound)
    ]


def audit_calibration(run: Run, tasks: Sequence[str] = ()) -> CalibrationAudits:
    """Return the calibration of a stored run, by task.

    Raises: DataError if it has no multiple-choice task; UnknownName for a task it does not have.
    """
    run.check_tasks(tasks)
    return CalibrationAudits(calibration_of_run(run.store, run.id, tasks))


def store_efficiency(
    store: Store, model: Model, fit: EfficiencyFit, settings: Mapping[str, JsonValue], command: str | None = None
) -> str:
    """Store a fit with its machine as an audit of its own, and return the audit's id.

    Each measurement is another one, also of the same model on the same machine.

    settings: what was asked for: lengths, answers, repeats.

    Raises: StoreError if the store cannot be written.
    """
    measured = {"measured_at": datetime.now(UTC).isoformat(), **settings}
    plan = RunPlan(model.identity, EFFICIENCY, (), audit_settings=AuditPlan(EFFICIENCY, 1, measured))
    opened = store.open_run(plan, facts=dict(fit.machine), command=command)
    store.save_estimates(opened.run_id, (), {AUDIT: {PARTS: {EFFICIENCY: fit.to_json()}}})
    store.close_run(opened.run_id, opened.attempt_id, "finished")
    return opened.run_id


def check_ending(path: Path | None) -> None:
    """Raise UsageError for a file that `write_json` would refuse, before the evaluation begins."""
    if path is not None and path.suffix != ".json":
        raise UsageError(f"'{path.name}' ends in '{path.suffix}'; audits are written as .json")


def write_json(path: Path, value: object) -> Path:
    """Write a result as JSON; undefined numbers are null.

    Raises: UsageError for a suffix other than .json; StoreError if it cannot be written.
    """
    check_ending(path)
    with write_errors("the audit", "name another file", to=path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(json_of(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return path
