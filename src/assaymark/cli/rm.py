"""`assaymark rm RUN`: remove stored runs, with the data that no other run uses."""

import click

from assaymark.cli.output import echo, store_option
from assaymark.errors import UsageError


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@store_option
def rm(runs: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Remove stored runs, with the outputs, scores and texts that no other run uses."""
    from assaymark.api.stored import removable_runs, remove_run

    found = removable_runs(store, runs)
    for row in found:
        echo(f"{row.short_id}  {row.model}  {', '.join(row.tasks[:5])}")
    if not yes:
        try:
            is_agreed = click.confirm(f"Remove {len(found)} run(s) with all their outputs?")
        except click.exceptions.Abort as error:  # the end of the input, or Ctrl-C
            raise UsageError("nothing was removed: the question was not answered; answer y, or give --yes") from error
        if not is_agreed:
            echo("nothing was removed")
            return
    for row in found:
        removed = remove_run(store, row.run_id)
        echo(
            f"removed {row.short_id}: {removed.n_requests:,} requests, {removed.n_outputs:,} outputs, "
            f"{removed.n_scores:,} scores and {removed.n_texts:,} texts that no other run uses"
        )
