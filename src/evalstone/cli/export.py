"""`evalstone export RUN -o FILE`: a stored run in the form that others read."""

import click

from evalstone.cli.output import echo, store_option


@click.command()
@click.argument("run", default="last")
@click.option("-o", "--output", required=True, metavar="FILE|DIR", help="Where to; its ending chooses the form.")
@store_option
def export(run: str, output: str, store: str | None) -> None:
    """Write a stored run to a file.

    .evalstone is the whole run, which `evalstone import` reads on another machine; .csv, .parquet, .md and .tex are
    its estimates; .yaml is `model-index` for a Hugging Face model card; .json is lm-eval's results file, and a folder
    takes its samples files too.
    """
    from evalstone.api.exporting import export_run

    for path in export_run(store, run, output):
        echo(str(path))
