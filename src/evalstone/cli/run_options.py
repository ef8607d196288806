"""The options `run` and `plan` share: lm-eval's flags under its names, then ours.

lm-eval's flags that have no work left to do here (its two caches, its batch size) are taken and change no number.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from evalstone.errors import DataError, UsageError

F = TypeVar("F", bound=Callable[..., Any])
TRUE = {"true", "1", "yes"}
FALSE = {"false", "0", "no", "none"}


def _shot_counts(_: click.Context, option: click.Parameter, value: Any) -> int | tuple[int, ...] | None:
    """Return a number of shots, or several where there are commas between, for the ways of --prompting."""
    if value is None:
        return None
    parts = [part.strip() for part in str(value).split(",")]
    if not all(part.lstrip("-").isdigit() for part in parts):
        raise click.BadParameter(f"'{value}' is not a valid integer; expected shots such as 5, or 0,5", param=option)
    return int(parts[0]) if len(parts) == 1 else tuple(map(int, parts))


_LM_EVAL: tuple[Callable[[F], F], ...] = (
    click.option("--model", "-M", default="hf", show_default=True, metavar="KIND|DIR",
                 help="Kind of model, or a folder or hub id."),
    click.option("--model_args", "-a", default="", metavar="A=1,B=2", help="pretrained=DIR,dtype=float32,peft=DIR,..."),
    click.option("--tasks", "-t", multiple=True, metavar="NAMES",
                 help="Tasks, groups, suites, globs or files (whose code may run)."),
    click.option("--num_fewshot", "-f", callback=_shot_counts, metavar="N",
                 help="Shots before each sample (default: the task's)."),
    click.option("--limit", "-L", type=float, metavar="N", help="First N samples of each task, or a fraction below 1."),
    click.option("--samples", "-E", metavar="JSON|FILE", help='Only these positions: \'{"arc_easy": [0, 7]}\'.'),
    click.option("--apply_chat_template", metavar="[NAME]", help="Put prompts through the model's chat template."),
    click.option("--fewshot_as_multiturn", metavar="[BOOL]", help="Shots as turns (default: yes with a template)."),
    click.option("--system_instruction", metavar="TEXT", help="System message before everything."),
    click.option("--gen_kwargs", metavar="A=1,B=2", help="Generation settings over the task's own."),
    click.option("--include_path", multiple=True, metavar="DIR", help="Folder with task files; their code may run."),
    click.option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, ... (default: the best there is)."),
    click.option("--batch_size", "-b", metavar="N|auto", help="Accepted without effect: the engine packs by memory."),
    click.option("--max_batch_size", type=int, metavar="N", help="Accepted without effect: see --batch_size."),
    click.option("--seed", metavar="N[,N,N,N]", help="lm-eval's four seeds; the fourth draws the shots (1234)."),
    click.option("--trust_remote_code", is_flag=True, help="Let the model's repository run its code here."),
    click.option("--metadata", metavar="JSON|A=1", help="Kept with the run; task files may read it."),
    click.option("--use_cache", "-c", metavar="PATH", help="Accepted without effect: stored answers are used."),
    click.option("--cache_requests", metavar="[MODE]", help="Accepted without effect: prompts are made anew, quickly."),
    click.option("--check_integrity", is_flag=True, help="Check the stored run's hashes after it."),
    click.option("--verbosity", "-v", metavar="LEVEL", help="Accepted without effect (deprecated in lm-eval too)."),
    click.option("--confirm_run_unsafe_code", "--unsafe_code", "confirm_run_unsafe_code", is_flag=True,
                 help="Run code a model wrote even where there is no sandbox."),
    click.option("--config", "-C", type=click.Path(path_type=Path), metavar="FILE",
                 help="YAML with any of these options."),
    click.option("--wandb_args", metavar="A=1,B=2",
                 help="Log the results to Weights & Biases, if wandb is installed: project=NAME,... Nothing is sent "
                 "without it."),
    click.option("--wandb_config_args", metavar="A=1,B=2", help="With --wandb_args: more of its run's configuration."),
    click.option("--trackio_args", metavar="A=1", hidden=True),
    click.option("--hf_hub_log_args", metavar="A=1", hidden=True),
    click.option("--no_cache", is_flag=True, hidden=True),
)  # fmt: skip
_OURS: tuple[Callable[[F], F], ...] = (
    click.option("--data_dir", metavar="DIR", help="Local data: DIR/<hub path>/<config>/<split>.parquet."),
    click.option("--store", metavar="FILE|URL", help="Where runs are kept (default: your data folder)."),
    click.option("--suite", metavar="NAME|FILE", help="A board: its tasks at its shots, and their one number."),
    click.option("--partial", is_flag=True, help="With --suite: leave out what cannot be asked; no composite then."),
    click.option("--prompt_preset", metavar="NAME|FILE",
                 help="A published prompt format (chatml, llama-2, ...; see `ls presets`), not the model's template."),
    click.option("--system_prompt", metavar="NAME|FILE",
                 help="A system text by name, or a text file's, in place of --system_instruction."),
    click.option("--profile", metavar="NAME",
                 help="Whose rules: BOS, shots, numerics (default: the suite's, else lm-eval-0.4.13)."),
    click.option("--numerics", type=click.Choice(["float32", "model-dtype"]), default="float32", show_default=True,
                 help="Scores in float32, or rounded as lm-eval rounds them."),
    click.option("--too_long", type=click.Choice(["cut", "error"]), default="cut", show_default=True,
                 help="Prompts beyond the model's positions: cut from the left, or refuse."),
    click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that answer."),
    click.option("--cluster", metavar="ADDRESS",
                 help="Place --workers on a Ray cluster: auto, HOST:6379 or ray://HOST:10001. Each takes a GPU, or a "
                 "share of the CPUs where there are none; every machine has the model at the same path, or it is on "
                 "the Hub."),
    click.option("--strict_env", is_flag=True, help="Make versions part of the run's identity."),
)  # fmt: skip


def run_options(function: F) -> F:
    """Add the shared options to a command."""
    for option in reversed((*_LM_EVAL, *_OURS)):
        function = option(function)
    return function


def evaluate_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the API's options (`EvaluateOptions`) from the parsed ones.

    Raises: UsageError naming option, value and what was expected.
    """
    if isinstance(given["num_fewshot"], tuple):
        shown = ",".join(map(str, given["num_fewshot"]))
        raise UsageError(f"--num_fewshot {shown} asks for several runs, as `run --prompting letter,text` does")
    template = _flag_or_name("--apply_chat_template", given["apply_chat_template"])
    multiturn = given["fewshot_as_multiturn"]
    return {
        "num_fewshot": given["num_fewshot"],
        "limit": given["limit"],
        "samples": samples_of(given["samples"]),
        "seed": fewshot_seed(given["seed"]),
        "apply_chat_template": template,
        "fewshot_as_multiturn": None if multiturn is None else bool(_flag_or_name("--fewshot_as_multiturn", multiturn)),
        "system_instruction": given["system_instruction"],
        "system_prompt": given["system_prompt"],
        "prompt_preset": given["prompt_preset"],
        "gen_kwargs": _arguments(given["gen_kwargs"], "gen_kwargs"),
        "metadata": _arguments(given["metadata"], "metadata"),
        "suite": given["suite"],
        "partial": given["partial"],
        "profile": given["profile"],
        "numerics": given["numerics"],
        "too_long": given["too_long"],
        "strict_env": given["strict_env"],
        "include_path": given["include_path"],
        "data_dir": given["data_dir"],
        "store": given["store"],
        "workers": given["workers"],
        "cluster": given["cluster"],
        "confirm_unsafe_code": given["confirm_run_unsafe_code"],
    }


