"""`evaluate`: from a model and the names of tasks to a stored run with its estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from evalstone.api.language_model import LanguageModel, loaded_pair, not_a_model
from evalstone.api.lending import gives_back, is_loaded
from evalstone.api.option_checks import check_options, check_tasks, idle_gen_kwargs
from evalstone.api.options import EvaluateOptions, run_options
from evalstone.api.run import Run
from evalstone.errors import UsageError
from evalstone.models.checkpoint.arguments import parse_arguments
from evalstone.models.create import create_model
from evalstone.models.model import Model
from evalstone.models.workers.process import serve_if_launched
from evalstone.runner.execute import execute
from evalstone.runner.opening import no_notice
from evalstone.runner.plan import PreparedRun, prepare, render_of
from evalstone.store import Store
from evalstone.tasks.catalog import Catalog
from evalstone.tasks.profiles import DEFAULT_PROFILE, find_profile
from evalstone.tasks.prompting import find_prompting, put_selection
from evalstone.tasks.task import Selection


@gives_back
def evaluate(model: Any, tasks: str | Sequence[str] = (), **options: Unpack[EvaluateOptions]) -> Run:
    """Put benchmarks to a model and return the stored run.

    Args:
        model: a folder or hub id of a causal LM; the name of a kind of model ("hf", "fake"), with `model_args`; a
            pair (transformers model, tokenizer) already loaded, or the model with `tokenizer=`; or what `load_model`
            returned. A loaded model is as it was afterwards, also when an exception ends the evaluation.
        tasks: names, groups, suites, globs or task files; several separated by commas or in a list.
        options: see `EvaluateOptions`.

    The same call again continues an interrupted run, or returns the finished one: no answer that is stored is asked
    for again. Answers are stored within half a second of their arrival; after a kill or a power failure those that
    were in flight or not yet stored are asked for again, as are failures that are worth another try.

    Raises: UsageError, DataError, StoreError, ModelError (see `evalstone.errors`).
    """
    # One of several processes that torchrun started has worked for the first one's run; in a training loop that it
    # started, each process has the model already and evaluates by itself.
    if not is_loaded(model) and serve_if_launched():
        raise SystemExit(0)
    store = open_store(options)
    answering, prepared = prepare_run(model, tasks, options)
    notify = options.get("notify") or no_notice
    for line in (*prepared.selection.notes, *idle_gen_kwargs(options.get("gen_kwargs") or {}, prepared.plan.tasks)):
        notify(line)
    result = execute(
        prepared,
        answering,
        store,
        observe=options.get("observe"),
        command=options.get("command"),
        wait=options.get("wait", True),
        notify=notify,
    )
    run = Run(store, result.run_id, result, prepared.selection.notes)
    run.summarise(prepared)
    if options.get("question_blind"):
        from evalstone.api.baselines import add_question_blind

        add_question_blind(run, answering, prepared, notify)
    return run


def prepare_run(model: Any, tasks: str | Sequence[str], options: EvaluateOptions) -> tuple[Model, PreparedRun]:
    """Return the model and the plan that `evaluate` would carry out, with its tasks bound to data."""
    check_tasks(tasks)
    check_options(options)
    selection, settled = choose_tasks(tasks, options)
    answering = model_of(model, settled)
    return answering, prepare(selection, answering, run_options(settled))


def choose_tasks(tasks: str | Sequence[str], options: EvaluateOptions) -> tuple[Selection, EvaluateOptions]:
    """Return what the names stand for, and the options with the suite's profile where none was asked for.

    Raises: UsageError if nothing is named, or suites of different profiles are and none was asked for.
    """
    names = split_names(tasks)
    if options.get("suite"):
        names.append(f"suite:{options['suite']}")
    if not names:
        raise UsageError(
            "no task was named; name at least one with --tasks, for example --tasks arc_easy (see `ls`), "
            "or a suite with --suite"
        )
    include = [Path(folder).expanduser() for folder in options.get("include_path") or ()]
    for folder in include:
        if not folder.is_dir():
            raise UsageError(f"include_path '{folder}' is no folder; expected a folder with task files (*.yaml)")
    selection = Catalog.open(include).select(names, partial=options.get("partial", False))
    if prompting := options.get("prompting"):
        selection = put_selection(selection, find_prompting(prompting))
    profiles = sorted({chosen.suite.profile for chosen in selection.suites})
    asked = options.get("profile")
    if asked is None and len(profiles) > 1:
        raise UsageError(
            f"the suites have the profiles {', '.join(profiles)}, and a run has one; ask for them in separate runs"
        )
    if asked is not None and profiles and profiles != [asked]:
        note = f"profile {asked} in place of the suite's {', '.join(profiles)}: the board's rules were others"
        selection = replace(selection, notes=(*selection.notes, note))
    settled: EvaluateOptions = {**options, "profile": asked or (profiles[0] if profiles else DEFAULT_PROFILE.name)}
    return selection, settled


@gives_back
def first_prompts(model: Any, tasks: str | Sequence[str], **options: Unpack[EvaluateOptions]) -> list[tuple[str, str]]:
    """Return each task's name and the exact text of its first prompt."""
    answering, prepared = prepare_run(model, tasks, options)
    render = render_of(answering)
    found: list[tuple[str, str]] = []
    for bound in prepared.bound:
        sample = next(iter(bound.samples()), None)
        if sample is not None:
            found.append((bound.plan.name, bound.request(sample, render).prompt))
    return found


