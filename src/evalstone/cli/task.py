"""`evalstone task check FILE`: check a task before evaluating a model on it."""

import click

from evalstone.cli.output import echo, json_option, print_json
from evalstone.cli.run_options import declared_option


@click.group()
def task() -> None:
    """Check a task file before evaluating a model on it."""


@task.command()
@click.argument("name", metavar="TASK|FILE")
@declared_option(
    "num_fewshot", help="Number of few-shot examples in the prompts.", type=click.IntRange(0), callback=None
)
@declared_option("model_args", metavar="pretrained=DIR", help="Model whose tokenizer checks the choices.")
@declared_option("data_dir", help="Local data, as in `run`.")
@declared_option("include_path", help="Folder with task files, as in `run`.")
@json_option
def check(
    name: str,
    num_fewshot: int | None,
    model_args: str,
    data_dir: str | None,
    include_path: tuple[str, ...],
    as_json: bool,
) -> int:
    """Read, render and check a task: golds, duplicates, leaks among shots, and choices with unusual tokens.

    Exit code 3 if there are errors; 0 if there are only warnings.
    """
    from evalstone.api.task_check import check_task

    found = check_task(name, num_fewshot, model_args, data_dir=data_dir, include_path=include_path)
    if as_json:
        print_json(found.to_json())
    else:
        for fact, value in found.facts.items():
            echo(f"{fact:<22} {value}")
        for finding in found.findings:
            echo(f"{finding.level}: {finding.text}")
        if all(finding.level == "note" for finding in found.findings):
            echo("no errors or warnings")
    return 3 if any(finding.level == "error" for finding in found.findings) else 0
