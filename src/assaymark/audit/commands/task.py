"""`assaymark task init DATA`, `task check FILE` and `task questions TASK`: tasks of your own, and questions of any."""

from pathlib import Path
from typing import Any

import click

from assaymark.cli.output import echo, json_option, print_json, print_rich, store_option
from assaymark.runs.run_options import declared_option


@click.group()
def task() -> None:
    """Write a task file of your own data, check one before evaluating a model on it, and look at its questions."""


@task.command()
@click.argument("name", metavar="TASK|FILE")
@declared_option(
    "num_fewshot", help="Number of few-shot examples in the prompts.", type=click.IntRange(0), callback=None
)
@declared_option("model_args", metavar="pretrained=DIR", help="Model whose tokenizer checks the choices.")
@declared_option("data_dir", help="Local data, as in `run`.")
@declared_option("include_path", help="Folder with task files, as in `run`.")
@declared_option("answers")
@json_option
def check(
    name: str,
    num_fewshot: int | None,
    model_args: str,
    data_dir: str | None,
    include_path: tuple[str, ...],
    answers: str | None,
    as_json: bool,
) -> int:
    """Read, render and check a task: golds, duplicates, leaks among shots, and choices with unusual tokens.

    Exit code 3 if there are errors; 0 if there are only warnings.
    """
    from assaymark.audit.task_check import check_task

    checked = check_task(name, num_fewshot, model_args, data_dir=data_dir, include_path=include_path, answers=answers)
    if as_json:
        print_json(checked.to_json())
    else:
        for fact, value in checked.facts.items():
            echo(f"{fact:<22} {value}")
        for finding in checked.findings:
            echo(f"{finding.level}: {finding.text}")
        if all(finding.level == "note" for finding in checked.findings):
            echo("no errors or warnings")
    return 3 if any(finding.level == "error" for finding in checked.findings) else 0


@task.command()
@click.argument("name", metavar="TASK")
@store_option
@json_option
def questions(name: str, store: str | None, as_json: bool) -> None:
    """Say how hard each question of TASK is for the models of the store, and which ones may have a wrong key.

    A question is suspicious where better models miss it and weaker ones get it right (rank sums, p at most 5%). Needs
    whole runs of five models or more; with ten a third of wrong keys is found, with 25 five of six.
    """
    from assaymark.audit.questions import questions_of

    answered = questions_of(store, name)
    if as_json:
        print_json(answered.to_json())
    else:
        print_rich(answered.table())


@task.command()
@click.argument("source", metavar="FILE|DIR|HUB_ID")
@click.option("--like", default="", metavar="TASK|GROUP", help="Word it like this task; a group gets it as a subject.")
@click.option("--name", default="", metavar="NAME", help="Name of the task (default: that of the file).")
@click.option(
    "--fewshot", type=click.Path(path_type=Path), metavar="FILE", help="Few-shot examples, in the same columns."
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Where to write it (default: NAME.yaml)."
)
@declared_option("data_dir", help="Local data, as in `run`.")
@declared_option("include_path", help="Folder with task files that it may be like.")
@declared_option("skip_bad_rows", help="Leave out rows that cannot be read, here and in every run of the task.")
@declared_option("answers")
@json_option
def init(source: str, *, as_json: bool, **options: Any) -> None:
    """Write the task file of your data (CSV, JSON lines, Parquet, a folder, or a Hub id), to be edited.

    What the columns mean is guessed and printed. With --like mmlu the task has that benchmark's prompt, shots and
    metrics; a second file has a group of the benchmark and your task, whose average has one subject more.
    """
    from assaymark.runs.task_init import InitOptions, init_task

    written = init_task(source, InitOptions(**options))
    if as_json:
        print_json(written.to_json())
    else:
        for line in written.lines():
            echo(line)
