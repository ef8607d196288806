"""`evalstone report RUN... -o FILE`: a document to hand on."""

from pathlib import Path

import click

from evalstone.cli.output import echo, store_option


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=".html, .md or .pdf (default: RUN.html). A PDF is printed by a browser on this machine.",
)
@store_option
def report(runs: tuple[str, ...], output: Path | None, store: str | None) -> None:
    """Write a report of stored runs: numbers, charts, what changed, examples, how it was made, what it cannot say.

    Without a RUN it is the last one. With several, each is compared with the first.
    """
    from evalstone.api.reporting import report_stored

    echo(f"wrote {report_stored(store, runs or ('last',), output)}")
