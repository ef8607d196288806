"""`assaymark swe`: software-engineering tasks, from instances to a report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assaymark.cli.output import echo, examples, json_option, print_json, print_rich, store_option
from assaymark.errors import UsageError

if TYPE_CHECKING:
    from assaymark.swe.grading import Graded
    from assaymark.swe.report import SweReport
    from assaymark.swe.sandbox import SweLimits

EXAMPLES = examples(
    "swe init path/to/repository -o instances.jsonl",
    "swe prepare --instances instances.jsonl --pins requirements.txt --repo path/to/repository -o environments.yaml",
    "swe predict --model KIND --instances instances.jsonl --repo path/to/repository -o predictions.jsonl",
    "swe grade predictions.jsonl --instances instances.jsonl --repo path/to/repository",
    "swe report predictions.jsonl --instances instances.jsonl --against other.jsonl",
)
_prepared = {True: "prepared", False: "is there"}
_PATH = click.Path(path_type=Path)


def _with(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_instances = click.option(
    "--instances",
    required=True,
    type=_PATH,
    metavar="FILE",
    help="Instances: JSON lines or Parquet, SWE-bench's fields.",
)
_tests = _with(
    click.option("--python", metavar="PROGRAM", help="Interpreter of the tests, with pytest (default: this one)."),
    click.option("--timeout", type=click.FloatRange(1, 86_400), default=1800, show_default=True, metavar="SECONDS",
                 help="Longest run of an instance's tests."),
    click.option("--memory", type=click.IntRange(64), default=4096, show_default=True, metavar="MIB",
                 help="Memory of an instance's tests."),
)  # fmt: skip
_places = _with(
    click.option("--repo", "repositories", multiple=True, metavar="[owner/name=]FOLDER",
                 help="Where a repository is; without a name: those that are not named."),
    click.option("--environments", type=_PATH, metavar="FILE",
                 help="YAML: python or image, folder, pythonpath, test_arguments, variables by instance or name."),
    click.option("--where", type=click.Choice(["auto", "bwrap", "docker", "podman"]), default="auto", show_default=True,
                 help="Bubblewrap, or containers: SWE-bench's images, which must be here, or those that --environments "
                 "names."),
)  # fmt: skip


@click.group(epilog=EXAMPLES)
def swe() -> None:
    """Software-engineering tasks: patches for issues of real repositories, decided by the repositories' tests.

    Files are SWE-bench's. Tests run in bubblewrap or a container, without network.
    """


@swe.command("init", epilog=examples("swe init . -o instances.jsonl --limit 5"))
@click.argument("repository", type=_PATH, metavar="REPO")
@click.option("-o", "--output", required=True, type=_PATH, metavar="FILE", help="Instances to write: JSON lines.")
@click.option("--revision", default="HEAD", show_default=True, metavar="REVISION", help="Branch, commit or range.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Instances to make.")
@click.option("--tried", type=click.IntRange(1), default=200, show_default=True, metavar="N", help="Commits to try.")
@click.option(
    "--name", default="", metavar="owner/name", help="Name of the repository (default: local/ and its folder)."
)
@_tests
@json_option
def init(repository: Path, output: Path, *, as_json: bool, **options: Any) -> None:
    """Make instances of a repository's own commits that change both code and tests.

    A commit's message is the issue; edit the messages that tell the solution.
    """
    from assaymark.runs.stored import check_writable
    from assaymark.swe.environments import Environment
    from assaymark.swe.from_commits import CommitChoice, make_instances
    from assaymark.swe.instances import write_rows

    check_writable(output, "-o")
    name = options["name"]
    if name and (name.count("/") != 1 or not all(name.split("/"))):
        raise UsageError(f"--name is '{name}'; expected owner/name")
    environment = Environment(options["python"]) if options["python"] else Environment()
    choice = CommitChoice(options["revision"], options["limit"], options["tried"], name)
    made = []
    for instance in make_instances(
        repository, choice, environment, _limits(options), lambda line: echo(f"left out: {line}", err=True)
    ):
        made.append(instance)
        write_rows(output, [each.row() for each in made])  # what is made so far is kept if this is ended
        echo(f"{instance.instance_id}: {len(instance.FAIL_TO_PASS)} tests to fix, {len(instance.PASS_TO_PASS)} to keep",
             err=True)  # fmt: skip
    if not made:
        raise UsageError(
            f"no commit of {repository} changes code and tests so that a test fails before and passes after; name "
            "others with --revision, or the interpreter that has its packages with --python"
        )
    if as_json:
        print_json({"file": str(output), "instances": [each.instance_id for each in made]})
    else:
        echo(f"{len(made)} instances in {output}")


@swe.command(
    "prepare",
    epilog=examples(
        "swe prepare --instances instances.jsonl --pins swebench-og --repo pallets/flask=flask -o envs.yaml"
    ),
)
@_instances
@click.option(
    "--pins",
    required=True,
    type=_PATH,
    metavar="PATH",
    help="Folder of OWNER__NAME/NUMBER/environment.yml, as SWE-bench's source has it; or one such file, or a "
    "requirements.txt, for all.",
)
@click.option(
    "--repo",
    "repositories",
    multiple=True,
    metavar="[owner/name=]FOLDER",
    help="Where a repository is; without a name: those that are not named.",
)
@click.option("--only", multiple=True, metavar="ID", help="Only this instance.")
@click.option("--python", metavar="PROGRAM", help="Interpreter (default: of the pins' version, from PATH or pyenv).")
@click.option(
    "-o",
    "--output",
    required=True,
    type=_PATH,
    metavar="FILE",
    help="Environments to write, for --environments of the other commands.",
)
@json_option
def prepare_command(instances: Path, output: Path, *, as_json: bool, **options: Any) -> int:
    """Make the environment of each instance: its pins in a venv, its repository installed; pip downloads packages.

    The same command resumes. Exit code 5 if some instances have no environment.
    """
    from assaymark.runs.stored import check_writable
    from assaymark.swe.base_copies import Repositories
    from assaymark.swe.instances import read_instances
    from assaymark.swe.preparing import prepare_all, write_environments

    check_writable(output, "-o")
    known = {each.instance_id: each for each in read_instances(instances)}
    if unknown := [name for name in options["only"] if name not in known]:
        raise UsageError(f"--only is '{unknown[0]}', which {instances} does not have")
    chosen = [each for name, each in known.items() if not options["only"] or name in options["only"]]
    prepared = prepare_all(
        chosen, options["pins"], Repositories(options["repositories"]), options["python"],
        lambda each: echo(f"{each.instance_id}: {each.problem or _prepared[each.is_new]}", err=True),
    )  # fmt: skip
    write_environments(output, prepared)
    failures = {each.instance_id: each.problem for each in prepared if each.problem}
    if as_json:
        print_json({"file": str(output), "environments": len(prepared) - len(failures), "failures": failures})
    else:
        echo(f"{len(prepared) - len(failures)} environments in {output}; {len(failures)} instances without one")
    return 5 if failures else 0


@swe.command(
    "predict",
    epilog=examples(
        "swe predict --model local-chat-completions --model_args model=NAME,base_url=URL --instances instances.jsonl "
        "--repo . -o predictions.jsonl",
    ),
)
@_instances
@click.option("--model", required=True, metavar="KIND", help="Kind of model, as in `run`.")
@click.option("--model_args", default="", metavar="A=1,B=2", help="Arguments of the model, as in `run`.")
@click.option("-o", "--output", required=True, type=_PATH, metavar="FILE", help="Predictions to write: JSON lines.")
@click.option(
    "--how",
    type=click.Choice(["agent", "oracle", "bm25"]),
    default="agent",
    show_default=True,
    help="An agent with bash; or one answer, with the gold patch's files or those that BM25 finds.",
)
@click.option("--name", default="", metavar="NAME", help="Name of the model in predictions (default: its own).")
@click.option(
    "--attempt",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of the attempt; another one asks again.",
)
@click.option(
    "--max_tokens",
    type=click.IntRange(1),
    default=4096,
    show_default=True,
    metavar="N",
    help="Longest answer of the model.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=250,
    show_default=True,
    metavar="N",
    help="Calls of the model by an agent, for each instance.",
)
@click.option(
    "--max_cost",
    type=click.FloatRange(0),
    default=3.0,
    show_default=True,
    metavar="COST",
    help="Of an agent for each instance, where the model's price is known.",
)
@click.option("--trajectories", type=_PATH, metavar="FOLDER", help="Also write each ID.traj.json there.")
@_places
@_tests
@store_option
@json_option
def predict_command(output: Path, instances: Path, *, store: str | None, as_json: bool, **options: Any) -> int:
    """Let a model write a patch for each instance; the same command resumes. An agent works in bubblewrap.

    Exit code 5 if some instances have no prediction.
    """
    from assaymark.models.create import create_model
    from assaymark.records import GenerationSettings
    from assaymark.runs.stored import check_writable
    from assaymark.store import Store
    from assaymark.swe.agent import AgentLimits
    from assaymark.swe.base_copies import Repositories
    from assaymark.swe.environments import Environments
    from assaymark.swe.instances import read_instances, write_rows
    from assaymark.swe.predicting import PredictOptions, predict, write_trajectories

    check_writable(output, "-o")
    known = read_instances(instances)
    chosen = PredictOptions(
        Repositories(options["repositories"]),
        Environments.read(options["environments"], options["python"], options["where"]),
        options["how"],
        options["name"],
        GenerationSettings(max_tokens=options["max_tokens"]),
        agent=AgentLimits(n_steps=options["steps"], cost=options["max_cost"]),
        limits=_limits(options),
        attempt=options["attempt"],
    )
    model = create_model(options["model"], options["model_args"])
    try:
        with Store.open(store) as opened:
            made, failures = predict(opened, known, model, chosen, lambda line: echo(line, err=True))
            if options["trajectories"] is not None:
                write_trajectories(opened, made, options["trajectories"])
    finally:
        model.close()
    rows = [
        {
            "instance_id": each.instance_id,
            "model_name_or_path": each.model_name_or_path,
            "model_patch": each.model_patch,
        }
        for each in made
    ]
    write_rows(output, rows)
    if as_json:
        print_json({"file": str(output), "predictions": len(made), "failures": failures})
    else:
        echo(f"{len(made)} predictions in {output}; {len(failures)} instances without one")
    return 5 if failures else 0


@swe.command("grade", epilog=examples("swe grade predictions.jsonl --instances instances.jsonl --repo . --workers 2"))
@click.argument("predictions", type=_PATH, metavar="PREDICTIONS")
@_instances
@_places
@_tests
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N",
              help="Instances graded at the same time.")  # fmt: skip
@store_option
@json_option
def grade_command(predictions: Path, instances: Path, *, store: str | None, as_json: bool, **options: Any) -> None:
    """Run the tests of each prediction's instance and store what it resolves; the same command resumes."""
    from assaymark.store import Store
    from assaymark.swe.base_copies import Repositories
    from assaymark.swe.environments import Environments
    from assaymark.swe.grading import GradeOptions, grade, match_predictions
    from assaymark.swe.instances import read_instances, read_predictions
    from assaymark.swe.report import stored_report

    known, written = read_instances(instances), read_predictions(predictions)
    match_predictions(known, written)
    chosen = GradeOptions(
        Repositories(options["repositories"]),
        Environments.read(options["environments"], options["python"], options["where"]),
        _limits(options),
        options["workers"],
    )
    with Store.open(store) as opened:
        graded = grade(opened, known, written, chosen, _say)
        report = stored_report(opened, known, written)
    if as_json:
        print_json(
            {
                "graded": [
                    {"instance_id": each.prediction.instance_id, "outcome": each.outcome, "reason": each.reason,
                     "is_new": each.is_new} for each in graded
                ],
                **report.to_json(),
            }
        )  # fmt: skip
    else:
        _print_report(report)