def model_arguments(given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind of model and its arguments; `--model DIR` alone is a local model in that folder."""
    from evalstone.models.create import MODELS, create_model

    arguments = _arguments(given["model_args"], "model_args")
    for name in ("device", "batch_size", "max_batch_size"):
        if given[name] is not None:
            arguments.setdefault(name, given[name])
    if given["trust_remote_code"]:
        arguments["trust_remote_code"] = True
    kind = given["model"]
    if "pretrained" not in arguments and ("/" in kind or Path(kind).is_dir()):
        arguments["pretrained"], kind = kind, "hf"
    if kind not in MODELS.places():
        create_model(kind, arguments)  # raises, with the nearest names
    return kind, arguments


def notes_on(given: Mapping[str, Any]) -> list[str]:
    """Return what the user must know of flags that are accepted and do not do here what they do in lm-eval."""
    notes = [
        f"--{name} is accepted and nothing is sent to {where}: write lm-eval's files with --output_path DIR "
        "--log_samples and upload those"
        for name, where in (("hf_hub_log_args", "the Hub"), ("trackio_args", "Trackio"))
        if given.get(name)
    ]
    if given.get("no_cache"):
        notes.append("--no_cache: answers that are stored are used; for new ones name a new file with --store FILE")
    if given.get("wandb_config_args") and not given.get("wandb_args"):
        notes.append("--wandb_config_args has no effect without --wandb_args: nothing is sent")
    return notes


def wandb_arguments(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return what W&B is given to begin its run and to add to its configuration; None where nothing is to be logged.

    Raises: UsageError where they are no name=value.
    """
    if not given.get("wandb_args"):
        return None
    return (
        _arguments(given["wandb_args"], "wandb_args"),
        _arguments(given.get("wandb_config_args"), "wandb_config_args"),
    )


def fewshot_seed(text: str | None) -> int | None:
    """Return the seed of the few-shot draw from lm-eval's list of up to four."""
    if text is None:
        return None
    parts = [part.strip() for part in str(text).split(",")]
    if len(parts) not in {1, 3, 4} or not all(part.lower() == "none" or part.lstrip("-").isdigit() for part in parts):
        raise UsageError(f"--seed is '{text}'; expected one whole number, or four: python,numpy,torch,fewshot")
    last = parts[0] if len(parts) == 1 else parts[3] if len(parts) == 4 else "1234"
    if last.lower() == "none":
        raise UsageError(
            "--seed: the fourth seed is None, and an unseeded draw of shots cannot be repeated; give a number"
        )
    return int(last)


def samples_of(text: str | None) -> dict[str, list[int]] | None:
    """Return task -> positions from JSON text or a file that holds it."""
    if text is None:
        return None
    origin = "--samples"
    if not text.lstrip().startswith("{"):
        path = Path(text)
        if not path.is_file():
            raise UsageError(
                f"--samples names '{text}', which is no file; expected JSON such as {{\"arc_easy\": [0, 7]}}"
            )
        origin, text = str(path), path.read_text(encoding="utf-8")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f'{origin} is not JSON ({error}); expected {{"arc_easy": [0, 7]}}') from None
    right = isinstance(value, dict) and all(
        isinstance(v, list) and all(isinstance(i, int) and i >= 0 for i in v) for v in value.values()
    )
    if not right:
        raise UsageError(f'{origin} must map task names to lists of positions, as in {{"arc_easy": [0, 7]}}')
    return value  # type: ignore[no-any-return]


