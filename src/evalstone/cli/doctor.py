"""`evalstone doctor`: what is installed, which device, which attention path, and what each missing thing would add."""

import click

from evalstone.cli.output import echo, json_option, print_json
from evalstone.cli.run_options import declared_option


@click.command()
@declared_option("model_args", metavar="A=1", help="Also load this model and say which path it takes.")
@json_option
def doctor(model_args: str, as_json: bool) -> None:
    """Say what is installed here and what can run."""
    from evalstone.api.doctor import examine

    found = examine(model_args)
    if as_json:
        print_json(found)
        return
    for section, facts in found.items():
        echo(section)
        for name, value in facts.items():
            echo(f"  {name:<18} {value}")
