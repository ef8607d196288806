"""`evalstone audit`: what a score does not say of itself."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from evalstone.cli.output import echo, json_option, print_json, print_rich, store_option
from evalstone.cli.run_options import Decorator, declared_option, evaluate_options
from evalstone.cli.typed import typed_command
from evalstone.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_ASKING: tuple[Decorator[Any], ...] = (
    declared_option("model_args", help="Arguments of the model, as in `run`."),
    declared_option("limit"),
    declared_option("data_dir", help="Local data, as in `run`."),
    declared_option("include_path"),
    declared_option("workers"),
    declared_option("wait", help="Refuse where another process is writing the same audit."),
    click.option("--quiet", "-q", is_flag=True, help="Do not say what is being asked."),
)
shots_option = declared_option(
    "num_fewshot", help="Shots (default: the task's own).", type=click.IntRange(0), callback=None
)
output_option = click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the result as JSON, samples and all."
)


def asking_options(function: F) -> F:
    """Add the options of audits that ask a model."""
    for option in reversed(_ASKING):
        function = option(function)
    return function


@click.group()
def audit() -> None:
    """Ask what a score does not say: was the test seen, does the wording decide, is the model honest about itself?"""


@audit.command()
@click.argument("model", metavar="MODEL")
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@click.option("--test", "tests", multiple=True, metavar="NAME", help="order, options, numbers, overlap, min-k (all).")
@click.option("--corpus", type=click.Path(path_type=Path), metavar="FILE|DIR", help="Text to look for the samples in.")
@click.option("--n_words", type=click.IntRange(4), default=13, show_default=True, help="Words of an n-gram.")
@click.option("--control", metavar="MODEL", help="A model that cannot have seen the tasks.")
@click.option("--control_task", metavar="TASK", help="Samples of the same kind that cannot have been seen.")
@click.option("--shards", type=click.IntRange(4), default=50, show_default=True, help="Of the order test.")
@click.option("--shuffles", type=click.IntRange(2), default=25, show_default=True, help="Of each shard.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the shuffles.")
@asking_options
@store_option
@output_option
@json_option
def contamination(model: str, tasks: tuple[str, ...], **given: Any) -> None:
    """Look for signs that MODEL saw TASK... in training. Asks for log-likelihoods only; nothing is sent anywhere.

    Answers are stored as they come: the same command again asks only what is missing.
    """
    from evalstone.api import auditing
    from evalstone.audit.contamination import ContaminationSettings
    from evalstone.audit.contamination_tables import contamination_json, contamination_table
    from evalstone.audit.order_test import OrderSettings
    from evalstone.audit.overlap import Corpus

    auditing.check_ending(given["output"])
    if "overlap" in given["tests"] and given["corpus"] is None:
        raise UsageError("--test overlap looks into a corpus; name one with --corpus FILE or DIR")
    settings = ContaminationSettings(
        tests=given["tests"],
        order=OrderSettings(given["shards"], given["shuffles"], given["seed"]),
        corpus=Corpus(given["corpus"]) if given["corpus"] is not None else None,
        n_words=given["n_words"],
        seed=given["seed"],
    )
    found = auditing.audit_contamination(
        model,
        tasks,
        settings,
        control=given["control"],
        control_task=given["control_task"],
        told=_teller(given),
        **_evaluate_options(given),
    )
    _print(given, contamination_json(found), contamination_table(found))


@audit.command()
@click.argument("model", metavar="MODEL")
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@click.option("--beside", multiple=True, metavar="MODEL", help="Another model on the same prompts: do ranks change?")
@click.option("--system", "systems", multiple=True, metavar="TEXT", help="System prompts to compare (default: four).")
@click.option("--apply_chat_template", is_flag=True, help="Put the task's own form through the chat template.")
@shots_option
@asking_options
@store_option
@output_option
@json_option
def prompts(model: str, tasks: tuple[str, ...], **given: Any) -> None:
    """Ask the same samples in a dozen forms, under system prompts and in every cyclic option order.

    Shots are put in each form's own wording. Answers are stored as they come: the same command again asks only what
    is missing.
    """
    from dataclasses import asdict

    from evalstone.api import auditing
    from evalstone.audit.prompt_tables import prompts_table
    from evalstone.audit.prompts import rank_changes

    auditing.check_ending(given["output"])
    found = auditing.audit_prompts(
        [model, *given["beside"]],
        tasks,
        given["systems"] or auditing.SYSTEM_PROMPTS,
        told=_teller(given),
        **_evaluate_options(given),
    )
    changes = rank_changes(found)
    content = {"audits": [asdict(one) for one in found], "ranks": [asdict(one) for one in changes]}
    _print(given, content, prompts_table(found, changes))


@audit.command()
@click.argument("run", default="last")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option("--model", "-M", metavar="MODEL", help="Run this model first, on --tasks; RUN is then left out.")
@click.option("--tasks", "-t", "asked", multiple=True, metavar="NAMES", help="With --model: what it is asked.")
@shots_option
@asking_options
@store_option
@output_option
@json_option
def calibration(run: str, tasks: tuple[str, ...], store: str | None, **given: Any) -> None:
    """Say how well a stored RUN's confidences fit its answers: curve, calibration error, Brier score, by task."""
    from dataclasses import asdict

    from evalstone.api import auditing
    from evalstone.api.evaluate import evaluate
    from evalstone.api.stored import open_run
    from evalstone.audit.calibration_tables import calibration_table

    auditing.check_ending(given["output"])
    if given["model"] is None:
        if given["asked"] or given["num_fewshot"] is not None:
            raise UsageError("--tasks and --num_fewshot say what a new run is asked; name its model with --model")
        found_run = open_run(store, run)
    else:
        found_run = evaluate(given["model"], given["asked"], **_evaluate_options({**given, "store": store}))
    found = auditing.audit_calibration(found_run, tasks)
    _print(given, [asdict(one) for one in found], calibration_table(found))


def _evaluate_options(given: Mapping[str, Any]) -> dict[str, Any]:
    shared = {name: value for name, value in given.items() if name != "seed"}  # here it is that of the shuffles
    return {**evaluate_options(shared), "command": typed_command()}


def _teller(given: Mapping[str, Any]) -> Callable[[str], None]:
    quiet = given["quiet"] or given["as_json"]
    return lambda line: None if quiet else echo(line, err=True)


def _print(given: Mapping[str, Any], content: Any, view: Any) -> None:
    from evalstone.api.auditing import write_json

    if given["output"] is not None:
        echo(f"wrote {write_json(given['output'], content)}", err=True)
    if given["as_json"]:
        print_json(content)
    else:
        print_rich(view)
