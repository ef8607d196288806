"""`evaluate`: evaluate a model on tasks and store the run with its estimates."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack, cast

from assaymark.errors import UsageError
from assaymark.models.cost.bill import bill_for
from assaymark.models.lending import gives_back, is_loaded
from assaymark.models.model import Model
from assaymark.models.workers.process import serve_if_launched
from assaymark.registry import Registry
from assaymark.runs.evaluate_options import EvaluateKeywords, EvaluateOptions
from assaymark.runs.execute import execute
from assaymark.runs.opening import no_notice
from assaymark.runs.plan import PreparedRun, render_of
from assaymark.runs.prepare import idle_gen_kwargs, open_store, plain_generation, prepare_run
from assaymark.runs.run import Run
from assaymark.runs.targets import kind_of
from assaymark.scoring.metrics import is_graded_by_model
from assaymark.stopping import ServedToTheEnd

BASELINES: Registry[Callable[[Run, Model, PreparedRun, Callable[[str], None]], None]] = Registry(
    "baselines", "baseline"
)
GRADERS: Registry[Callable[[Run, PreparedRun, Sequence[object], object, Callable[[str], None]], None]] = Registry(
    "graders", "grader"
)
"""What asks a second model about a run's stored answers: the run, its plan, the judges, their arguments, `notify`."""
_OF_JUDGES = ("judge", "judge_args")


@gives_back
def evaluate(model: object, tasks: object = (), **options: Unpack[EvaluateKeywords]) -> Run:
    """Evaluate a model on benchmarks, or a function of one's own on rows with scorers, and return the stored run.

    The same call continues an interrupted run, or returns the finished one: no stored response is requested again.
    Responses are stored within half a second of their arrival. After a kill or a power failure, requests that were in
    flight or not yet stored are sent again, as are those that failed for a temporary reason.

    Args:
        model: a folder or hub id of a causal LM; the name of a kind of model ("hf", "fake"), with `model_args`; a
            pair (transformers model, tokenizer) already loaded, or the model with `tokenizer=`; or what `load_model`
            returned. A loaded model is unchanged afterwards, also after an exception. With `scorers`: a function,
            coroutine function, `FILE.py:NAME`, URL or `exec:COMMAND`.
        tasks: names, groups, suites, globs or task files, in a list or separated by commas. With `scorers`: a file of
            rows, a Hub id, or a list of mappings.
        options: see `EvaluateOptions`. judge, judge_args: the model that grades the answers, where a benchmark's file
            asks for one, and its arguments; a list of models, or names separated by commas, is a panel.

    Raises: UsageError, DataError, StoreError, ModelError (see `assaymark.errors`).
    """
    kind = kind_of(model, options)
    if kind is not None:
        return kind.evaluate(model, tasks, **options)
    # Under torchrun all processes but the first serve the first one's run. In a training loop each process has a
    # loaded model and evaluates by itself.
    if not is_loaded(model) and serve_if_launched():
        raise ServedToTheEnd
    store = open_store(options)
    of_run = cast("EvaluateOptions", {name: options[name] for name in options if name not in _OF_JUDGES})  # type: ignore[literal-required]
    opened, prepared = prepare_run(model, cast("str | Sequence[str]", tasks), of_run)
    max_cost = options.get("max_cost")
    if options.get("judge_args") and options.get("judge") is None:
        raise UsageError("judge_args are of the model that grades the answers; name it with judge, or omit them")
    judges = _judges(prepared, options.get("judge"))
    bill = bill_for(opened, options.get("price"), options.get("prices"), max_cost)
    if options.get("question_blind") and max_cost is not None:
        raise UsageError("max_cost does not limit the question-blind baseline; omit one of them")
    notify = options.get("notify") or no_notice
    notes = (*prepared.selection.notes, *idle_gen_kwargs(options.get("gen_kwargs") or {}, prepared.plan.tasks))
    for line in (*notes, *plain_generation(prepared, options)):
        notify(line)
    result = execute(
        replace(prepared, options=replace(prepared.options, bill=bill)),
        opened,
        store,
        observe=options.get("observe"),
        command=options.get("command"),
        wait=options.get("wait") is not False,
        notify=notify,
    )
    run = Run(store, result.run_id, result, prepared.selection.notes)
    run.summarise(prepared)
    for name in BASELINES:  # one with an option of its name is computed where it is asked for, others always
        if options.get(name) or name not in EvaluateOptions.__annotations__:
            BASELINES.load(name)(run, opened, prepared, notify)
    if judges and result.stop_reason is None:
        for name in GRADERS:
            GRADERS.load(name)(run, prepared, judges, options.get("judge_args") or {}, notify)
    return run


def _judges(prepared: PreparedRun, judge: object) -> list[object]:
    """Return the models that grade a run's answers; none where no metric asks for one.

    Raises: UsageError for a run that needs a judge and has none, or has one that nothing asks.
    """
    graded = [(bound.plan.name, each.name) for bound in prepared.bound for each in bound.metrics]
    asking = next(((task, name) for task, name in graded if is_graded_by_model(name)), None)
    if judge is None and asking is not None:
        raise UsageError(
            f"{asking[0]} is scored by {asking[1].removeprefix('inspect_')}, which asks a second model for grades; "
            "name it: assaymark run ... --judge MODEL (a folder, a Hub id, or a kind of model with --judge_args), or "
            "several with commas between"
        )
    if judge is not None and asking is None:
        raise UsageError("a judge is named, and no task of this run asks one; omit it")
    if isinstance(judge, str):
        judges: list[object] = [name.strip() for name in judge.split(",") if name.strip()]
    else:
        judges = list(judge) if isinstance(judge, list | tuple) else [] if judge is None else [judge]
    if judge is not None and not judges:
        raise UsageError(f"judge is {judge!r}, which names no model; expected a model, or several in a list")
    return judges


@gives_back
def first_prompts(
    model: object, tasks: str | Sequence[str], **options: Unpack[EvaluateOptions]
) -> list[tuple[str, str]]:
    """Return each task's name and the exact text of its first prompt."""
    opened, prepared = prepare_run(model, tasks, options)
    render = render_of(opened)
    prompts: list[tuple[str, str]] = []
    for bound in prepared.bound:
        sample = next(iter(bound.samples()), None)
        if sample is not None:
            prompts.append((bound.plan.name, bound.request(sample, render).prompt))
    return prompts
