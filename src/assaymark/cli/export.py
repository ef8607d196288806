"""`assaymark export RUN -o FILE`: write a stored run in a format that other tools read."""

import click

from assaymark.cli.output import echo, store_option
from assaymark.errors import UsageError


@click.command()
@click.argument("run", default="last")
@click.option(
    "-o", "--output", required=True, metavar="FILE|DIR", help="File or folder to write; its suffix selects the format."
)
@click.option("--wrong", is_flag=True, help="Write the samples answered wrongly or not at all, as .jsonl or .csv.")
@click.option("--by", type=click.Choice(["subject"]), help="With --wrong: subjects with the lowest values first.")
@store_option
def export(run: str, output: str, wrong: bool, by: str | None, store: str | None) -> None:
    """Export a stored run to a file.

    .assaymark is the whole run, which `assaymark import` reads on another machine; .csv, .parquet, .md and .tex are
    its estimates; .yaml is `model-index` for a Hugging Face model card; .json is lm-eval's results file. With a folder,
    lm-eval's samples files are written too.
    """
    from assaymark.api.exporting import export_run, export_wrong

    if by is not None and not wrong:
        raise UsageError("--by sorts samples; use it with --wrong")
    if wrong:
        path, n_rows = export_wrong(store, run, output, by_subject=by is not None)
        echo(f"{path}: {n_rows:,} samples")
        return
    for path in export_run(store, run, output):
        echo(str(path))
