"""`assaymark export RUN -o FILE`: write a stored run in a format that other tools read.

`assaymark import PATH`: store another tool's run, marked as imported.
"""

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from assaymark.cli.output import Command, echo, examples, json_option, print_json, print_rich, store_option
from assaymark.cli.typed import typed_command
from assaymark.errors import UsageError
from assaymark.runs.run_options import declared_option

if TYPE_CHECKING:
    from assaymark.interop.every_eval_results import Relationship
    from assaymark.interop.hub_benchmarks import Unit
    from assaymark.runs.exporting import Imported


@click.command("import", cls=Command, epilog=examples("import results_2026-11-29T10-00-00.json", "import MODEL_FOLDER"))
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--unit",
    type=click.Choice(["share", "percent"]),
    help="Unit of a model folder's values for which nothing else states it; corrects an earlier import.",
)
@store_option
@json_option
def import_(path: Path, unit: str | None, store: str | None, as_json: bool) -> None:
    """Import a run of another tool, so that it can be shown and compared like any other, marked as imported.

    PATH is lm-eval's or lighteval's results file, or a folder with one (their samples or details of the same time are
    read too; without them the run can be shown but not compared); lm-eval's results of 0.2 and 0.3; Inspect's .eval or
    .json log, or a folder of them; HELM's run folder or a suite's; simple-evals' _allresults.json; AlpacaEval's
    annotations.json; EvalScope's reports; OpenCompass's summary; a record of Every Eval Ever, or a folder of one
    model's; or an exported .assaymark file.

    A model's folder of the Hub, or a folder of such, gives what .eval_results and the README's model-index report:
    values without answers.
    """
    from assaymark.interop.hub_files import holds_results, model_folders
    from assaymark.runs.exporting import import_models, import_run

    stated: Unit | None = None if unit is None else "share" if unit == "share" else "per cent"
    if path.is_dir() and not holds_results(path) and model_folders(path):
        every, faults = import_models(store, path, command=typed_command(), unit=stated)
        if as_json:
            print_json({"runs": [_imported_json(each) for each in every], "notes": faults})
            return
        for each in every:
            _print_imported(each)
        echo(*(f"note: {fault}" for fault in faults), err=True)
        return
    imported = import_run(store, path, command=typed_command(), unit=stated)
    if as_json:
        print_json(_imported_json(imported))
        return
    _print_imported(imported)


def _imported_json(imported: "Imported") -> dict[str, object]:
    corrected = {} if imported.corrected is None else {"corrected": imported.corrected}
    return {**imported.run.to_json(), "is_new": imported.is_new, "notes": list(imported.notes), **corrected}


def _print_imported(imported: "Imported") -> None:
    print_rich(imported.run.document())
    echo(*(f"note: {note}" for note in imported.notes), err=True)
    if imported.corrected is not None:
        done = "replaces" if imported.is_new else "corrects"
        echo(f"this {done} run {imported.corrected}, which had these files' values in another unit")
    elif not imported.is_new:
        echo("this run was already in the store; nothing was added")
    echo(*imported.run.remarks())


class TrainingParameters(TypedDict):
    """The options of `export` that select the content."""

    train_on: str | None
    contaminate: bool
    task: tuple[str, ...]
    tasks: tuple[str, ...]  # files
    include_path: tuple[str, ...]
    data_dir: str | None
    with_sealed: bool


HUB_RESULTS, RECORDS = "hub-results", "every-eval-ever"
EXAMPLES = examples(
    "export last -o results.csv",
    "export last --wrong -o wrong.csv",
    "export last --format hub-results -o MODEL_FOLDER --check",
    "export last --format every-eval-ever --model_id org/model --organization Us -o records",
    "export last --wrong --by subject --chat --train_on train -o train.jsonl",
)


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("run", default="last")
@click.option(
    "-o", "--output", required=True, metavar="FILE|DIR", help="File or folder to write; its suffix selects the format."
)
@click.option(
    "--format",
    "layout",
    type=click.Choice([HUB_RESULTS, RECORDS]),
    help="Layout of a folder; hub-results: .eval_results of a model's folder, which the Hub's leaderboards read; "
    "every-eval-ever: records with their samples, as the data store of that name has them.",
)
@click.option("--source", metavar="URL", help="With hub-results: where the evaluation can be seen.")
@click.option("--check", is_flag=True, help="With hub-results: only show the entries beside those in the folder.")
@click.option("--replace", is_flag=True, help="With hub-results: replace files that say something else.")
@click.option("--model_id", metavar="DEVELOPER/MODEL", help="With every-eval-ever: the model's name for others.")
@click.option("--organization", metavar="NAME", help="With every-eval-ever: who publishes the results.")
@click.option("--relationship", type=click.Choice(["first_party", "third_party", "collaborative", "other"]),
              help="With every-eval-ever: of whoever evaluated to the model's developer (default: other).")  # fmt: skip
@click.option("--wrong", is_flag=True, help="Write the samples answered wrongly or not at all, as .jsonl or .csv.")
@click.option("--by", type=click.Choice(["subject"]), help="With --wrong: subjects with the lowest values first.")
@click.option(
    "--chat",
    is_flag=True,
    help="With --wrong: write a training file instead, other rows of the same subjects as chats.",
)
@click.option("--train_on", metavar="SPLIT|FILE",
              help="With --chat: a split of the tasks' data sets, or a file with their columns.")  # fmt: skip
