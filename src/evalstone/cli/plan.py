"""`evalstone plan`: a dry run, so that no one is surprised by hours."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from evalstone.cli.output import json_option, print_json, print_rich
from evalstone.cli.run_options import evaluate_options, model_arguments, run_options

if TYPE_CHECKING:
    from evalstone.api.planning import PlannedRun

SHOWN_TOO_LONG = 10


@click.command()
@run_options
@json_option
def plan(as_json: bool, **given: Any) -> None:
    """Say what a run would take: samples, tokens before and after sharing, memory, time, prompts too long.

    Takes the same options as `run`; asks the model nothing.
    """
    from evalstone.api.planning import plan_run

    kind, arguments = model_arguments(given)
    planned = plan_run(kind, given["tasks"], model_args=arguments, **evaluate_options(given))
    if as_json:
        print_json({"run_key": planned.plan.key, "notes": planned.notes, "chunks": [asdict(c) for c in planned.chunks]})
        return
    print_plan(planned)


def print_plan(planned: "PlannedRun") -> None:
    """Print the table of a dry run, its sum, and the prompts that do not fit."""
    from rich.table import Table

    from evalstone.cli.progress import clock

    for note in planned.notes:
        click.echo(f"note: {note}", err=True)
    table = Table(box=None, pad_edge=False)
    for name in ("tasks", "samples", "asks", "tokens asked", "distinct", "shared", "at least"):
        table.add_column(name, justify="left" if name == "tasks" else "right")
    for chunk in planned.chunks:
        work = chunk.work
        shown = chunk.tasks[0] + (f" +{len(chunk.tasks) - 1}" if len(chunk.tasks) > 1 else "")
        table.add_row(shown, f"{chunk.n_samples:,}", f"{work.n_asks:,}", f"{work.n_tokens_asked:,}",
                      f"{work.n_tokens_distinct:,}", _shared(work.n_tokens_asked, work.n_tokens_distinct),
                      "-" if work.seconds is None else clock(work.seconds))  # fmt: skip
    works = [chunk.work for chunk in planned.chunks]
    if len(works) > 1:
        asked, distinct = sum(w.n_tokens_asked for w in works), sum(w.n_tokens_distinct for w in works)
        seconds = [w.seconds for w in works if w.seconds is not None]
        table.add_row("all", f"{sum(c.n_samples for c in planned.chunks):,}", f"{sum(w.n_asks for w in works):,}",
                      f"{asked:,}", f"{distinct:,}", _shared(asked, distinct),
                      clock(sum(seconds)) if seconds else "-")  # fmt: skip
    print_rich(table)
    memory = max((w.memory_bytes or 0 for w in works), default=0)
    if memory:
        click.echo(f"memory: about {max(memory / 1e9, 0.1):.1f} GB")
    leaked = sum(chunk.n_leaked for chunk in planned.chunks)
    if leaked:
        click.echo(f"{leaked} sample(s) would be among their own shots (profile {planned.plan.profile})")
    too_long = [name for w in works for name in w.too_long]
    if too_long:
        more = f" and {len(too_long) - SHOWN_TOO_LONG} more" if len(too_long) > SHOWN_TOO_LONG else ""
        n_all = sum(w.n_requests for w in works)
        click.echo(
            f"{len(too_long)} of {n_all} prompts too long for the model: {', '.join(too_long[:SHOWN_TOO_LONG])}{more}"
        )
    click.echo(f"run key {planned.plan.key}")


def _shared(asked: int, distinct: int) -> str:
    return f"{1 - distinct / asked:.0%}" if asked else "-"
