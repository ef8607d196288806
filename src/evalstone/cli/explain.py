"""`evalstone explain TASK`: what it measures, how it is asked, how an answer becomes a score."""

import click

from evalstone.cli.output import json_option, print_json, print_rich


@click.command()
@click.argument("task")
@click.option("--num_fewshot", "-f", type=click.IntRange(0), metavar="N", help="Shots in the prompt that is shown.")
@click.option(
    "--model_args", "-a", default="", metavar="pretrained=DIR", help="Model whose tokenizer marks the tokens."
)
@click.option("--data_dir", metavar="DIR", help="Local data, as in `run`.")
@click.option("--include_path", multiple=True, metavar="DIR", help="Folder with task files, as in `run`.")
@json_option
def explain(
    task: str,
    num_fewshot: int | None,
    model_args: str,
    data_dir: str | None,
    include_path: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say what TASK measures, show one prompt with its token boundaries, and work one sample's score out."""
    from evalstone.api.explain import explain_task, explanation_view

    found = explain_task(task, num_fewshot, model_args, data_dir=data_dir, include_path=include_path)
    if as_json:
        print_json(found)
    else:
        print_rich(*explanation_view(found))
