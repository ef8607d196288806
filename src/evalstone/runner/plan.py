"""From what was asked for to a frozen plan: tasks bound to data, the model's identity, the run key.

Nothing is rendered, tokenised or loaded here beyond configuration and data digests, so making a plan is quick, and a
run that is wholly in the store is recognised from its key alone.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalstone.errors import PlanError
from evalstone.models.model import Model
from evalstone.records import Message, Render, RunPlan
from evalstone.runner.bind_tasks import Wanted, bind_tasks
from evalstone.tasks.bound import BindOptions, BoundTask
from evalstone.tasks.task import KIND_OF_OUTPUT_TYPE, Selection


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run is asked to be, beyond its model and its tasks."""

    bind: BindOptions = field(default_factory=BindOptions)
    samples: tuple[tuple[str, tuple[int, ...]], ...] = ()  # task -> positions to evaluate, nothing else of it
    settings: Mapping[str, Any] = field(default_factory=dict)  # the plan's fields that tasks are not bound with
    partial: bool = False  # leave out the members of a suite that cannot be asked
    n_workers: int = 1  # processes that answer


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A plan with what is needed to carry it out."""

    plan: RunPlan
    bound: tuple[BoundTask, ...]
    selection: Selection
    options: RunOptions


def prepare(selection: Selection, model: Model, options: RunOptions) -> PreparedRun:
    """Bind every selected task to its data and freeze the plan.

    Raises: PlanError if nothing is selected, the model cannot give the kind of answer a task needs, or a suite has
        members that cannot be asked; DataError if a task's data cannot be had.
    """
    if not selection.tasks:
        raise PlanError("no task is selected; name at least one with --tasks (see `evalstone ls tasks`)")
    unanswerable = _unanswerable_members(selection, model)
    refuse_unanswerable(selection, model, leave=unanswerable)
    _refuse_plain_text(selection, model, options)
    _refuse_strange_samples(selection, options)
    selection, bound = bind_tasks(selection, unanswerable, Wanted(options.bind, dict(options.samples), options.partial))
    plan = RunPlan(
        model=model.identity,
        tasks=tuple(one.plan for one in bound),
        code_runs_in=_where_code_runs(bound),
        **{**_bound_fields(options.bind), **options.settings},
    )
    return PreparedRun(plan, bound, selection, options)


def _bound_fields(bind: BindOptions) -> dict[str, Any]:
    """Return the plan's fields that say what its tasks are bound with."""
    return {
        "profile": bind.profile.name,
        "seed": bind.profile.seed if bind.seed is None else bind.seed,
        "limit": bind.limit,
        "apply_chat_template": bind.apply_chat_template and bind.preset is None,
        "fewshot_as_multiturn": bind.fewshot_as_multiturn,
        "system_instruction": bind.system_instruction,
    }


def _where_code_runs(bound: Sequence[BoundTask]) -> dict[str, str] | None:
    """Return what the plan says about model-written code: None where no task runs any."""
    places: dict[str, str] = {}
    for one in bound:
        sandbox = one.sandbox
        if sandbox is not None:
            places[one.task.name] = sandbox.name
        elif one.task.spec.get("unsafe_code"):
            places[one.task.name] = "by the task's own functions, without a sandbox (--unsafe-code)"
    return places or None


def _refuse_strange_samples(selection: Selection, options: RunOptions) -> None:
    """Raise PlanError where positions are named for a task that is not asked."""
    asked = {task.name for task in selection.tasks}
    for name, _ in options.samples:
        if name not in asked:
            raise PlanError(
                f"samples are named for '{name}', which is not among the tasks: {', '.join(sorted(asked)[:5])}"
            )


def _unanswerable_members(selection: Selection, model: Model) -> Mapping[str, str]:
    """Return the tasks of suites that ask for what the model cannot give, each with the reason."""
    of_suites = {leaf for chosen in selection.suites for leaves in chosen.leaves for leaf in leaves}
    identity, able = model.identity, model.answers
    return {
        task.name: f"model '{identity.name}' ({identity.kind}) cannot answer {task.output_type}"
        for task in selection.tasks
        if task.name in of_suites and KIND_OF_OUTPUT_TYPE.get(task.output_type) not in able
    }


def refuse_unanswerable(selection: Selection, model: Model, leave: Container[str] = ()) -> None:
    """Raise PlanError where a task asks for what the model cannot give, naming all such tasks at once.

    Those in `leave` are refused elsewhere.
    """
    able = model.answers
    refused = [
        t.name for t in selection.tasks if t.name not in leave and KIND_OF_OUTPUT_TYPE.get(t.output_type) not in able
    ]
    if not refused:
        return
    shown = ", ".join(refused[:5]) + (f" and {len(refused) - 5} more" if len(refused) > 5 else "")
    kinds = sorted({t.output_type for t in selection.tasks if t.name in set(refused)})
    remedy = "leave those tasks out"
    if model.takes_messages:
        remedy += (
            ", put their questions to be answered in writing (--prompt_style cot), or ask a completions endpoint "
            "(--model local-completions): a chat endpoint gives no log-probabilities of a given text"
        )
    raise PlanError(
        f"model '{model.identity.name}' ({model.identity.kind}) cannot answer {', '.join(kinds)}, "
        f"which these tasks ask for: {shown}; it can answer {', '.join(sorted(able))}; {remedy}"
    )


def _refuse_plain_text(selection: Selection, model: Model, options: RunOptions) -> None:
    """Raise PlanError where a model that is sent messages would be asked in text."""
    if not model.takes_messages:
        return
    who = f"model '{model.identity.name}' ({model.identity.kind}) is sent messages"
    if options.bind.preset is not None or isinstance(options.settings.get("apply_chat_template"), str):
        raise PlanError(
            f"{who}, and its server puts them into a template of its own; leave out --prompt_preset and the name of a "
            "template, or ask a completions endpoint (--model local-completions)"
        )
    plain = [task.name for task in selection.tasks if task.prompt.turns is None]
    if plain and not options.bind.apply_chat_template:
        raise PlanError(f"{who}, and {plain[0]} would be plain text; add --apply_chat_template")
    classes = [task.name for task in selection.tasks if task.python_class is not None]
    if classes:
        raise PlanError(
            f"{who}, and {classes[0]} is a Python class of lm-eval, which makes text; leave it out, or ask a "
            "completions endpoint (--model local-completions)"
        )


def render_of(model: Model) -> Render | None:
    """Return what puts messages into a model's chat template; None where its server does that."""
    if model.takes_messages:
        return None

    def render(messages: Sequence[Message], continue_final: bool) -> str:
        return model.render(messages, continue_final=continue_final)

    return render
