"""`assaymark verify [RUN]`: compute every stored hash and score again, and report mismatches."""

import sys

import click

from assaymark.cli.output import echo, json_option, print_json, store_option


@click.command()
@click.argument("run", required=False)
@store_option
@json_option
def verify(run: str | None, store: str | None, as_json: bool) -> int:
    """Check every stored hash and score of RUN, or of the whole store.

    Exit code 4 if anything is wrong.
    """
    from assaymark.api.stored import verify_store

    problems = verify_store(store, run)
    if as_json:
        print_json([{"table": p.table, "row": p.row, "what": p.what} for p in problems])
    elif problems:
        for problem in problems:
            echo(str(problem))
        echo(f"{len(problems)} problem(s)", err=True)
    else:
        echo("no problems in texts, requests, outputs, scores and run keys")
    sys.stdout.flush()
    return 4 if problems else 0
