"""Resolve a model, task names and options into a `Model` and a plan with its tasks bound to data.

Evaluations from Python, the command line or a queue start here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from assaymark.errors import AssaymarkError, DataError, UsageError, few
from assaymark.limits.characters import exception_text
from assaymark.models.checkpoint.arguments import parse_arguments
from assaymark.models.create import MODELS, Factory, create_model
from assaymark.models.language_model import LanguageModel, loaded_pair, not_a_model
from assaymark.models.model import Model
from assaymark.options.of_plans import preset_of
from assaymark.options.option import check_options, with_defaults
from assaymark.options.shared import plan_settings
from assaymark.records import JsonValue, TaskPlan
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.plan import PreparedRun, RunOptions, prepare
from assaymark.settings import data_folder
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.functions import load_function, place_in
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.profiles import DEFAULT_PROFILE, find_profile
from assaymark.tasks.prompt_presets import find_system_prompt
from assaymark.tasks.styled_tasks import find_prompt_style, styled_selection
from assaymark.tasks.task import Selection
from assaymark.tasks.user_code import find_declaration, refuse_broken

_FOR_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed")


def prepare_run(model: object, tasks: str | Sequence[str], options: EvaluateOptions) -> tuple[Model, PreparedRun]:
    """Return the model, and the plan that `evaluate` would carry out, with its tasks bound to data.

    Raises: as `choose_tasks`, `model_of`, `run_options` and `runner.plan.prepare`; UsageError or UnknownName for an
        invalid or unknown option.
    """
    selection, settled = choose_tasks(tasks, options)
    answering = model_of(model, settled)
    return answering, prepare(selection, answering, run_options(settled))


def choose_tasks(tasks: str | Sequence[str], options: EvaluateOptions) -> tuple[Selection, EvaluateOptions]:
    """Return the named tasks, and the options with the suite's profile where none was given.

    Raises: UsageError if nothing is named, or suites of different profiles are and no profile was given; UsageError or
        UnknownName for an invalid or unknown option.
    """
    texts = [tasks] if isinstance(tasks, str | Path) else tasks
    if not isinstance(texts, Sequence) or not all(isinstance(text, str | Path) for text in texts):
        raise UsageError(f"tasks is {tasks!r:.80}, of type {type(tasks).__name__}; expected names, or a list of them")
    check_options(EvaluateOptions, options)
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
            raise UsageError(f"include_path '{folder}' is not a directory; expected a folder with task files (*.yaml)")
    own = OwnData(data_folder(options.get("data_dir")), bool(options.get("skip_bad_rows")), options.get("answers"))
    selection = Catalog.open(include).select(
        names, partial=bool(options.get("partial")), own=own, leave_out=True, announce=options.get("notify")
    )
    if prompt_style := options.get("prompt_style"):
        selection = styled_selection(selection, find_prompt_style(prompt_style))
    profiles = sorted({chosen.suite.profile for chosen in selection.suites})
    wanted = options.get("profile")
    if wanted is None and len(profiles) > 1:
        raise UsageError(
            f"the suites have the profiles {', '.join(profiles)}, and a run has one; evaluate them in separate runs"
        )
    if wanted is not None and profiles and profiles != [wanted]:
        note = f"profile {wanted} in place of the suite's {', '.join(profiles)}: the leaderboard had other rules"
        selection = replace(selection, notes=(*selection.notes, note))
    settled: EvaluateOptions = {**options, "profile": wanted or (profiles[0] if profiles else DEFAULT_PROFILE.name)}
    return selection, settled


def split_names(tasks: str | Sequence[str]) -> list[str]:
    """Return the task names in "a,b c", or in a list of such texts; a file's name may contain spaces and commas."""
    texts = [str(text) for text in ([tasks] if isinstance(tasks, str | Path) else tasks)]
    names: list[str] = []
    for part in (part for text in texts for part in ([text] if _is_file(text) else text.split(","))):
        file = next((name for name in (part, part.strip()) if _is_file(name)), None)
        names += part.split() if file is None else [file]
    return names


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # longer than a path may be, or with a NUL in it
        return False