def split_names(tasks: str | Sequence[str]) -> list[str]:
    """Return the task names of "a,b c", or of a list of such texts; a file's name may hold spaces and commas."""
    texts = [str(text) for text in ([tasks] if isinstance(tasks, str | Path) else tasks)]
    parts = [part.strip() for text in texts for part in ([text] if _is_file(text) else text.split(","))]
    return [name for part in parts for name in ([part] if _is_file(part) else part.split())]


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # longer than a path may be, or with a NUL in it
        return False


def open_store(options: EvaluateOptions) -> Store:
    """Return the store the options name, opened."""
    store = options.get("store")
    return store if isinstance(store, Store) else Store.open(None if store is None else str(store))


def model_of(model: Any, options: EvaluateOptions) -> Model:
    """Return a model that can answer, however it was given.

    Raises: UsageError if it is nothing of what `evaluate` takes.
    """
    tokenizer = options.get("tokenizer")
    pair = loaded_pair(model, tokenizer)
    if tokenizer is not None and pair is None:
        raise UsageError(
            "tokenizer= goes with a loaded model; with a model that is named, name it: model_args={'tokenizer': FOLDER}"
        )
    if isinstance(model, LanguageModel):
        model.identify_again()
        return model.model
    extra = {name: value for name, value in options.items() if name in ("numerics", "too_long", "cluster") and value}
    if options.get("workers", 1) > 1:
        extra["workers"] = options["workers"]
    if isinstance(options.get("apply_chat_template"), str):
        extra["chat_template"] = options["apply_chat_template"]
    add_bos = find_profile(options.get("profile") or DEFAULT_PROFILE.name).add_bos
    if add_bos is not None:
        extra["add_bos_token"] = add_bos
    if pair is not None:
        from evalstone.models.local.local_model import LocalModel

        return LocalModel.from_loaded(*pair, **{**parse_arguments(options.get("model_args") or {}), **extra})
    if isinstance(model, str | Path):
        return _named(model, options.get("model_args") or {}, extra)
    if isinstance(model, Model):
        return model
    raise not_a_model(model)


def _named(model: str | Path, model_args: str | Mapping[str, Any], extra: Mapping[str, Any]) -> Model:
    """Return a model by the name of its kind, or by its path or hub id."""
    from evalstone.models.create import MODELS

    if isinstance(model, str) and (model in MODELS.places() or model_args):
        return create_model(model, model_args, **extra)
    arguments = {"pretrained": str(model), **parse_arguments(model_args)}
    return create_model("hf", arguments, **extra)
