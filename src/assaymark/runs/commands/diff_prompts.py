"""`assaymark diff-prompts RUN RUN`: how the prompts of two runs differ."""

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import json_option, print_json, print_rich, store_option


@click.command("diff-prompts", cls=Command, epilog=examples("diff-prompts last~1 last arc_easy"))
@click.argument("first", metavar="RUN_A")
@click.argument("second", metavar="RUN_B")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option("--limit", "-L", type=click.IntRange(0), default=3, show_default=True, help="Number of samples to show.")
@store_option
@json_option
def diff_prompts(first: str, second: str, tasks: tuple[str, ...], limit: int, store: str | None, as_json: bool) -> int:
    """Show which prompts of two stored runs differ, and how: shots, wording, choices, tokens, BOS.

    Exit code 1 if any prompt differs.
    """
    from assaymark.runs import prompt_diff
    from assaymark.runs.stored import open_run

    diff = prompt_diff.diff_prompts(open_run(store, first), open_run(store, second), tasks)
    if as_json:
        print_json(prompt_diff.diff_to_json(diff))
    else:
        print_rich(prompt_diff.diff_document(diff, limit))
    return 1 if diff.n_differing else 0
