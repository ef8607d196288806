"""The options that `run` and `plan` share: lm-eval's flags under its names, then ours.

Options that `evaluate` takes as keywords are declared in `options/shared.py`; this module declares those that only the
command line has. lm-eval's flags that are not needed here (caches, batch size) are accepted without effect.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import click

from assaymark.cli.output import OptionDecorator, with_options
from assaymark.errors import DataError, UsageError
from assaymark.options.option import Declared, declared_options
from assaymark.options.shared import SharedOptions
from assaymark.options.texts import read_arguments

if TYPE_CHECKING:
    from assaymark.runs.evaluate_options import EvaluateOptions

WandbArguments = tuple[dict[str, object], dict[str, object]]
"""Arguments of `wandb.init`, and values for its configuration."""


class EvaluationParameters(TypedDict):
    """The options of `run` and `plan` that select models and tasks, and are not keywords of `evaluate`."""

    model: str
    tasks: tuple[str, ...]
    model_args: str
    device: str | None
    batch_size: str | None
    max_batch_size: int | None
    trust_remote_code: bool
    include_path: tuple[str, ...]


class WandbParameters(TypedDict):
    """The options of a command about Weights & Biases."""

    wandb_args: str | None
    wandb_config_args: str | None


LARGEST_CONFIG = 1 << 20  # bytes of a --config file
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def _show_log(_context: click.Context, _option: click.Parameter, level: str | None) -> None:
    """Set vLLM's own variable, which its processes read when they start."""
    if level is not None:
        os.environ["VLLM_LOGGING_LEVEL"] = level


_FIRST: tuple[OptionDecorator, ...] = (
    click.option("--model", "-M", default="hf", show_default=True, metavar="KIND|DIR",
                 help="Kind of model (see `ls models`), or the folder or hub id of a model."),
)  # fmt: skip
_AFTER: Mapping[str, tuple[OptionDecorator, ...]] = {  # declared option -> options of the command line that follow it
    "model_args": (
        click.option("--tasks", "-t", multiple=True, metavar="NAMES",
                     help="Tasks, groups, tags, suites, globs, task files (code in them may run) or benchmarks "
                     "(hub:ORG/NAME, or a folder with an eval.yaml)."),
    ),
    "include_path": (
        click.option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)."),
        click.option("--batch_size", "-b", metavar="N|auto",
                     help="Accepted without effect: the engine sizes batches by memory."),
        click.option("--max_batch_size", type=int, metavar="N", help="Accepted without effect: see --batch_size."),
    ),
    "seed": (
        click.option("--trust_remote_code", is_flag=True, help="Allow code from the model's repository to run."),
    ),
    "metadata": (
        click.option("--use_cache", "-c", metavar="PATH",
                     help="Accepted without effect: stored responses are always used."),
        click.option("--cache_requests", metavar="[MODE]",
                     type=click.Choice(["true", "refresh", "delete"], case_sensitive=False),
                     help="Accepted without effect (true, refresh, delete): prompts are rendered again."),
        click.option("--check_integrity", is_flag=True, help="Verify the hashes of the stored run at the end."),
        click.option("--verbosity", "-v", type=click.Choice(LEVELS, case_sensitive=False), metavar="LEVEL",
                     callback=_show_log, expose_value=False,
                     help="What vLLM logs: debug, info, warning or error (default)."),
    ),
    "confirm_unsafe_code": (
        click.option("--config", "-C", type=click.Path(path_type=Path), metavar="FILE",
                     help="YAML file with defaults for any of these options."),
        click.option("--wandb_args", metavar="A=1,B=2",
                     help="Log the results to Weights & Biases, if wandb is installed: project=NAME,... Without this "
                     "option nothing is sent."),
        click.option("--wandb_config_args", metavar="A=1,B=2",
                     help="With --wandb_args: values to add to the configuration of the W&B run."),
        click.option("--trackio_args", metavar="A=1", hidden=True),
        click.option("--hf_hub_log_args", metavar="A=1", hidden=True),
        click.option("--no_cache", is_flag=True, hidden=True),
    ),
}  # fmt: skip


def run_options() -> OptionDecorator:
    """Return the decorator that adds the shared options to a command."""
    return with_options(*_FIRST, *_shared())


def _shared() -> Iterator[OptionDecorator]:
    for name, declared in declared_options(SharedOptions).items():
        if declared.option.is_shared:
            yield _click_option(declared)
        yield from _AFTER.get(name, ())


def declared_option(name: str, **changes: object) -> OptionDecorator:
    """Return an option of `evaluate` for a command; `changes` override its arguments to `click.option`."""
    return _click_option(declared_options(SharedOptions)[name], **changes)


def _click_option(declared: Declared, **changes: object) -> OptionDecorator:
    option = declared.option
    attributes: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    if declared.is_flag:
        attributes["is_flag"] = True
    elif declared.takes_several:
        attributes["multiple"] = True
    elif option.choices:
        attributes["type"] = click.Choice(list(option.choices))
    elif option.read is None and int in declared.types:
        number = click.FLOAT if float in declared.types else click.INT
        attributes["type"] = number if option.least is None else click.IntRange(option.least)
    if isinstance(option.default, str | int) and not declared.is_flag and option.read is None:
        attributes |= {"default": option.default, "show_default": option.default != ""}
    if option.read is not None:
        attributes["callback"] = _reader(option.read)
    return click.option(*declared.flags, declared.parameter, **{**attributes, **changes})


