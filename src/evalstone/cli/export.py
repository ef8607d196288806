"""`evalstone export RUN -o FILE`: a stored run in the form that others read."""

import click

from evalstone.cli.output import echo, store_option
from evalstone.errors import UsageError


@click.command()
@click.argument("run", default="last")
@click.option("-o", "--output", required=True, metavar="FILE|DIR", help="Where to; its ending chooses the form.")
@click.option("--wrong", is_flag=True, help="The samples answered wrongly or not at all, as .jsonl or .csv.")
@click.option("--by", type=click.Choice(["subject"]), help="With --wrong: the subjects with the lowest values first.")
@store_option
def export(run: str, output: str, wrong: bool, by: str | None, store: str | None) -> None:
    """Write a stored run to a file.

    .evalstone is the whole run, which `evalstone import` reads on another machine; .csv, .parquet, .md and .tex are
    its estimates; .yaml is `model-index` for a Hugging Face model card; .json is lm-eval's results file, and a folder
    takes its samples files too.
    """
    from evalstone.api.exporting import export_run, export_wrong

    if by is not None and not wrong:
        raise UsageError("--by orders samples; say --wrong too")
    if wrong:
        path, n_rows = export_wrong(store, run, output, by_subject=by is not None)
        echo(f"{path}: {n_rows:,} samples")
        return
    for path in export_run(store, run, output):
        echo(str(path))