@swe.command("report", epilog=examples("swe report predictions.jsonl --instances instances.jsonl --run_id first -o ."))
@click.argument("predictions", type=_PATH, metavar="PREDICTIONS")
@_instances
@click.option("--against", type=_PATH, metavar="PREDICTIONS", help="Also compare with another file's patches.")
@click.option("--run_id", default="assaymark", show_default=True, metavar="ID", help="Part of the report's file name.")
@click.option("-o", "--output", type=_PATH, metavar="FOLDER", help="Write SWE-bench's report, MODEL.ID.json, there.")
@store_option
@json_option
def report_command(predictions: Path, instances: Path, *, store: str | None, as_json: bool, **options: Any) -> None:
    """Show what graded predictions resolve, with intervals, and what to look at in them."""
    from assaymark.runs.stored import existing_store
    from assaymark.swe.instances import read_instances, read_predictions
    from assaymark.swe.report import compare_reports, report_file, stored_report

    known = read_instances(instances)
    written = read_predictions(predictions)
    against = None if options["against"] is None else read_predictions(options["against"])
    with existing_store(store) as opened:
        report = stored_report(opened, known, written)
        other = None if against is None else stored_report(opened, known, against)
    compared = None if other is None else compare_reports(other, report)
    path = None if options["output"] is None else report_file(report, options["run_id"], options["output"])
    if as_json:
        from dataclasses import asdict

        content = report.to_json()
        if compared is not None and other is not None:
            content["comparison"] = {"first": other.model, "second": report.model, **asdict(compared[0]), **compared[1]}
        print_json(content | ({"file": str(path)} if path else {}))
        return
    _print_report(report)
    if compared is not None and other is not None:
        _print_comparison(other, report, *compared)
    if path is not None:
        echo(f"written: {path}")