def _reader(read: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str | None], object]:
    """Return a click callback that parses an option's text."""

    def callback(_: click.Context, __: click.Parameter, value: str | None) -> object:
        return None if value is None else read(value)

    return callback


def evaluate_options(parameters: Mapping[str, object]) -> "EvaluateOptions":
    """Return the keywords of `evaluate` among a command's parsed options.

    Raises: UsageError for several numbers of shots, which need several runs.
    """
    if isinstance(several := parameters.get("num_fewshot"), tuple):
        shots = ",".join(map(str, several))
        raise UsageError(
            f"--num_fewshot {shots} needs several runs; give one number, or use `assaymark run`, which compares them"
        )
    declared = declared_options(SharedOptions).values()
    given = (entry for entry in declared if entry.flags and entry.parameter in parameters)
    return cast("EvaluateOptions", {entry.name: parameters[entry.parameter] for entry in given})


def model_arguments(parameters: EvaluationParameters) -> tuple[str, dict[str, object]]:
    """Return the kind of model and its arguments; `--model DIR` alone means a local model in that folder."""
    from assaymark.models.create import MODELS, create_model
    from assaymark.runs.prepare import declared_models

    arguments = read_arguments("model_args")(parameters["model_args"])
    for name in ("device", "batch_size", "max_batch_size"):
        if (value := parameters.get(name)) is not None:
            arguments.setdefault(name, value)
    if parameters["trust_remote_code"]:
        arguments["trust_remote_code"] = True
    kind = parameters["model"]
    if "pretrained" not in arguments and ("/" in kind or Path(kind).is_dir()):
        arguments["pretrained"], kind = kind, "hf"
    if kind not in MODELS and not declared_models(kind, parameters["include_path"]):
        create_model(kind, arguments)  # raises, with the nearest names
    return kind, arguments


def notes_on(parameters: Mapping[str, object]) -> list[str]:
    """Return notes on flags that are accepted, but have another effect than in lm-eval, or none."""
    notes = [
        f"--{name} has no effect: nothing is sent to {where}; write lm-eval's files with --output_path DIR "
        "--log_samples and upload those"
        for name, where in (("hf_hub_log_args", "the Hub"), ("trackio_args", "Trackio"))
        if parameters.get(name)
    ]
    if parameters.get("no_cache"):
        notes.append("--no_cache has no effect: stored responses are used; to evaluate again give a new --store FILE")
    if parameters.get("wandb_config_args") and not parameters.get("wandb_args"):
        notes.append("--wandb_config_args has no effect without --wandb_args: nothing is sent")
    return notes


def wandb_arguments(parameters: WandbParameters) -> WandbArguments | None:
    """Return the arguments of `wandb.init` and the values for its configuration; None if nothing is to be logged.

    Raises: UsageError for text that is not name=value.
    """
    if not parameters["wandb_args"]:
        return None
    init_args = read_arguments("wandb_args")(parameters["wandb_args"])
    return init_args, read_arguments("wandb_config_args")(parameters["wandb_config_args"] or "")


def read_config(path: Path | None, known: set[str]) -> dict[str, object]:
    """Return the options in a YAML file (lm-eval's --config), as defaults that the command line overrides.

    Raises: UsageError with the file and the key.
    """
    if path is None:
        return {}
    from assaymark.limits.yaml_documents import load_yaml
    from assaymark.registry import nearest

    try:
        with path.open("rb") as file:  # which may be a pipe, as -C <(...) is
            text = file.read(LARGEST_CONFIG + 1)
        if len(text) > LARGEST_CONFIG:
            raise UsageError(f"--config {path}: has more than {LARGEST_CONFIG >> 20} MiB; expected YAML with options")
        content = load_yaml(text)
    except (OSError, DataError) as error:
        raise UsageError(f"--config {path}: cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise UsageError(f"--config {path}: expected a mapping of options, such as 'tasks: [arc_easy]'")
    for key in content:
        if key not in known:
            close = ", ".join(nearest(str(key), known)) or "see `assaymark run --help`"
            raise UsageError(f"--config {path}: unknown option '{key}'; nearest: {close}")
    return {key: _as_text(key, value) for key, value in content.items() if value is not None}


def _as_text(key: str, value: object) -> object:
    """Return a YAML value as the command line would give it."""
    if isinstance(value, dict):
        return json.dumps(value)
    if key in {"tasks", "include_path"}:
        return [str(v) for v in value] if isinstance(value, list) else [str(value)]
    if isinstance(value, list):
        return ",".join(str(v) for v in value)
    return (
        str(value).lower()
        if isinstance(value, bool) and key in {"apply_chat_template", "fewshot_as_multiturn"}
        else value
    )
