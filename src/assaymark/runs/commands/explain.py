"""`assaymark explain TASK`: what it measures, its prompt, and how an output is scored."""

import click

from assaymark.cli.output import Command, examples, json_option, print_result
from assaymark.errors import UnknownName
from assaymark.runs.run_options import declared_option


@click.command(cls=Command, epilog=examples("explain arc_challenge --num_fewshot 25", "explain acc_norm"))
@click.argument("task", metavar="TASK|METRIC")
@declared_option(
    "num_fewshot", help="Number of few-shot examples in the prompt.", type=click.IntRange(0), callback=None
)
@declared_option("model_args", metavar="pretrained=DIR", help="Model whose tokenizer splits the prompt.")
@declared_option("data_dir", help="Local data, as in `run`.")
@declared_option("include_path", help="Folder with task files, as in `run`.")
@json_option
def explain(
    task: str, num_fewshot: int | None, model_args: str, data_dir: str | None, include_path: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Explain what TASK measures, show a prompt with its token boundaries, and score one sample step by step.

    The name of a metric, such as acc_norm, explains the metric.
    """
    from assaymark.runs.explain import explain_metric, explain_task, explanation_document, metric_document

    try:
        explanation = explain_task(task, num_fewshot, model_args, data_dir=data_dir, include_path=include_path)
    except UnknownName:
        metric = explain_metric(task.strip())
        if metric is None:
            raise
        print_result(metric, lambda: metric_document(metric), as_json=as_json)
        return
    print_result(explanation, lambda: explanation_document(explanation), as_json=as_json)
