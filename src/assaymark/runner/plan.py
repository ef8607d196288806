"""Make a frozen plan from a selection of tasks, a model and options: tasks bound to data, model identity, run key.

Nothing is rendered, tokenised or loaded here beyond configuration and data digests, so making a plan is quick, and a
run that is completely stored is recognised by its key alone.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assaymark.errors import PlanError
from assaymark.models.cost.bill import Bill
from assaymark.models.model import Model
from assaymark.records import Message, Render, RunPlan
from assaymark.runner.bind_tasks import Wanted, bind_tasks
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.task import KIND_OF_OUTPUT_TYPE, Selection


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run, beyond its model and its tasks."""

    bind: BindOptions = field(default_factory=BindOptions)
    samples: tuple[tuple[str, tuple[int, ...]], ...] = ()  # task -> positions to evaluate, nothing else of it
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of the plan that are not in `bind`
    partial: bool = False  # omit the members of a suite that cannot be evaluated
    n_workers: int = 1  # processes that run the model
    bill: Bill | None = None  # what the requests cost, and the limit; no part of the plan


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A plan and what is needed to carry it out."""

    plan: RunPlan
    bound: tuple[BoundTask, ...]
    selection: Selection
    options: RunOptions


def prepare(selection: Selection, model: Model, options: RunOptions) -> PreparedRun:
    """Bind every selected task to its data and freeze the plan.

    Raises: PlanError if nothing is selected, the model cannot give the kind of answer a task needs, or a suite has
        members that cannot be evaluated; DataError if a task's data are unavailable.
    """
    if not selection.tasks:
        raise PlanError("no task is selected; name at least one with --tasks (see `assaymark ls tasks`)")
    unanswerable = _unanswerable_members(selection, model)
    refuse_unanswerable(selection, model, leave=unanswerable)
    _refuse_images(selection, model, leave=unanswerable)
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
    """Return the plan's fields that record the options its tasks are bound with."""
    return {
        "profile": bind.profile.name,
        "seed": bind.profile.seed if bind.seed is None else bind.seed,
        "limit": bind.limit,
        "apply_chat_template": bind.apply_chat_template and bind.preset is None,
        "fewshot_as_multiturn": bind.fewshot_as_multiturn,
        "system_instruction": bind.system_instruction,
    }


def _where_code_runs(bound: Sequence[BoundTask]) -> dict[str, str] | None:
    """Return, by task, the sandbox in which generated code is run, for the plan; None where no task runs any."""
    sandboxes: dict[str, str] = {}
    for one in bound:
        sandbox = one.sandbox
        if sandbox is not None:
            sandboxes[one.task.name] = sandbox.name
        elif one.task.spec.get("unsafe_code"):
            sandboxes[one.task.name] = "by the task's own functions, without a sandbox (--unsafe-code)"
    return sandboxes or None


def _refuse_strange_samples(selection: Selection, options: RunOptions) -> None:
    """Raise PlanError where sample positions are given for a task that is not selected."""
    selected = {task.name for task in selection.tasks}
    for name, _ in options.samples:
        if name not in selected:
            raise PlanError(
                f"samples are given for '{name}', which is not among the tasks: {', '.join(sorted(selected)[:5])}"
            )


def _unanswerable_members(selection: Selection, model: Model) -> Mapping[str, str]:
    """Return the tasks of suites that need a kind of query the model cannot answer, each with the reason."""
    of_suites = {leaf for chosen in selection.suites for leaves in chosen.leaves for leaf in leaves}
    identity, able = model.identity, model.answers
    members = [task for task in selection.tasks if task.name in of_suites]
    who = f"model '{identity.name}' ({identity.kind})"
    blind = {} if takes_images(model) else {t.name: f"{who} takes no images" for t in members if t.prompt.image}
    return blind | {
        task.name: f"{who} cannot answer {task.output_type}"
        for task in members
        if KIND_OF_OUTPUT_TYPE.get(task.output_type) not in able
    }


def refuse_unanswerable(selection: Selection, model: Model, leave: Container[str] = ()) -> None:
    """Raise PlanError where tasks need a kind of query the model cannot answer, naming all such tasks at once.

    Those in `leave` are not checked here.
    """
    able = model.answers
    refused = [
        t.name for t in selection.tasks if t.name not in leave and KIND_OF_OUTPUT_TYPE.get(t.output_type) not in able
    ]
    if not refused:
        return
    shown = ", ".join(refused[:5]) + (f" and {len(refused) - 5} more" if len(refused) > 5 else "")
    kinds = sorted({t.output_type for t in selection.tasks if t.name in set(refused)})
    remedy = "omit those tasks"
    if model.takes_messages:
        remedy += (
            ", have their questions answered by generation (--prompt_style cot), score letters by the first token "
            "(top_logprobs=20 in --model_args), or use a completions endpoint "
            "(--model local-completions): a chat endpoint gives no log-probabilities of a given text"
        )
    raise PlanError(
        f"model '{model.identity.name}' ({model.identity.kind}) cannot answer {', '.join(kinds)}, "
        f"which these tasks need: {shown}; it can answer {', '.join(sorted(able))}; {remedy}"
    )


def takes_images(model: Model) -> bool:
    """Return whether a model is sent images; models of users that were written before images are not."""
    return bool(getattr(model, "takes_images", False))


def _refuse_images(selection: Selection, model: Model, leave: Container[str] = ()) -> None:
    """Raise PlanError where a model that takes text only would be sent images. Those in `leave` are not checked."""
    with_images = [task.name for task in selection.tasks if task.prompt.image is not None and task.name not in leave]
    if with_images and not takes_images(model):
        raise PlanError(
            f"model '{model.identity.name}' ({model.identity.kind}) takes text only, and {with_images[0]} has images; "
            "expected a model of images and text (--model hf-multimodal) or a chat server (--model "
            "local-chat-completions)"
        )


def _refuse_plain_text(selection: Selection, model: Model, options: RunOptions) -> None:
    """Raise PlanError where a model that is sent messages would be sent plain text."""
    if not model.takes_messages:
        return
    who = f"model '{model.identity.name}' ({model.identity.kind}) is sent messages"
    if options.bind.preset is not None or isinstance(options.settings.get("apply_chat_template"), str):
        raise PlanError(
            f"{who}, and its server applies a template of its own; omit --prompt_preset and the name of a template, "
            "or use a completions endpoint (--model local-completions)"
        )
    plain = [task.name for task in selection.tasks if not task.prompt.is_chat]
    if plain and not options.bind.apply_chat_template:
        raise PlanError(f"{who}, and {plain[0]} would be plain text; add --apply_chat_template")
    classes = [task.name for task in selection.tasks if task.python_class is not None]
    if classes:
        raise PlanError(
            f"{who}, and {classes[0]} is a Python class of lm-eval, which makes plain text; omit it, or use a "
            "completions endpoint (--model local-completions)"
        )


def render_of(model: Model) -> Render | None:
    """Return the function that renders messages with a model's chat template; None where its server does that."""
    if model.takes_messages:
        return None

    def render(messages: Sequence[Message], continue_final: bool, /, tools: str | None = None) -> str:
        if tools is None:  # also for models of users that were written before tools
            return model.render(messages, continue_final=continue_final)
        return model.render(messages, continue_final=continue_final, tools=tools)

    return render
