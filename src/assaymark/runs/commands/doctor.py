"""`assaymark doctor`: installed packages, devices, settings, and the commands that install missing extras."""

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, json_option, print_json
from assaymark.runs.run_options import declared_option


@click.command(cls=Command, epilog=examples("doctor"))
@declared_option("model_args", metavar="A=1", help="Also load this model and show its attention path.")
@json_option
def doctor(model_args: str, as_json: bool) -> None:
    """Show what is installed and what can run here."""
    from assaymark.runs.doctor import examine

    sections = examine(model_args)
    if as_json:
        print_json(sections)
        return
    for section, facts in sections.items():
        echo(section)
        for name, value in facts.items():
            echo(f"  {name:<18} {value}")
