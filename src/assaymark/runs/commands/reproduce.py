"""`assaymark reproduce RUN`: run a stored plan again and compare the results."""

from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Command, examples, json_option, print_result, store_option
from assaymark.cli.typed import typed_command
from assaymark.errors import UsageError
from assaymark.records.json_values import json_fields
from assaymark.runs.progress import ProgressLine
from assaymark.runs.run_options import declared_option

if TYPE_CHECKING:
    from assaymark.runs.evaluate_options import EvaluateOptions
    from assaymark.runs.run import Run

DIFFERS = 1


@click.command(
    cls=Command, epilog=examples("reproduce last", "reproduce REPORTED --model hf --model_args pretrained=DIR")
)
@click.argument("run", default="last")
@click.option(
    "--tasks", "-t", multiple=True, metavar="FILE|NAME",
    help="Files of the run's own tasks, if they have moved; of a run that only reports, the tasks to run.",
)  # fmt: skip
@click.option(
    "--model", "-M", metavar="KIND|DIR", help="Of a run that only reports: the model (default: the one that it names)."
)
@declared_option("model_args", help="Of a run that only reports: the arguments of its model.")
@declared_option("data_dir")
@declared_option("include_path", help="Folder with the run's own task files.")
@store_option
@json_option
def reproduce(
    run: str, tasks: tuple[str, ...], model: str | None, model_args: str, data_dir: str | None,
    include_path: tuple[str, ...], store: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run a stored plan again, without using stored responses, and report what differs.

    Plan, environment, prompts, tokens, outputs and scores are compared; the new run is not stored. Exit code 1 if
    anything differs by more than numerical noise.

    A run that was imported without answers only reports values: its tasks are run as far as it says how, and stored.
    Exit code 1 if the interval of a measured value does not cover the reported one; what is not stated is listed.
    """
    from assaymark.runs import reproduce as api
    from assaymark.runs.stored import open_run

    stored = open_run(store, run)
    if not stored.row.has_answers:
        options: EvaluateOptions = {"data_dir": data_dir, "include_path": list(include_path)}
        if store is not None:
            options["store"] = store
        if model_args:
            options["model_args"] = model_args
        return _measure(stored, tasks, model, options, as_json=as_json)
    if model is not None or model_args:
        raise UsageError("--model and --model_args are for runs that only report; this one has its model in its plan")
    reproduction = api.reproduce(stored, tasks, data_dir=data_dir, include_path=list(include_path))
    content = json_fields(reproduction, "is_reproduced", "verdict")
    print_result(content, lambda: "\n".join(api.lines_of(reproduction)), as_json=as_json)
    return 0 if reproduction.is_reproduced else DIFFERS


def _measure(
    run: "Run", tasks: tuple[str, ...], model: str | None, options: "EvaluateOptions", *, as_json: bool
) -> int:
    """Run what a run only reports, and print each value beside the measured one."""
    from assaymark.runs.measured_claims import measure_reported, measured_lines

    options["command"] = typed_command()
    with ProgressLine(quiet=as_json) as progress:
        options["observe"] = progress
        claims = measure_reported(run, tasks, model, **options)
    print_result(claims, lambda: "\n".join(measured_lines(claims)), as_json=as_json)
    return DIFFERS if any(each.is_reproduced is False for each in claims) else 0