def _limits(options: dict[str, Any]) -> "SweLimits":
    from assaymark.swe.sandbox import SweLimits

    return SweLimits(seconds=options["timeout"], memory_bytes=options["memory"] << 20)


def _say(graded: "Graded") -> None:
    seconds = f" ({graded.grading.seconds:.1f} s)" if graded.grading is not None and graded.is_new else ""
    stored = "" if graded.is_new or graded.grading is None else " (stored)"
    reason = f": {graded.reason}" if graded.reason else ""
    echo(f"{graded.prediction.instance_id}: {graded.outcome}{seconds}{stored}{reason}", err=True)


def _print_report(report: "SweReport") -> None:
    from assaymark.results.console import Text
    from assaymark.results.views.cells import plain_table

    official = report.official()
    table = plain_table()
    table.add_column(report.model, overflow="fold")
    table.add_column("instances", justify="right")
    names = ("total", "submitted", "completed", "resolved", "unresolved", "empty_patch", "error", "ambiguous_failure")
    for name in (*names, "infra_failure"):
        label = "not runnable here" if name == "infra_failure" else name.replace("_", " ")
        table.add_row(Text(label), Text(f"{official[f'{name}_instances']:,}"))
    print_rich(table)
    if report.estimate is not None:
        estimate = report.estimate
        low, high = (100 * end if end is not None else float("nan") for end in (estimate.low, estimate.high))
        echo(
            f"resolved: {100 * estimate.value:.1f}% of {estimate.n} scored instances, 95% interval {low:.1f}% to "
            f"{high:.1f}% ({estimate.method})"
        )
    if (missing := len(set(report.submitted) - set(report.graded))) > 0:
        echo(f"not graded yet: {missing}; `assaymark swe grade` continues")
    if report.efforts is not None:
        efforts = report.efforts
        cost = "unknown cost" if efforts.cost is None else f"cost {efforts.cost:.4g}"
        per = f", {efforts.n_calls / efforts.n_resolved:.1f} calls per resolved one" if efforts.n_resolved else ""
        echo(f"attempts: {efforts.n} with {efforts.n_calls} calls of the model, {cost}{per}")
    if len(report.environments) > 1:
        echo(f"graded in {len(report.environments)} environments; of each patch the latest grading counts")
    for name, reason in report.reasons().items():
        echo(f"{name}: {reason}")
    for name, flags in report.flags().items():
        for flag in flags:
            echo(f"look at {name}: {flag}")


def _print_comparison(first: "SweReport", second: "SweReport", compared: Any, only: dict[str, list[str]]) -> None:
    low, high = (100 * end if end is not None else float("nan") for end in (compared.low, compared.high))
    echo(
        f"{second.model} minus {first.model}: {100 * compared.difference:+.1f} points on {compared.n} instances, 95% "
        f"interval {low:+.1f} to {high:+.1f}, p {compared.p:.3g} ({compared.method})"
    )
    for which, report in (("only_first", first), ("only_second", second)):
        if only[which]:
            echo(f"only {report.model} resolves: {', '.join(only[which][:20])}")
