"""`assaymark export RUN -o FILE`: write a stored run in a format that other tools read.

`assaymark import PATH`: store another tool's run, marked as imported.
"""

from pathlib import Path

import click

from assaymark.cli.output import echo, json_option, print_json, print_rich, store_option
from assaymark.cli.typed import typed_command
from assaymark.errors import UsageError


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
    from assaymark.runs.exporting import import_run

    imported = import_run(store, path, command=typed_command())
    if as_json:
        print_json({**imported.run.to_json(), "is_new": imported.is_new, "notes": list(imported.notes)})
        return
    print_rich(imported.run.table())
    for note in imported.notes:
        echo(f"note: {note}", err=True)
    if not imported.is_new:
        echo("this run was already in the store; nothing was added")
    for line in imported.run.remarks():
        echo(line)


@click.command()
@click.argument("run", default="last")
@click.option(
    "-o", "--output", required=True, metavar="FILE|DIR", help="File or folder to write; its suffix selects the format."
)
@click.option("--wrong", is_flag=True, help="Write the samples answered wrongly or not at all, as .jsonl or .csv.")
@click.option("--by", type=click.Choice(["subject"]), help="With --wrong: subjects with the lowest values first.")
@click.option("--with_sealed", is_flag=True, help="Write the rows of sealed tasks too, for whoever gets the file.")
@store_option
def export(run: str, output: str, wrong: bool, by: str | None, with_sealed: bool, store: str | None) -> None:
    """Export a stored run to a file.

    .assaymark is the whole run, which `assaymark import` reads on another machine; .csv, .parquet, .md and .tex are
    its estimates; .yaml is `model-index` for a Hugging Face model card; .json is lm-eval's results file. With a folder,
    lm-eval's samples files are written too. Rows of sealed tasks are in none of them without --with_sealed.
    """
    from assaymark.runs.exporting import export_run, export_wrong

    if by is not None and not wrong:
        raise UsageError("--by sorts samples; use it with --wrong")
    if wrong:
        path, n_rows = export_wrong(store, run, output, by_subject=by is not None, with_sealed=with_sealed)
        echo(f"{path}: {n_rows:,} samples")
        return
    for path in export_run(store, run, output, with_sealed=with_sealed):
        echo(str(path))
