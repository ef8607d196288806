"""The options of `assaymark run` for applications, and their conversion to keywords of `evaluate`."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Unpack

import click

from assaymark.errors import UsageError
from assaymark.records.json_values import dataclass_within
from assaymark.runs.targets import TargetKind

if TYPE_CHECKING:
    from assaymark.applications.rows import Source
    from assaymark.runs.evaluate_options import EvaluateKeywords
    from assaymark.runs.run import Run
    from assaymark.runs.targets import TargetForecast

_OPTIONS = (
    click.option("--target", metavar="TARGET", help="Evaluate an application instead of a model, on the rows that "
                 "--tasks names: FILE.py:NAME, module:NAME, a URL, or exec:COMMAND."),
    click.option("--scorers", multiple=True, metavar="NAMES", help="With --target: scorers by name, or FILE.py:NAME."),
    click.option("--judge", metavar="MODEL", help="The model that judged scorers ask, or that grades where a "
                 "benchmark asks for one: a folder, a Hub id or a kind of model; for grades several, with commas "
                 "between."),
    click.option("--judge_args", metavar="A=1,B=2", help="Arguments of the judge, as --model_args."),
    click.option("--human_labels", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="With --scorers: "
                 "people's scores by row id; their agreement stands beside the scores."),
    click.option("--target_version", metavar="TEXT", help="With --target: what its source does not show, such as a "
                 "release; another version is another run."),
    click.option("--target_name", metavar="TEXT", help="With --target: the name that tables show."),
    click.option("--target_files", multiple=True, metavar="FILE", help="With --target: files that decide its "
                 "answers (prompts)."),
    click.option("--target_body", metavar="JSON", help="With a URL: the body, with {{input}} for an input."),
    click.option("--answer_path", metavar="PATH", help="With a URL: where the answer is in the response, as "
                 "choices[0].text."),
    click.option("--target_header", multiple=True, metavar="NAME: VALUE", help="With a URL: a header; ${VARIABLE} "
                 "is read from the environment."),
    click.option("--public_only", is_flag=True, help="With a URL: refuse addresses that are not public, as those "
                 "of this machine and its network."),
    click.option("--repeats", type=click.IntRange(1), metavar="N", help="With --target: calls per row (default: 1)."),
    click.option("--concurrency", type=click.IntRange(1), metavar="N", help="With --target: calls at once "
                 "(default: 8)."),
    click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                 help="With --target: time limit of a call (default: 300)."),
    click.option("--retries", type=click.IntRange(0), metavar="N", help="With --target: tries after a call that failed "
                 "(default: 0)."),
)  # fmt: skip
_OWN = {
    "scorers": "scorers", "judge": "judge", "judge_args": "judge_args", "human_labels": "human_labels",
    "target_version": "version", "target_name": "name", "target_files": "files",
    "target_body": "body", "answer_path": "answer_path", "target_header": "headers", "public_only": "public_only",
    "repeats": "repeats",
    "concurrency": "concurrency", "timeout": "timeout_s", "retries": "retries",
}  # fmt: skip
_OF_GRADERS = frozenset({"judge", "judge_args"})  # for models too
_COMMON = {"store": "store", "limit": "limit", "data_dir": "data_dir", "wait": "no_wait"}  # keyword -> parameter
_OF_OUTPUT = frozenset({
    "tasks", "config", "output_path", "log_samples", "show_config", "check_integrity", "predict_only", "details",
    "quiet", "as_json", "wandb_args", "wandb_config_args", "target",
})  # fmt: skip


def _takes(target: object, keywords: Mapping[str, object]) -> bool:
    is_function = inspect.isfunction(target) or inspect.ismethod(target) or isinstance(target, partial)
    return is_function or "scorers" in keywords


def _evaluate(target: object, rows: "Source", **keywords: "Unpack[EvaluateKeywords]") -> "Run":
    from assaymark.applications.evaluate import evaluate_application

    return evaluate_application(target, rows, **keywords)


def _plan(target: object, rows: "Source", **keywords: "Unpack[EvaluateKeywords]") -> "TargetForecast":
    from assaymark.applications.forecast import plan_application

    return plan_application(target, rows, **keywords)


@dataclass(frozen=True, slots=True)
class _Named:
    target: str | None
    tasks: tuple[str, ...]
    scorers: tuple[str, ...]
    target_header: tuple[str, ...]


def _of_command(options: Mapping[str, object]) -> tuple[object, object, dict[str, object]] | None:
    """Return target, rows and keywords of a command with --target; None without it.

    Raises: UsageError for options that need --target or that only models have.
    """
    own = {name: options[name] for name in _OWN if options[name] not in (None, (), False)}
    named = dataclass_within(_Named, options)
    if named.target is None:
        own = {name: value for name, value in own.items() if name not in _OF_GRADERS}
        if own:
            raise UsageError(f"--{next(iter(own))} is for applications; name one with --target, or omit it")
        return None
    context = click.get_current_context()
    known = {*_OWN, *_COMMON.values(), *_OF_OUTPUT}
    for name in options:
        is_default = context.get_parameter_source(name) in (None, click.core.ParameterSource.DEFAULT)
        if not is_default and name not in known:
            raise UsageError(f"--{name} is for models, and --target names an application; omit one of them")
    if len(named.tasks) != 1:
        raise UsageError(
            f"--target needs one source of rows, and --tasks names {len(named.tasks)}; expected a file or a Hub id"
        )
    keywords = {_OWN[name]: value for name, value in own.items()}
    if named.target_header:
        keywords["headers"] = dict(map(_header, named.target_header))
    keywords["scorers"] = ",".join(named.scorers)
    common = {name: options[parameter] for name, parameter in _COMMON.items() if options.get(parameter) is not None}
    return named.target, named.tasks[0], {**keywords, **common}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--target_header is '{text}'; expected NAME: VALUE")
    return name.strip(), value.strip()


application_kind = TargetKind(_takes, _evaluate, _OPTIONS, _of_command, _plan)
