"""`assaymark demo`: evaluate the demo models on the demo tasks."""

import shlex
import shutil
import sys
from pathlib import Path

import click

from assaymark.cli.extras import has_web
from assaymark.cli.output import Command, echo, examples, print_rich, store_option
from assaymark.runs.progress import ProgressLine


def command_here() -> str:
    """Return how to call this program: by its name, or as it was called if the name is not on PATH."""
    if shutil.which("assaymark"):
        return "assaymark"
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return "python -m assaymark"
    return str(path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path)


def _serving(command: str, store: str | None) -> dict[str, str]:
    """Return how to see the runs in the browser; the pip command where the extra is not installed."""
    serve = command + " serve" + ("" if store is None else f" --store {shlex.quote(store)}")
    if has_web():
        return {serve: "leaderboard in the browser"}
    return {"pip install '.[web]'": f"in the folder of Assaymark's source; then: {serve}"}


@click.command(cls=Command, epilog=examples("demo"))
@store_option
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
def demo(store: str | None, quiet: bool) -> None:
    """Evaluate two small models on a small benchmark set, and compare them.

    Models and tasks come with the package: nothing is downloaded, and no GPU is needed.
    """
    from assaymark.results.evidence.from_store import run_view
    from assaymark.results.views.run_document import run_document
    from assaymark.runs.demo import demo_model, run_demo
    from assaymark.runs.run import location_of

    echo("Evaluating the two demo models on the demo tasks.", err=True)
    with ProgressLine(quiet=quiet) as progress:
        result = run_demo(store, observe=progress)
    small, large = result.runs
    command = command_here()
    print_rich(run_document([run_view(run.store, run.id) for run in result.runs]), "", result.comparison.document())
    steps = {
        f"{command} show {large.short_id} --samples demo_facts --wrong": "its wrong answers",
        f"{command} compare {small.short_id} {large.short_id} --flips": "which answers changed",
        f"{command} explain demo_letters": "prompt and scores of a task",
        f"{command} run --model_args pretrained=DIR --tasks demo": "your own model",
        **_serving(command, store),
    }
    widest = max(map(len, steps))
    lines = "\n".join(f"  {step:{widest}}   # {what}" for step, what in steps.items())
    echo(
        f"\nStored in {location_of(small.store)}: runs {small.short_id} (small) and {large.short_id} (large).\n\n"
        f"Next:\n{lines}\n\nThe models are in {demo_model('small').parent}"
    )
