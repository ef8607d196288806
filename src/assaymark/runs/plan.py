"""Make a frozen plan from a selection of tasks, a model and options: tasks bound to data, model identity, run key.

Nothing is rendered, tokenised or loaded here beyond configuration and data digests, so making a plan is quick, and a
run that is completely stored is recognised by its key alone.

Every selected task is bound to its data. A task named alone fails at once. For a suite, one message names every member
that cannot be evaluated, with the reason, so that they need not be fixed one by one; with `partial` the others are
evaluated and the suite has no composite.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assaymark.errors import AssaymarkError, DataError, MissingExtra, PlanError, UsageError, few
from assaymark.models.cost.bill import Bill
from assaymark.models.model import Model
from assaymark.models.text.generation_prompts import DEFAULT_MAX_TOKENS
from assaymark.perturbations.named import perturbation_from
from assaymark.records import Message, Render, RunPlan
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import missing_members
from assaymark.tasks.circular import circular_group
from assaymark.tasks.functions import broken_declarations
from assaymark.tasks.generation import MAX_TOKENS
from assaymark.tasks.perturbed_tasks import with_perturbed
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.suites import ChosenSuite
from assaymark.tasks.task import KIND_OF_OUTPUT_TYPE, Selection, Task, refuse_missing_packages


@dataclass(slots=True)
class TaskRegister:
    """A cache of tasks bound for one model, for further models: their rows are read and hashed once."""

    _entries: list[tuple[Task, BindOptions, BoundTask]] = field(default_factory=list)

    def bind(self, task: Task, options: BindOptions) -> BoundTask:
        """Return the task bound with these options, from the cache if possible. Raises: as `bind`."""
        for own, known, bound_task in self._entries:
            if own is task and known == options:
                return bound_task
        self._entries.append((task, options, bind(task, options)))
        return self._entries[-1][2]


@dataclass(frozen=True, slots=True)
class WantedTasks:
    """The options that tasks are bound with."""

    bind: BindOptions
    samples: Mapping[str, tuple[int, ...]]  # task -> positions to evaluate, nothing else of it
    partial: bool = False
    register: TaskRegister = field(default_factory=TaskRegister)


def bind_tasks(
    selection: Selection, unanswerable: Mapping[str, str], wanted: WantedTasks
) -> tuple[Selection, tuple[BoundTask, ...]]:
    """Return the selection, without the missing members of a partial suite, and its bound tasks.

    Tasks outside suites that need an extra which is not installed are left out, with a note, if others are left.

    unanswerable: task -> why the model cannot answer it; tasks of suites only. wanted: the options they are bound with.

    Raises: PlanError if shots are given beside a suite's own, or members of a suite cannot be evaluated; what `bind`
        raises, for a task outside a suite.
    """
    _refuse_other_shots(selection, wanted)
    for chosen in selection.suites:
        _check_metrics(chosen, {task.name: task for task in selection.tasks})
    of_suites = {leaf for chosen in selection.suites for leaves in chosen.leaves for leaf in leaves}
    bound: list[BoundTask] = []
    refused = dict(unanswerable)
    lacking: dict[str, MissingExtra] = {}
    for task in selection.tasks:
        if task.name in refused:
            continue
        try:
            bound.append(_bound(task, selection, wanted))
        except MissingExtra as error:
            if task.name in of_suites:
                refused[task.name] = _first_line(error)
            else:
                lacking[task.name] = error
        except (DataError, UsageError) as error:
            if task.name not in of_suites:
                raise
            refused[task.name] = _first_line(error)
    if lacking:
        if not bound:
            raise next(iter(lacking.values()))
        notes = [f"left out: {name}: {_first_line(error)}" for name, error in lacking.items()]
        selection = replace(_without(selection, {*lacking}), notes=(*selection.notes, *notes))
    if wanted.bind.circular:
        selection = _circular(selection, bound)
    if not refused:
        return _noted(selection, bound), tuple(bound)
    suites = tuple(_with_missing(chosen, refused) for chosen in selection.suites)
    if not wanted.partial:
        raise PlanError("\n".join(missing_members(s.suite.name, s.missing) for s in suites if s.missing))
    if not bound:
        raise PlanError(f"none of the {len(selection.tasks)} tasks can be evaluated: {next(iter(refused.values()))}")
    return _noted(_without(replace(selection, suites=suites), refused), bound), tuple(bound)


def _bound(task: Task, selection: Selection, wanted: WantedTasks) -> BoundTask:
    """Bind one task with its own shots and sample positions, if given."""
    shots = dict(selection.shots).get(task.name)
    options = wanted.bind if shots is None else replace(wanted.bind, num_fewshot=shots)
    at_most = [
        chosen.suite.at_most
        for chosen in selection.suites
        if any(task.name in leaves for leaves in chosen.leaves) and chosen.suite.at_most
    ]
    if at_most:
        options = replace(options, at_most=min(at_most))
    if task.name in wanted.samples:
        options = replace(options, sample_indices=wanted.samples[task.name])
    refuse_missing_packages(task)
    bound_task = wanted.register.bind(task, options)
    if shots is not None and bound_task.plan.num_fewshot != shots:
        raise PlanError(
            f"task {task.name} was requested at {shots} shots but fixes its own: {bound_task.plan.num_fewshot}"
        )
    return bound_task


def _circular(selection: Selection, bound: Sequence[BoundTask]) -> Selection:
    """Return the selection with averages of the rotations in its groups, and a note on tasks without rotations.

    A group gets them if all of its tasks are evaluated in rotations, since an average over some tasks differs.

    Raises: PlanError if no task is.
    """
    left = {task.plan.name: task.not_circular for task in bound if task.not_circular is not None}
    reasons: dict[str, list[str]] = {}
    for name, why in left.items():
        reasons.setdefault(why, []).append(name)
    listed = "; ".join(f"{few(names)}: {why}" for why, names in reasons.items())
    if len(left) == len(bound):
        raise PlanError(f"circular: no task here can be asked in rotations of its options: {listed}; omit --circular")
    children = {group.name: group.children for group in selection.groups}
    rotated = {task.plan.name for task in bound} - set(left)

    def is_rotated(name: str) -> bool:
        return name in rotated or (name in children and all(map(is_rotated, children[name])))

    groups = tuple(circular_group(group) if is_rotated(group.name) else group for group in selection.groups)
    notes = [f"evaluated in the file's order of options only, without circular_acc: {listed}"] if left else []
    return replace(selection, groups=groups, notes=(*selection.notes, *notes))


def _refuse_other_shots(selection: Selection, wanted: WantedTasks) -> None:
    shots = wanted.bind.num_fewshot
    if shots is None or not selection.shots:
        return
    who = ", ".join(f"suite {chosen.suite.name}" for chosen in selection.suites) or selection.shots[0][0]
    fixed = sorted({n for _, n in selection.shots})
    raise PlanError(
        f"num_fewshot is {shots}, but {who} fixes the shots of each task ({', '.join(map(str, fixed))}), and with "
        "other shots it would be another benchmark; omit num_fewshot, or name the tasks themselves with --tasks"
    )


def _check_metrics(chosen: ChosenSuite, tasks: Mapping[str, Task]) -> None:
    """Raise DataError where a suite names a metric or filter that a task does not have."""
    for member, leaves in zip(chosen.suite.members, chosen.leaves, strict=True):
        for task in (tasks[leaf] for leaf in leaves):
            known = {(metric.name, name) for metric in task.metrics for name in metric.filters}
            lacking = [metric for metric in member.metrics if (metric, member.filter) not in known]
            if known and lacking and task.python_class is None:
                raise DataError(
                    f"suite {chosen.suite.name}: task {task.name} has no {lacking[0]} under the filter "
                    f"'{member.filter}'; it has {', '.join(f'{m} ({f})' for m, f in sorted(known))}"
                )


def _noted(selection: Selection, bound: Sequence[BoundTask]) -> Selection:
    """Add a note for each member that a partial suite omits, with the reason, and for each task with skipped rows."""
    notes = [
        f"omitted from {suite.suite.name}: {name}: {why}" for suite in selection.suites for name, why in suite.missing
    ]
    notes += [f"{task.plan.name}: {task.skipped}" for task in bound if task.skipped.n]
    notes += broken_declarations([folder for task in bound for folder in task.task.trusted])
    return replace(selection, notes=(*selection.notes, *notes))


def _with_missing(chosen: ChosenSuite, refused: Mapping[str, str]) -> ChosenSuite:
    lacking = [(leaf, refused[leaf]) for leaves in chosen.leaves for leaf in leaves if leaf in refused]
    return replace(chosen, missing=(*chosen.missing, *lacking))


def _without(selection: Selection, refused: Collection[str]) -> Selection:
    """Return the selection without the refused tasks and without the groups that contain any of them."""
    children = {group.name: group.children for group in selection.groups}

    def is_whole(name: str) -> bool:
        return name not in refused and all(is_whole(child) for child in children.get(name, ()))

    groups = tuple(group for group in selection.groups if is_whole(group.name))
    tasks = tuple(task for task in selection.tasks if task.name not in refused)
    return replace(selection, tasks=tasks, groups=groups)


def _first_line(error: AssaymarkError) -> str:
    return str(error).partition("\n")[0]


LARGEST_SHARE_OF_ANSWERS = 0.75  # of a model's positions, above which our own limit of answers is reduced


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run, beyond its model and its tasks."""

    bind: BindOptions = field(default_factory=BindOptions)
    samples: tuple[tuple[str, tuple[int, ...]], ...] = ()  # task -> positions to evaluate, nothing else of it
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of the plan that are not in `bind`
    partial: bool = False  # omit the members of a suite that cannot be evaluated
    n_workers: int = 1  # processes that run the model
    bill: Bill | None = None  # cost of the requests, and the limit; not part of the plan
    predict_only: bool = False  # a sample that cannot be scored ends no run


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A plan with the model and the bound tasks for its execution."""

    plan: RunPlan
    bound: tuple[BoundTask, ...]
    selection: Selection
    options: RunOptions


def prepare(
    selection: Selection, model: Model, options: RunOptions, register: TaskRegister | None = None
) -> PreparedRun:
    """Bind every selected task to its data and freeze the plan.

    register: of tasks that another model of this selection was prepared with.

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
    selection = _with_room_for_prompts(selection, model, options)
    selection, bound = bind_tasks(
        selection,
        unanswerable,
        WantedTasks(options.bind, dict(options.samples), options.partial, register or TaskRegister()),
    )
    if perturb := options.settings.get("perturb"):
        selection, bound = with_perturbed(selection, bound, [perturbation_from(each) for each in perturb])
    plan = RunPlan(
        model=model.identity,
        tasks=tuple(task.plan for task in bound),
        code_runs_in=_where_code_runs(bound),
        profile=options.bind.profile.name,
        seed=options.bind.profile.seed if options.bind.seed is None else options.bind.seed,
        limit=None if options.bind.limit is None else float(options.bind.limit),  # 50 and --limit 50 are one run
        apply_chat_template=options.bind.apply_chat_template and options.bind.preset is None,
        fewshot_as_multiturn=options.bind.fewshot_as_multiturn,
        system_instruction=options.bind.system_instruction,
        **options.settings,
    )
    return PreparedRun(plan, bound, selection, options)


