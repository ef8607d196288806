"""`evalstone rm RUN`: remove a stored run and what only it needed."""

import click

from evalstone.cli.output import echo, store_option


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@store_option
def rm(runs: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Remove stored runs: their outputs, scores and texts that no other run uses."""
    from evalstone.api.stored import removable_runs, remove_run

    found = removable_runs(store, runs)
    for row in found:
        echo(f"{row.short_id}  {row.model}  {', '.join(row.tasks[:5])}")
    if not yes:
        click.confirm(f"Remove {len(found)} run(s) with all their answers?", abort=True)
    for row in found:
        gone = remove_run(store, row.run_id)
        echo(
            f"removed {row.short_id}: {gone.n_requests:,} requests, {gone.n_outputs:,} answers, "
            f"{gone.n_scores:,} scores and {gone.n_texts:,} texts that no other run uses"
        )
