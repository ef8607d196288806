"""`evalstone demo`: the main job on what the package carries."""

import shutil
import sys
from pathlib import Path

import click

from evalstone.cli.output import echo, print_rich, store_option
from evalstone.cli.progress import ProgressLine


def shown_command() -> str:
    """Return how this program is called from here: by its name, or by its path where the name is not on PATH."""
    if shutil.which("evalstone"):
        return "evalstone"
    path = Path(sys.argv[0])
    return str(path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path)


@click.command()
@store_option
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def demo(store: str | None, quiet: bool) -> None:
    """Evaluate two small models on a small benchmark set, and say which is better.

    Both come with the package: nothing is fetched, no GPU is needed.
    """
    from evalstone.api.comparison import comparison_views
    from evalstone.api.demo import demo_model, run_demo
    from evalstone.api.run import place_of
    from evalstone.report.evidence.from_store import run_view
    from evalstone.report.views.tables import run_table

    echo("Two models that come with Evalstone answer its demo tasks.", err=True)
    with ProgressLine(quiet=quiet) as progress:
        result = run_demo(store, observe=progress)
    small, large = result.runs
    command = shown_command()
    print_rich(
        run_table([run_view(run.store, run.id) for run in result.runs]), "", *comparison_views(result.comparison)
    )
    echo(
        f"\nStored in {place_of(small.store)}: runs {small.short_id} (small) and {large.short_id} (large).\n\n"
        "Next:\n"
        f"  {command} show {large.short_id} --samples demo_facts --wrong   # what it got wrong\n"
        f"  {command} compare {small.short_id} {large.short_id} --flips       # which answers changed\n"
        f"  {command} explain demo_letters                        # how a task is asked and scored\n"
        f"  {command} run --model_args pretrained=DIR --tasks demo           # your own model\n"
        f"\nThe models lie in {demo_model('small').parent}"
    )
