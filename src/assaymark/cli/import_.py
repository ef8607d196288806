"""`assaymark import PATH`: store another tool's run, marked as imported."""

from pathlib import Path

import click

from assaymark.cli.output import echo, json_option, print_json, print_rich, store_option
from assaymark.cli.typed import typed_command


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@store_option
@json_option
def import_(path: Path, store: str | None, as_json: bool) -> None:
    """Import a run of another tool, so that it can be shown and compared like any other, marked as imported.

    PATH is lm-eval's or lighteval's results file, or a folder with one (their samples or details of the same time are
    read too; without them the run can be shown but not compared); lm-eval's results of 0.2 and 0.3; Inspect's .eval or
    .json log, or a folder of them; HELM's run folder or a suite's; simple-evals' _allresults.json; AlpacaEval's
    annotations.json; EvalScope's reports; OpenCompass's summary; or an exported .assaymark file.
    """
    from assaymark.api.importing import import_run

    found = import_run(store, path, command=typed_command())
    if as_json:
        print_json({**found.run.to_json(), "is_new": found.is_new, "notes": list(found.notes)})
        return
    print_rich(found.run.table())
    for note in found.notes:
        echo(f"note: {note}", err=True)
    if not found.is_new:
        echo("this run was already in the store; nothing was added")
    for line in found.run.remarks():
        echo(line)