def _with_room_for_prompts(selection: Selection, model: Model, options: RunOptions) -> Selection:
    """Return the selection with shorter answers if our own limit for a file of rows leaves a prompt no room.

    Limits of the user or of a task file are not changed.
    """
    positions = model.identity.max_length
    set_by_user = any(name in options.bind.gen_kwargs for name in MAX_TOKENS)
    if positions is None or set_by_user or not getattr(model, "answers_take_positions", True):
        return selection
    tasks, notes = [], []
    of_model = getattr(getattr(model, "arguments", None), "max_gen_toks", None)
    for task in selection.tasks:
        own = (task.generation_kwargs or {}).get("max_gen_toks", None if of_model else DEFAULT_MAX_TOKENS)
        is_ours = (
            task.origin == "user" and task.python_class is None and task.source.suffix not in {".yaml", ".yml", ".py"}
        )
        is_generated = task.output_type == "generate_until"
        if is_ours and is_generated and isinstance(own, int) and own > positions * LARGEST_SHARE_OF_ANSWERS:
            limit = max(1, positions // 4)
            task = replace(task, generation_kwargs={**(task.generation_kwargs or {}), "max_gen_toks": limit})  # noqa: PLW2901
            notes.append(
                f"{task.name}: answers have at most {limit} tokens, since the model has {positions} positions for "
                f"prompt and answer; another limit: --gen_kwargs max_gen_toks={limit}"
            )
        tasks.append(task)
    return replace(selection, tasks=tuple(tasks), notes=(*selection.notes, *notes)) if notes else selection


def _where_code_runs(bound: Sequence[BoundTask]) -> dict[str, str] | None:
    """Return, by task, the sandbox for generated code, for the plan; None if no task runs code."""
    sandboxes: dict[str, str] = {}
    for task in bound:
        sandbox = task.sandbox
        if sandbox is not None:
            sandboxes[task.task.name] = sandbox.name
        elif task.task.spec.get("unsafe_code"):
            sandboxes[task.task.name] = "by the task's own functions, without a sandbox (--unsafe-code)"
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
        f"which these tasks need: {few(refused)}; it can answer {', '.join(sorted(able))}; {remedy}"
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