def _arguments(text: str | None, option: str) -> dict[str, Any]:
    from evalstone.models.checkpoint.arguments import parse_arguments

    if not text:
        return {}
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise UsageError(f"--{option}: '{text}' is not JSON: {error}") from None
        return dict(value)
    return parse_arguments(text, option)


def _flag_or_name(option: str, text: str | bool | None) -> bool | str:
    """Return True, False, or the name that was given in place of a truth value."""
    if text is None or isinstance(text, bool):
        return bool(text)
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    if option == "--apply_chat_template":
        return text
    raise UsageError(f"{option} is '{text}'; expected true or false")


def read_config(path: Path | None, known: set[str]) -> dict[str, Any]:
    """Return the options in a YAML file (lm-eval's --config), to stand as defaults under the command line's.

    Raises: UsageError naming the file and the key.
    """
    if path is None:
        return {}
    from evalstone.limits.yaml_documents import load_yaml
    from evalstone.registry import nearest

    try:
        content = load_yaml(path.read_bytes())
    except (OSError, DataError) as error:
        raise UsageError(f"--config {path}: cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise UsageError(f"--config {path}: expected a mapping of options, such as 'tasks: [arc_easy]'")
    for key in content:
        if key not in known:
            close = ", ".join(nearest(str(key), known)) or "see `evalstone run --help`"
            raise UsageError(f"--config {path}: unknown option '{key}'; nearest: {close}")
    return {key: _as_text(key, value) for key, value in content.items() if value is not None}


def _as_text(key: str, value: Any) -> Any:
    """Return a YAML value in the form the command line would have given it."""
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