@click.option(
    "--contaminate", is_flag=True, help="With --chat: write evaluated rows too, and mark the run as contaminated."
)
@click.option("--task", "-t", multiple=True, metavar="NAME", help="With --chat: some of the run's tasks.")
@click.option(
    "--tasks", multiple=True, metavar="FILE", help="With --chat: the files of the run's tasks, if they moved."
)
@declared_option("include_path", help="With --chat: folder with the run's own task files.")
@declared_option("data_dir", help="With --chat: folder with local copies of data sets.")
@click.option("--with_sealed", is_flag=True, help="Write the rows of sealed tasks too, for whoever gets the file.")
@json_option
@store_option
def export(run: str, output: str, layout: str | None, source: str | None, check: bool, replace: bool,
           model_id: str | None, organization: str | None, relationship: "Relationship | None", wrong: bool,
           by: str | None, chat: bool, as_json: bool, store: str | None,
           **options: Unpack[TrainingParameters]) -> None:  # fmt: skip
    """Export a stored run to a file.

    .assaymark is the whole run, which `assaymark import` reads on another machine; .csv, .parquet, .md and .tex are
    its estimates; .yaml is `model-index` for a Hugging Face model card; .json is lm-eval's results file. With a folder,
    lm-eval's samples files are written too. Rows of sealed tasks are in none of them without --with_sealed.

    --format hub-results writes the results of whole registered benchmarks into a model's folder, --format
    every-eval-ever a run or a judging as records that the data store of that name takes. Nothing is uploaded.

    --wrong --chat writes a file to fine-tune a model with (`messages`, as TRL and torchtune read it). The rows that the
    run was evaluated on are not in it, nor rows that repeat one of them (13 words in a row, or the same question).
    """
    from assaymark.documents.numbers import counted
    from assaymark.runs.exporting import export_run, export_wrong

    with_sealed = options["with_sealed"]
    if by is not None and not wrong:
        raise UsageError("--by sorts samples; use it with --wrong")
    if chat and not wrong:
        raise UsageError("--chat writes a training file for what was answered wrongly; use it with --wrong")
    if not chat and (idle := [name for name, value in options.items() if value and name != "with_sealed"]):
        raise UsageError(f"--{idle[0]} is an option of training files; use it with --wrong --chat")
    if layout == HUB_RESULTS:
        if wrong:
            raise UsageError("--wrong writes samples, and --format hub-results writes results; use one of them")
        from assaymark.runs.hub_export import export_to_hub
        from assaymark.runs.stored import open_run

        exported = export_to_hub(open_run(store, run), Path(output), source=source, check=check, replace=replace)
        if as_json:
            print_json(exported)
        else:
            print_rich(exported.document())
            if exported.upload:  # never folded, so that it can be copied
                echo(f"to open a pull request on the Hub:\n  {exported.upload}")
        return
    if source is not None or check or replace:
        raise UsageError("--source, --check and --replace are options of --format hub-results")
    if layout == RECORDS:
        if wrong:
            raise UsageError("--wrong writes samples, and --format every-eval-ever writes all of them; use one of them")
        from assaymark.interop.every_eval_results import Publisher
        from assaymark.runs.exporting import export_records

        publisher = Publisher(organization, relationship or "other", model_id)
        records = export_records(store, run, output, publisher, with_sealed=with_sealed)
        if as_json:
            print_json({"paths": [*map(str, records.paths)], "notes": [*records.notes]})
            return
        echo(*map(str, records.paths))
        echo(*(f"note: {note}" for note in records.notes), err=True)
        return
    if model_id is not None or organization is not None or relationship is not None:
        raise UsageError("--model_id, --organization and --relationship are options of --format every-eval-ever")
    replaced = output if Path(output).is_file() else None
    if chat:
        from assaymark.runs.training_file import TrainingOptions, write_training_file

        training = TrainingOptions(
            train_on=options["train_on"], contaminate=options["contaminate"], by_subject=by is not None,
            tasks=options["task"], task_files=options["tasks"], include_path=options["include_path"],
            data_dir=options["data_dir"], with_sealed=with_sealed,
        )  # fmt: skip
        written = write_training_file(store, run, output, training)
        _say_replaced(replaced)
        if as_json:
            print_json(written)
            return
        echo(*written.lines())
        return
    if wrong:
        path, n_rows, sealed = export_wrong(store, run, output, by_subject=by is not None, with_sealed=with_sealed)
        _say_replaced(replaced)
        if as_json:
            print_json({"path": str(path), "n_samples": n_rows, "sealed_tasks_left_out": list(sealed)})
            return
        echo(f"{path}: {counted(n_rows, 'sample')}")
        if sealed:
            names = ", ".join(sealed[:5]) + " and others" * (len(sealed) > 5)
            echo(f"rows of sealed tasks were left out ({names}); --with_sealed writes them", err=True)
        return
    paths = export_run(store, run, output, with_sealed=with_sealed)
    _say_replaced(replaced)
    if as_json:
        print_json({"paths": [str(path) for path in paths]})
        return
    echo(*map(str, paths))


def _say_replaced(path: str | None) -> None:
    if path is not None:
        echo(f"replaced {path}", err=True)
