"""`assaymark store`: back up and restore the database of stored runs, votes and submissions.

`assaymark rm RUN`: remove stored runs, with the data that no other run uses.

`assaymark verify [RUN]`: compute every stored hash and score again, and report mismatches.
"""

import sys
from pathlib import Path

import click

from assaymark.cli.output import Command, Group, echo, examples, json_option, print_json, store_option
from assaymark.documents.numbers import counted
from assaymark.errors import UsageError


@click.command(cls=Command, epilog=examples("verify last"))
@click.argument("run", required=False)
@store_option
@json_option
def verify(run: str | None, store: str | None, as_json: bool) -> int:
    """Check every stored hash and score of RUN, or of the whole store.

    Exit code 4 if anything is wrong.
    """
    from assaymark.runs.stored import verify_store

    problems = verify_store(store, run)
    if as_json:
        print_json(problems)
    elif problems:
        echo(*map(str, problems))
        echo(counted(len(problems), "problem"), err=True)
    else:
        echo("no problems in texts, requests, outputs, scores and run keys")
    sys.stdout.flush()
    return 4 if problems else 0


@click.command(cls=Command, epilog=examples("rm last"))
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@store_option
def rm(runs: tuple[str, ...], yes: bool, store: str | None) -> None:
    """Remove stored runs, with the outputs, scores and texts that no other run uses."""
    from assaymark.runs.stored import removable_runs, remove_run

    run_rows = removable_runs(store, runs)
    echo(*(f"{row.short_id}  {row.model}  {', '.join(row.tasks[:5])}" for row in run_rows))
    if not yes:
        try:
            is_agreed = click.confirm(f"Remove {counted(len(run_rows), 'run')} with all outputs?")
        except click.exceptions.Abort as error:  # the end of the input, or Ctrl-C
            raise UsageError("nothing was removed: the question was not answered; answer y, or give --yes") from error
        if not is_agreed:
            echo("nothing was removed")
            return
    for row in run_rows:
        removed = remove_run(store, row.run_id)
        echo(
            f"removed {row.short_id}: {removed.n_requests:,} requests, {removed.n_outputs:,} outputs, "
            f"{removed.n_scores:,} scores and {removed.n_texts:,} texts that no other run uses"
        )


EXAMPLES = examples("store backup runs-2026-11-24.sqlite", "store restore runs-2026-11-24.sqlite --replace")


@click.group(cls=Group, epilog=EXAMPLES)
def store() -> None:
    """Back up and restore the database of runs, votes and submissions."""


@store.command(epilog=examples("store backup monday.sqlite"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@store_option
def backup(file: Path, store: str | None) -> None:
    """Copy the store to FILE while runs and servers go on writing; the copy is checked before it appears."""
    from assaymark.settings import store_location
    from assaymark.store.backup import backup as copy_store

    copied = copy_store(store_location(store), file)
    echo(f"{copied.path}: {copied.n_runs:,} runs, {copied.n_bytes / 1e6:,.1f} MB")


@store.command(epilog=examples("store restore monday.sqlite --replace"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace a store that is there, after copying it to NAME.before-restore.")
@store_option
def restore(file: Path, *, replace: bool, store: str | None) -> None:
    """Copy a backup to the store's place. Stop runs, workers and servers first."""
    from assaymark.settings import store_location
    from assaymark.store.backup import restore as put_back

    copied = put_back(file, store_location(store), replace=replace)
    echo(f"{copied.path}: {copied.n_runs:,} runs restored; `assaymark verify` checks every hash")
