"""`assaymark rescore RUN`: score stored outputs again."""

import click

from assaymark.cli.output import Command, echo, examples, json_option, print_json, print_rich, store_option
from assaymark.cli.typed import typed_command
from assaymark.runs.run_options import declared_option


@click.command(cls=Command, epilog=examples("rescore last --task gsm8k --filter strict-match"))
@click.argument("run")
@click.option(
    "--task", "task_names", multiple=True, metavar="TASK", help="Rescore only this task of the run; repeatable."
)
@click.option(
    "--filter", "filters", multiple=True, metavar="NAME|YAML|FILE",
    help="One of the task's filters, or an item of a filter_list: '{name: last, filter: [{function: regex, "
    "regex_pattern: ..., group_select: -1}, {function: take_first}]}'.",
)  # fmt: skip
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME|YAML|FILE",
    help="A metric, or an item of a metric_list: '{metric: exact_match, ignore_case: true}'.",
)  # fmt: skip
@click.option(
    "--tasks", "-t", "task_files", multiple=True, metavar="FILE", help="Changed task files (code in them may run)."
)
@declared_option("include_path")
@click.option("--confirm_run_unsafe_code", "--unsafe_code", "unsafe_code", is_flag=True,
              help="Run model-generated code even if no sandbox is available.")  # fmt: skip
@store_option
@json_option
def rescore(
    run: str, store: str | None, as_json: bool, task_names: tuple[str, ...], filters: tuple[str, ...],
    metrics: tuple[str, ...], task_files: tuple[str, ...], include_path: tuple[str, ...], unsafe_code: bool,
) -> None:  # fmt: skip
    """Score the stored outputs of a run again with another filter or metric, without sending anything to the model.

    Without --filter and --metric, the filters and metrics of the current task files are used. Earlier scores stay
    stored.
    """
    from assaymark.runs.rescoring import RescoreOptions, rescore_stored

    options = RescoreOptions(
        task_names=task_names, filters=filters, metrics=metrics, task_files=task_files, include_path=include_path,
        unsafe_code=unsafe_code, command=typed_command(),
    )  # fmt: skip
    rescored = rescore_stored(store, run, options)
    if as_json:
        print_json(rescored.to_json())
        return
    print_rich(rescored.run.document())
    echo(*rescored.lines(), *rescored.run.remarks())