def open_store(options: EvaluateOptions) -> Store:
    """Return the store the options name, opened.

    Raises: UsageError for a value that can be no store.
    """
    store: object = options.get("store")
    if isinstance(store, Store):
        return store
    if not isinstance(store, str | Path | None):
        what = f"store is {store!r:.80}, of type {type(store).__name__}"
        raise UsageError(f"{what}; expected a file, a database's URL, or an open store")
    return Store.open(None if store is None else str(store))


def model_of(model: object, options: EvaluateOptions) -> Model:
    """Return the model, in whichever way it was given.

    Raises: UsageError if it is not one of the ways that `evaluate` accepts.
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
    arguments = _model_options(options)
    if pair is not None:
        from assaymark.models.local.local_model import LocalModel

        return LocalModel.from_loaded(*pair, **{**parse_arguments(options.get("model_args") or {}), **arguments})
    if isinstance(model, str | Path):
        declared = declared_models(str(model), options.get("include_path") or ())
        return _named(model, options.get("model_args") or {}, arguments, declared)
    if isinstance(model, Model):
        return model
    raise not_a_model(model)


def _model_options(options: EvaluateOptions) -> dict[str, object]:
    """Return those options of a run that are also arguments of its model."""
    arguments = {
        name: value for name, value in options.items() if name in ("numerics", "too_long", "cluster") and value
    }
    if (workers := options.get("workers") or 1) > 1:
        arguments["workers"] = workers
    if isinstance(template := options.get("apply_chat_template"), str):
        arguments["chat_template"] = template
    add_bos = find_profile(options.get("profile") or DEFAULT_PROFILE.name).add_bos
    if add_bos is not None:
        arguments["add_bos_token"] = add_bos
    return arguments


def declared_models(name: str, include_path: Sequence[str | Path]) -> Mapping[str, Factory]:
    """Return the factory of a kind of model that a Python file below the folders declares, by its name; else nothing.

    The file is imported when the model is created.

    Raises: DataError for a name that is declared twice, or that a broken file may declare.
    """
    if name in MODELS or not include_path:
        return {}
    folders = [Path(folder).expanduser().resolve() for folder in include_path]
    declaration = find_declaration("models", name, folders)
    if declaration is None:
        if name.isidentifier():  # else it is a folder or Hub id
            refuse_broken(folders)
        return {}

    def create(arguments: Mapping[str, object]) -> Model:
        factory = load_function(declaration.function, folders)
        try:
            created = factory(arguments)
        except AssaymarkError:
            raise
        except Exception as error:
            file = declaration.function.file or Path(name)
            raise DataError(f"{place_in(file, error)} model {name} failed: {exception_text(error)}") from error
        if not isinstance(created, Model):
            raise DataError(
                f"{declaration.where}: model {name} is {type(created).__name__}; expected an object with the methods "
                "of assaymark.models.model.Model"
            )
        return created

    return {name: create}


def _named(
    model: str | Path,
    model_args: str | Mapping[str, object],
    arguments: Mapping[str, JsonValue],
    declared: Mapping[str, Factory],
) -> Model:
    """Return a model given by the name of its kind, or by its path or hub id."""
    is_kind = model in MODELS or model in declared
    if isinstance(model, str) and (is_kind or (model_args and "/" not in model and not Path(model).is_dir())):
        return create_model(model, model_args, declared=declared, **arguments)
    return create_model("hf", {"pretrained": str(model), **parse_arguments(model_args)}, declared=None, **arguments)


def run_options(options: EvaluateOptions) -> RunOptions:
    """Return the runner's frozen options.

    Raises: UsageError for an invalid value; UnknownName for an unknown profile, preset or system prompt.
    """
    check_options(EvaluateOptions, options)
    complete = cast("EvaluateOptions", with_defaults(EvaluateOptions, options))
    return RunOptions(
        bind=_bind_options(complete),
        samples=tuple(
            (task, tuple(int(index) for index in indices)) for task, indices in (complete["samples"] or {}).items()
        ),
        settings=plan_settings(complete),
        partial=complete["partial"],
        n_workers=complete["workers"],
        predict_only=complete["predict_only"],
    )


def _bind_options(options: EvaluateOptions) -> BindOptions:
    preset = preset_of(options)
    is_chat = bool(options["apply_chat_template"]) or preset is not None
    multiturn = options["fewshot_as_multiturn"]
    if multiturn and not is_chat:
        raise UsageError(
            "fewshot_as_multiturn needs apply_chat_template or prompt_preset: without a template there are no turns"
        )
    return BindOptions(
        num_fewshot=options["num_fewshot"],
        limit=options["limit"],
        seed=options["seed"],
        data_dir=data_folder(options["data_dir"]),
        profile=find_profile(options["profile"] or DEFAULT_PROFILE.name),
        system_instruction=_system_text(options),
        apply_chat_template=is_chat,
        preset=preset,
        fewshot_as_multiturn=is_chat if multiturn is None else multiturn,
        gen_kwargs=dict(options["gen_kwargs"]),
        circular=options["circular"],
        skip_bad_rows=options["skip_bad_rows"],
        confirm_unsafe_code=options["confirm_unsafe_code"],
        metadata=dict(options["metadata"]),
    )


def _system_text(options: EvaluateOptions) -> str | None:
    """Return the system text, looked up where it was given by name."""
    name, text = options["system_prompt"], options["system_instruction"]
    if name is None:
        return text
    if text is not None:
        raise UsageError(f"system_prompt '{name}' and system_instruction both give the system text; omit one of them")
    return find_system_prompt(name)


def idle_gen_kwargs(gen_kwargs: Mapping[str, object], tasks: Sequence[TaskPlan]) -> Iterator[str]:
    """Yield a line for each way in which generation settings have no effect in a run of these tasks."""
    generating = [(task.name, task.generation) for task in tasks if isinstance(task.generation, Mapping)]
    if gen_kwargs and not generating:
        yield f"gen_kwargs {', '.join(gen_kwargs)} have no effect: no task of this run generates an answer"
    until = gen_kwargs.get("until")
    for stop in until if isinstance(until, list) else [until]:
        if isinstance(stop, str) and re.fullmatch(r"(?:\\[nrt])+", stop):
            yield (
                f"gen_kwargs until is a backslash and a letter, {stop}, which answers hardly contain; for a line break "
                f"write --gen_kwargs 'until=[\"{stop}\"]'"
            )
    idle = [name for name in _FOR_SAMPLING if gen_kwargs.get(name)]
    greedy = [name for name, generation in generating if not any(_draws(generation))]
    if idle and greedy:
        yield (
            f"gen_kwargs {', '.join(idle)} have no effect in {few(greedy, 3)}, where decoding is greedy; "
            "add do_sample=true and a temperature to sample"
        )


def plain_generation(prepared: PreparedRun, options: EvaluateOptions) -> Iterator[str]:
    """Yield a line where answers are generated from plain text, unasked, by a model that has a chat template."""
    if options.get("apply_chat_template") is not None or prepared.options.bind.apply_chat_template:
        return
    plain = [each.task for each in prepared.bound if not each.task.prompt.is_chat]
    names = [task.name for task in plain if task.output_type == "generate_until"]
    model = prepared.plan.model
    if names and model.template_hash is not None and model.tokenizer_hash is not None:
        yield (
            f"the model has a chat template, and {few(names)} "
            f"{'is' if len(names) == 1 else 'are'} asked as plain text; to ask in its format: --apply_chat_template"
        )


def _draws(generation: Mapping[str, JsonValue]) -> Iterator[bool]:
    """Yield whether tokens are sampled, for all samples and for each kind of sample with settings of its own."""
    yield bool(generation["do_sample"])
    by = generation.get("by")
    for kinds in by.values() if isinstance(by, Mapping) else ():
        yield from (bool(kind["do_sample"]) for kind in kinds.values())
