"""`assaymark report RUN... -o FILE`: write a report of stored runs."""

from functools import partial
from pathlib import Path

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, store_option


@click.command(cls=Command, epilog=examples("report last~1 last -o report.html"))
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with suffix .html, .md or .pdf (default: RUN.html). A PDF needs a browser on this machine.",
)
@click.option(
    "--claims",
    type=click.Path(path_type=Path),
    metavar="FILE.yaml",
    help="Values that others state of models, as hollow marks: a list of {model, source, scores: {task: per cent}}.",
)
@click.option("--with_sealed", is_flag=True, help="Show rows of sealed tasks among the examples too.")
@store_option
def report(
    runs: tuple[str, ...], output: Path | None, claims: Path | None, with_sealed: bool, store: str | None
) -> None:
    """Write a report of stored runs: results, charts, differences, examples, methods and limitations.

    Without RUN it reports the last run. With several runs, each is compared with the first.
    """
    from assaymark.runs.reporting import report_stored

    written = report_stored(
        store, runs or ("last",), output, with_sealed=with_sealed, claims=claims, notify=partial(echo, err=True)
    )
    echo(f"wrote {written}")
