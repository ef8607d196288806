"""`assaymark reproduce RUN`: run a stored plan again and compare the results."""

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, json_option, print_json, store_option
from assaymark.records.json_values import json_fields
from assaymark.runs.run_options import declared_option

DIFFERS = 1


@click.command(cls=Command, epilog=examples("reproduce last"))
@click.argument("run", default="last")
@click.option("--tasks", "-t", multiple=True, metavar="FILE", help="Files of the run's own tasks, if they have moved.")
@declared_option("data_dir")
@declared_option("include_path", help="Folder with the run's own task files.")
@store_option
@json_option
def reproduce(
    run: str,
    tasks: tuple[str, ...],
    data_dir: str | None,
    include_path: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> int:
    """Run a stored plan again, without using stored responses, and report what differs.

    Plan, environment, prompts, tokens, outputs and scores are compared; the new run is not stored. Exit code 1 if
    anything differs by more than numerical noise.
    """
    from assaymark.runs import reproduce as api
    from assaymark.runs.stored import open_run

    reproduction = api.reproduce(open_run(store, run), tasks, data_dir=data_dir, include_path=list(include_path))
    if as_json:
        print_json(json_fields(reproduction, "is_reproduced", "verdict"))
    else:
        echo("\n".join(api.lines_of(reproduction)))
    return 0 if reproduction.is_reproduced else DIFFERS
