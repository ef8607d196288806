"""`assaymark diagnose RUN`: why answers are wrong."""

from pathlib import Path

import click

from assaymark.audit.commands.audit import output_option
from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, json_option, print_json, print_rich, store_option
from assaymark.cli.typed import typed_command
from assaymark.runs.run_options import declared_option, evaluate_options

EXAMPLES = examples("diagnose last", "diagnose RUN --task mmlu_anatomy --limit 50", "diagnose RUN --json -o why.json")


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("run", default="last")
@click.option(
    "--task", "-t", "tasks", multiple=True, metavar="NAME", help="Task of the run; repeatable (default: all)."
)
@click.option("--limit", "-L", type=click.IntRange(0), default=200, show_default=True, metavar="N",
              help="Wrong answers of each task that are looked at; 0: all.")  # fmt: skip
@click.option("--more_shots", type=click.IntRange(0), default=5, show_default=True, metavar="N",
              help="Shots beyond those of the run; 0: the answers are not asked with more.")  # fmt: skip
@click.option("--reasoning", is_flag=True, help="Also ask multiple-choice questions with a chain of thought (slow).")
@declared_option("data_dir")
@declared_option("include_path", help="Folder with the run's own task files.")
@declared_option("workers")
@declared_option("wait", help="Exit with code 4 if another process is writing the same diagnosis.")
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
@store_option
@output_option
@json_option
def diagnose(
    run: str, tasks: tuple[str, ...], limit: int, more_shots: int, reasoning: bool, quiet: bool, store: str | None,
    output: Path | None, as_json: bool, **options: object,
) -> None:  # fmt: skip
    """Say why answers of a stored RUN are wrong.

    The run's model is asked again: with the options in every rotation, in other wordings, with more shots, without the
    question. Each wrong answer has one cause: truncated, extraction failure, position bias, reads only the choices,
    prompt sensitivity, ambiguous (better models of the store miss it too), or missing knowledge. The same command
    continues an interrupted diagnosis.
    """
    from assaymark.audit.auditing import check_ending, write_json
    from assaymark.audit.diagnosing import diagnose as diagnose_run
    from assaymark.audit.documents import diagnosis_document
    from assaymark.runs.stored import open_run

    check_ending(output)
    evaluation = evaluate_options(options)
    evaluation["command"] = typed_command()
    diagnoses = diagnose_run(
        open_run(store, run), tasks, at_most=limit or None, more_shots=more_shots, reasoning=reasoning,
        announce=lambda line: None if quiet or as_json else echo(line, err=True),
        **evaluation,
    )  # fmt: skip
    if output is not None:
        echo(f"wrote {write_json(output, diagnoses)}", err=True)
    if as_json:
        print_json(diagnoses)
    else:
        print_rich(diagnosis_document(diagnoses))
