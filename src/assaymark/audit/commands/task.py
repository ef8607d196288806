"""`assaymark task`: write a task file or a benchmark, check it before a run, look at its questions, seal its rows."""

from pathlib import Path

import click

from assaymark.cli.output import F, Group, echo, examples, json_option, print_json, print_result, store_option
from assaymark.records.json_values import dataclass_of
from assaymark.runs.run_options import declared_option


@click.group(cls=Group, epilog=examples("task check questions.csv", "task init questions.csv"))
def task() -> None:
    """Write a task file of your own data, check it, look at its questions, seal its rows and reveal them."""


@task.command(epilog=examples("task check questions.csv"))
@click.argument("name", metavar="TASK|FILE")
@declared_option(
    "num_fewshot", help="Number of few-shot examples in the prompts.", type=click.IntRange(0), callback=None
)
@declared_option("model_args", metavar="pretrained=DIR", help="Model whose tokenizer checks the choices.")
@declared_option("data_dir", help="Local data, as in `run`.")
@declared_option("include_path", help="Folder with task files, as in `run`.")
@declared_option("skip_bad_rows", help="Leave out rows that cannot be read, as in `run`.")
@declared_option("answers")
@store_option
@json_option
def check(
    name: str, num_fewshot: int | None, model_args: str, data_dir: str | None, include_path: tuple[str, ...],
    skip_bad_rows: bool, answers: str | None, store: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Read, render and check a task: golds, duplicates, leaks among shots, and choices with unusual tokens.

    Where the store has whole runs of five models or more on the same data, also which questions may have a wrong key.

    Exit code 3 if there are errors; 0 if there are only warnings.
    """
    from assaymark.audit.task_check import check_task

    checked = check_task(
        name, num_fewshot, model_args, data_dir=data_dir, include_path=include_path, answers=answers,
        skip_bad_rows=skip_bad_rows, store=store,
    )  # fmt: skip
    if as_json:
        print_json(checked)
    else:
        for fact, value in checked.facts.items():
            echo(f"{fact:<22} {value}")
        echo(*(f"{finding.level}: {finding.text}" for finding in checked.findings))
        if all(finding.level == "note" for finding in checked.findings):
            echo("no errors or warnings")
    return 3 if any(finding.level == "error" for finding in checked.findings) else 0


@task.command(epilog=examples("task questions arc_easy"))
@click.argument("name", metavar="TASK")
@store_option
@json_option
def questions(name: str, store: str | None, as_json: bool) -> None:
    """Say how hard each question of TASK is for the models of the store, and which ones may have a wrong key.

    A question is suspicious where better models miss it and weaker ones get it right (rank sums, p at most 5%). Needs
    whole runs of five models or more; with ten a third of wrong keys is found, with 25 five of six.
    """
    from assaymark.audit.questions import question_document, questions_of

    answered = questions_of(store, name)
    print_result(answered, lambda: question_document(answered), as_json=as_json)


@task.command(epilog=examples("task init questions.csv --like arc_easy"))
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
def init(source: str, *, as_json: bool, **options: object) -> None:
    """Write the task file of your data (CSV, JSON lines, Parquet, a folder, or a Hub id), to be edited.

    What the columns mean is guessed and printed. With --like mmlu the task has that benchmark's prompt, shots and
    metrics; a second file has a group of the benchmark and your task, whose average has one subject more.
    """
    from assaymark.runs.task_init import InitOptions, init_task

    written = init_task(source, dataclass_of(InitOptions, options))
    print_result(written, lambda: "\n".join(written.lines()), as_json=as_json)


_output_folder = click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="DIR", help="Folder to write to."
)


def _data_options(command: F) -> F:
    """Add the options that say where a task and its rows are."""
    for option in (
        declared_option("answers"),
        declared_option("include_path", help="Folder with task files, as in `run`."),
        declared_option("data_dir", help="Local data, as in `run`."),
    ):
        command = option(command)
    return command


@task.command("export", epilog=examples("task export questions.csv -o my_benchmark"))
@click.argument("name", metavar="TASK|FILE")
@click.option(
    "--format", "form", type=click.Choice(["eval-yaml"]), default="eval-yaml", show_default=True,
    help="eval-yaml: what a data set of the Hub is as a benchmark.",
)  # fmt: skip
@click.option("--description", default="", metavar="TEXT", help="Of the benchmark (default: its name and size).")
@_output_folder
@_data_options
@store_option
@json_option
def export_task(name: str, *, form: str, as_json: bool, **options: object) -> None:
    """Write a task of your own as a benchmark: its rows, and an eval.yaml that says how they are asked and scored.

    The folder can be uploaded as a data set of the Hub, and run as it is: `run --tasks DIR`, or with inspect-ai.
    """
    from assaymark.runs.task_export import TaskExportOptions, export_benchmark

    del form  # there is one
    written = export_benchmark(name, dataclass_of(TaskExportOptions, options))
    print_result(written, lambda: "\n".join(written.lines()), as_json=as_json)


@task.command(epilog=examples("task seal exam.yaml --public_fraction 0.1 --valid_until 2027-06-30"))
@click.argument("name", metavar="TASK|FILE")
@click.option(
    "--public_fraction", type=click.FloatRange(0, 1, max_open=True), metavar="SHARE",
    help="Show this share of the rows as a preview, drawn by a keyed hash of each row (default: none).",
)  # fmt: skip
@click.option("--valid_until", metavar="DATE", help="When the rows will be replaced, such as 2027-01-31.")
@click.option("--version", default="", metavar="TEXT", help="Version of the rows (default: the task's).")
@_output_folder
@_data_options
@store_option
@json_option
def seal(name: str, *, store: str | None, as_json: bool, **options: object) -> None:
    """Withhold a task's rows from everybody but you, and write a commitment to them that you can publish.

    Pages, static sites, reports, model cards and exports of the store show scores of the task and no row of it, in
    runs that are stored already too. NAME.commitment.json is for everybody: a salted hash of each row, from which no
    row can be guessed. NAME.seal.json is for you alone: `task reveal` needs it.
    """
    from assaymark.runs.sealing import SealOptions, seal_task

    sealed = seal_task(name, dataclass_of(SealOptions, options), store)
    if as_json:
        print_json(sealed)
        return
    made = sealed.commitment
    until = f", valid until {made.valid_until}" if made.valid_until else ""
    echo(
        f"{made.task}, version {made.version}: {len(made.rows):,} rows sealed, "
        f"{sealed.n_public:,} of them public{until}"
    )
    echo(f"commitment: {made.root}")
    echo(f"publish {sealed.commitment_file}")
    echo(f"keep    {sealed.secret_file}: without it the rows cannot be revealed")


@task.command(epilog=examples("task reveal exam.yaml --seal KEYFILE"))
@click.argument("name", metavar="TASK|FILE")
@click.option(
    "--seal", "seal_file", required=True, type=click.Path(path_type=Path), metavar="FILE",
    help="The seal, as `task seal` wrote it.",
)  # fmt: skip
@click.option("--preview", is_flag=True, help="Write the rows of the preview only; the others stay sealed.")
@_output_folder
@_data_options
@store_option
def reveal(name: str, *, seal_file: Path, preview: bool, store: str | None, **options: object) -> None:
    """Write a sealed task's rows with their salts, so that anybody can verify them.

    The store shows the rows from then on, unless it is the preview alone.
    """
    from assaymark.runs.sealing import SealOptions, reveal_task

    revealed = reveal_task(name, seal_file, dataclass_of(SealOptions, options), store, preview_only=preview)
    echo(f"{revealed.file}: {revealed.n_rows:,} rows of {revealed.task}")
    if revealed.is_whole:
        echo("pages, reports and exports of the store show these rows from now on")


@task.command("verify", epilog=examples("task verify exam.commitment.json rows.jsonl"))
@click.argument("commitment", type=click.Path(path_type=Path), metavar="COMMITMENT")
@click.argument("rows", type=click.Path(path_type=Path), metavar="ROWS")
@json_option
def verify_rows(commitment: Path, rows: Path, as_json: bool) -> int:
    """Verify revealed rows (ROWS) against a published COMMITMENT. Exit code 3 if a row is not the one committed to."""
    from assaymark.tasks.commitments import read_commitment, read_opened, verify_opened

    verified = verify_opened(read_commitment(commitment), read_opened(rows))
    if as_json:
        print_json({"n_opened": verified.n_opened, "n_rows": verified.n_rows, "wrong": list(verified.wrong),
                    "not_covered": list(verified.uncovered)})  # fmt: skip
    elif verified.is_sound:
        echo(f"{verified.n_opened:,} of {verified.n_rows:,} rows were revealed; all are those that were committed to")
    else:
        first = ", ".join(map(str, verified.wrong[:10]))
        echo(f"{len(verified.wrong):,} of {verified.n_opened:,} revealed rows are not those committed to: {first}")
    if verified.uncovered and not as_json:
        names = ", ".join(verified.uncovered)
        echo(f"this commitment is of an earlier format: its root does not cover {names}, which may have been changed")
    return 0 if verified.is_sound else 3


@task.command(epilog=examples("task seals"))
@store_option
@json_option
def seals(store: str | None, as_json: bool) -> None:
    """List the sealed tasks of the store."""
    from datetime import UTC, datetime

    from assaymark.runs.sealing import sealed_tasks_of

    listed = sealed_tasks_of(store)
    if as_json:
        print_json([{"task": each.task, "version": each.version, "commitment": each.commitment,
                     "public_fraction": each.public_fraction, "valid_until": each.valid_until or None,
                     "sealed_at": each.sealed_at, "revealed_at": each.revealed_at or None}
                    for each in listed])  # fmt: skip
        return
    today = datetime.now(UTC).date().isoformat()
    for each in listed:
        is_over = bool(each.valid_until) and each.valid_until < today and each.is_closed
        end = f"; valid until {each.valid_until}{': replace its rows' if is_over else ''}" if each.valid_until else ""
        state = f"revealed {each.revealed_at[:10]}" if each.revealed_at else f"sealed {each.sealed_at[:10]}"
        echo(f"{each.task} {each.version}: {state}; preview {each.public_fraction:.0%}{end}; "
             f"{each.commitment or 'no commitment (private: true)'}")  # fmt: skip
    if not listed:
        echo("no task is sealed; `assaymark task seal TASK` seals one")
