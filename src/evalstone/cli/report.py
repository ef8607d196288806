"""`evalstone report RUN -o FILE`: a document to hand on."""

from pathlib import Path

import click

from evalstone.cli.output import store_option


@click.command()
@click.argument("run", default="last")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help=".html or .md (default: RUN.html)."
)
@store_option
def report(run: str, output: Path | None, store: str | None) -> None:
    """Write a report of a stored run: its numbers, how they were made, and what they cannot say."""
    from evalstone.api.stored import open_run

    found = open_run(store, run)
    click.echo(f"wrote {found.write_report(output or Path(f'{found.short_id}.html'))}")
