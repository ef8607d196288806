"""The options of `evaluate`, by lm-eval's names where it has them, and what they become inside."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from evalstone.errors import UsageError
from evalstone.prompts.presets import PromptPreset
from evalstone.records import JsonValue
from evalstone.runner.execute import Observer
from evalstone.runner.plan import RunOptions
from evalstone.settings import data_folder
from evalstone.store import Store
from evalstone.tasks.bound import BindOptions
from evalstone.tasks.generation import check_gen_kwargs
from evalstone.tasks.profiles import DEFAULT_PROFILE, find_profile
from evalstone.tasks.prompt_presets import NONE, find_preset, find_system_prompt

TOO_LONG = ("cut", "error")


class EvaluateOptions(TypedDict, total=False):
    """What `evaluate` takes beyond a model and tasks; each may be left out."""

    model_args: str | Mapping[str, Any]  # for a model named by its kind: "pretrained=DIR,dtype=float32"
    tokenizer: Any  # of a model that is given loaded, and not as a pair
    num_fewshot: int | None  # None: as each task says
    limit: float | None  # first n samples of each task, or a fraction below 1
    samples: Mapping[str, Sequence[int]] | None  # task -> positions; nothing else is asked
    seed: int | None  # of the few-shot draw; None: the profile's
    apply_chat_template: bool | str  # True, or the template's name
    fewshot_as_multiturn: bool | None  # None: True with a chat template
    system_instruction: str | None
    system_prompt: str | None  # the name of one in the library, or a text file, in place of system_instruction
    prompting: str | None  # letter, text or cot: how multiple-choice questions are put; None: as each task says
    prompt_preset: str | PromptPreset | None  # a prompt format, by name or file, in place of the model's own template
    gen_kwargs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    suite: str | None  # a board: its tasks at its shots, and their composite
    partial: bool  # leave out the members of a suite that cannot be asked; it then has no composite
    profile: str | None  # whose rules: lm-eval-0.4.13, open-llm-v1, ...; None: the suite's, or lm-eval-0.4.13
    numerics: str  # float32 | model-dtype
    too_long: str  # cut | error
    strict_env: bool  # versions become part of the run's key
    include_path: Sequence[str | Path]  # folders with task files, whose code may run
    data_dir: str | Path | None  # local benchmark data
    store: str | Path | Store | None  # file, database URL, or an open store
    workers: int  # processes that answer
    cluster: str | None  # address of the Ray cluster that they are placed on; None: this machine
    observe: Observer | None  # told how far the run is
    notify: Callable[[str], None] | None  # told, before anything is asked, what was guessed or replaced
    wait: bool  # follow another process that is writing the same run until it ends (default), or raise RunBusy
    question_blind: bool  # ask multiple choice tasks without their questions too: a floor beside the value
    confirm_unsafe_code: bool  # let tasks run code that the model wrote
    command: str | None  # kept with the attempt


def run_options(options: EvaluateOptions) -> RunOptions:
    """Return the runner's frozen options.

    Raises: UsageError for a value that cannot be; UnknownName for a profile that is not known.
    """
    template = options.get("apply_chat_template", False)
    preset = find_preset(options.get("prompt_preset") or NONE)
    if preset is not None and template:
        raise UsageError(f"prompt_preset {preset.name} and apply_chat_template both put the prompt; leave one out")
    too_long = options.get("too_long", "cut")
    if too_long not in TOO_LONG:
        raise UsageError(f"too_long is '{too_long}'; expected one of {', '.join(TOO_LONG)}")
    samples = options.get("samples") or {}
    return RunOptions(
        bind=_bind_options(options, preset),
        samples=tuple((task, tuple(int(i) for i in indices)) for task, indices in samples.items()),
        chat_template_name=template if isinstance(template, str) else None,
        too_long=too_long,
        strict_env=options.get("strict_env", False),
        extra=tuple(_further_settings(options, preset)),
        partial=options.get("partial", False),
        n_workers=options.get("workers", 1),
    )


def _bind_options(options: EvaluateOptions, preset: PromptPreset | None) -> BindOptions:
    is_chat = bool(options.get("apply_chat_template", False)) or preset is not None
    multiturn = options.get("fewshot_as_multiturn")
    if multiturn and not is_chat:
        raise UsageError(
            "fewshot_as_multiturn needs apply_chat_template or prompt_preset: without a template there are no turns"
        )
    return BindOptions(
        num_fewshot=_checked_shots(options.get("num_fewshot")),
        limit=_checked_limit(options.get("limit")),
        seed=options.get("seed"),
        data_dir=data_folder(options.get("data_dir")),
        profile=find_profile(options.get("profile") or DEFAULT_PROFILE.name),
        system_instruction=_system_text(options),
        apply_chat_template=is_chat,
        preset=preset,
        fewshot_as_multiturn=is_chat if multiturn is None else multiturn,
        gen_kwargs=_checked_gen_kwargs(options.get("gen_kwargs") or {}),
        confirm_unsafe_code=options.get("confirm_unsafe_code", False),
        metadata=dict(options.get("metadata") or {}),
    )


def _further_settings(options: EvaluateOptions, preset: PromptPreset | None) -> Iterator[tuple[str, JsonValue]]:
    """Yield what else decides answers, for the run's key."""
    if options.get("gen_kwargs"):
        yield "gen_kwargs", dict(options["gen_kwargs"])
    if options.get("prompting"):
        yield "prompting", options["prompting"]
    if preset is not None:
        yield "prompt_preset", {"name": preset.name, "template_hash": preset.template_hash, "content": preset.spec}


def _system_text(options: EvaluateOptions) -> str | None:
    """Return the system text, looked up where it was named."""
    name, text = options.get("system_prompt"), options.get("system_instruction")
    if name is None:
        return text
    if text is not None:
        raise UsageError(f"system_prompt '{name}' and system_instruction both give the system text; leave one out")
    return find_system_prompt(name)


def _checked_shots(value: int | None) -> int | None:
    if value is not None and value < 0:
        raise UsageError(f"num_fewshot is {value}; expected 0 or more")
    return value


def _checked_gen_kwargs(given: Mapping[str, Any]) -> dict[str, Any]:
    check_gen_kwargs(given)
    return dict(given)


def _checked_limit(value: float | None) -> float | None:
    if value is None:
        return None
    if not math.isfinite(value) or value <= 0 or (value > 1 and value != int(value)):
        raise UsageError(f"limit is {value:g}; expected a whole number of samples from 1, or a fraction below 1")
    return value
