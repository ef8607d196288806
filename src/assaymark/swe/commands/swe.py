"""`assaymark swe`: software-engineering tasks, from instances to a report."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import (
    Group,
    OptionDecorator,
    echo,
    examples,
    json_option,
    print_json,
    print_result,
    print_rich,
    store_option,
    with_options,
)
from assaymark.errors import UsageError
from assaymark.platforms import not_here
from assaymark.records.json_values import json_fields
from assaymark.runs.run_options import declared_option

if sys.platform == "win32":
    raise not_here("`assaymark swe`")

if TYPE_CHECKING:
    from assaymark.store import Store
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


def _limit_options(python: str, timeout: str, seconds: int, memory: str) -> OptionDecorator:
    """Return the options of commands in the sandbox: their help, and the default of --timeout."""
    return with_options(
        click.option("--python", metavar="PROGRAM", help=f"{python}, with pytest (default: this one)."),
        click.option("--timeout", type=click.FloatRange(1, 86_400), default=seconds, show_default=True,
                     metavar="SECONDS", help=timeout),
        click.option("--memory", type=click.IntRange(64), default=4096, show_default=True, metavar="MIB", help=memory),
    )  # fmt: skip


_instances = click.option(
    "--instances",
    required=True,
    type=_PATH,
    metavar="FILE",
    help="Instances: JSON lines or Parquet, SWE-bench's fields.",
)
_tests = _limit_options(
    "Interpreter of the tests", "Longest run of an instance's tests.", 1800, "Memory of an instance's tests."
)
_commits_tests = _limit_options(
    "Interpreter of the tests", "Longest run of a commit's tests; one with longer tests is left out.", 300,
    "Memory of a commit's tests.",
)  # fmt: skip
_agents_commands = _limit_options(
    "Interpreter that an agent has", "Longest command of an agent.", 60, "Memory of each command of an agent."
)
_environments = click.option(
    "--environments",
    type=_PATH,
    metavar="FILE",
    help="YAML: python or image, folder, pythonpath, test_arguments, variables by instance or name.",
)
_places = with_options(
    click.option("--repo", "repositories", multiple=True, metavar="[owner/name=]FOLDER",
                 help="Where a repository is; without a name: those that are not named."),
    _environments,
    click.option("--where", type=click.Choice(["auto", "bwrap", "docker", "podman"]), default="auto", show_default=True,
                 help="Bubblewrap, or containers: SWE-bench's images, which must be here, or those that --environments "
                 "names."),
)  # fmt: skip


@click.group(cls=Group, epilog=EXAMPLES)
def swe() -> None:
    """Software-engineering tasks: patches for issues of real repositories, decided by the repositories' tests.

    Files are SWE-bench's. Tests run in bubblewrap or a container, without network.
    """


@swe.command("init", epilog=examples("swe init . -o instances.jsonl --limit 5"))
@click.argument("repository", type=_PATH, metavar="REPO")
@click.option("-o", "--output", required=True, type=_PATH, metavar="FILE",
              help="Instances to write: JSON lines, or a list where it ends in .json.")  # fmt: skip
@click.option("--revision", default="HEAD", show_default=True, metavar="REVISION", help="Branch, commit or range.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Instances to make.")
@click.option("--tried", type=click.IntRange(1), default=200, show_default=True, metavar="N", help="Commits to try.")
@click.option(
    "--name", default="", metavar="owner/name", help="Name of the repository (default: local/ and its folder)."
)
@_environments
@_commits_tests
@json_option
def init(
    repository: Path, output: Path, *, as_json: bool, revision: str, limit: int, tried: int, name: str,
    environments: Path | None, python: str | None, timeout: float, memory: int,
) -> None:  # fmt: skip
    """Make instances of a repository's own commits that change both code and tests; the same command resumes.

    A commit's message is the issue; edit the messages that tell the solution. Instances that FILE has stay as they are.
    """
    from assaymark.runs.stored import check_writable
    from assaymark.swe.environments import Environments
    from assaymark.swe.from_commits import CommitChoice, make_instances
    from assaymark.swe.instances import check_suffix, read_instances, write_rows

    check_suffix(output)
    check_writable(output, "-o")
    if name and (name.count("/") != 1 or not all(name.split("/"))):
        raise UsageError(f"--name is '{name}'; expected owner/name")
    known = Environments.read(environments, python)
    choice = CommitChoice(revision, limit, tried, name)
    has_some = output.is_file() and output.stat().st_size > 0
    made = {each.instance_id: each for each in (read_instances(output) if has_some else ())}  # they may be edited
    n_made = 0
    for instance in make_instances(
        repository, choice, known, _limits(timeout, memory), lambda line: echo(line, err=True)
    ):
        n_made += 1
        made.setdefault(instance.instance_id, instance)
        write_rows(output, [each.row() for each in made.values()])  # what is made so far is kept if this is ended
        echo(f"{instance.instance_id}: {len(instance.FAIL_TO_PASS)} tests to fix, {len(instance.PASS_TO_PASS)} to keep",
             err=True)  # fmt: skip
    if not n_made:
        raise UsageError(
            f"no commit of {repository} changes code and tests so that a test fails before and passes after; name "
            "others with --revision, or the interpreter that has its packages with --python"
        )
    content = {"file": str(output), "instances": list(made)}
    print_result(content, lambda: f"{len(made)} instances in {output}", as_json=as_json)


@swe.command(
    "prepare",
    epilog=examples(
        "swe prepare --instances instances.jsonl --pins swebench-og --repo pallets/flask=flask -o envs.yaml"
    ),
)
@_instances
@click.option("--pins", required=True, type=_PATH, metavar="PATH",
              help="Folder of OWNER__NAME/NUMBER/environment.yml, as SWE-bench's source has it; or one such file, or a "
              "requirements.txt, for all.")  # fmt: skip
@click.option("--repo", "repositories", multiple=True, metavar="[owner/name=]FOLDER",
              help="Where a repository is; without a name: those that are not named.")  # fmt: skip
@click.option("--only", multiple=True, metavar="ID", help="Only this instance.")
@click.option("--python", metavar="PROGRAM", help="Interpreter (default: of the pins' version, from PATH or pyenv).")
@click.option("-o", "--output", required=True, type=_PATH, metavar="FILE",
              help="Environments to write, for --environments of the other commands.")  # fmt: skip
@json_option
def prepare_command(
    instances: Path, output: Path, *, as_json: bool, pins: Path, repositories: tuple[str, ...], only: tuple[str, ...],
    python: str | None,
) -> int:  # fmt: skip
    """Make the environment of each instance: its pins in a venv, its repository installed; pip downloads packages.

    The same command resumes. Exit code 5 if some instances have no environment.
    """
    from assaymark.runs.stored import check_writable
    from assaymark.swe.base_copies import Repositories
    from assaymark.swe.instances import read_instances
    from assaymark.swe.preparing import prepare_all, write_environments

    check_writable(output, "-o")
    known = {each.instance_id: each for each in read_instances(instances)}
    if unknown := [name for name in only if name not in known]:
        raise UsageError(f"--only is '{unknown[0]}', which {instances} does not have")
    chosen = [each for name, each in known.items() if not only or name in only]
    prepared = prepare_all(
        chosen, pins, Repositories(repositories), python,
        lambda each: echo(f"{each.instance_id}: {each.problem or _prepared[each.is_new]}", err=True),
    )  # fmt: skip
    write_environments(output, prepared)
    failures = {each.instance_id: each.problem for each in prepared if each.problem}
    n_made = len(prepared) - len(failures)
    said = f"{n_made} environments in {output}; {len(failures)} instances without one"
    print_result({"file": str(output), "environments": n_made, "failures": failures}, lambda: said, as_json=as_json)
    return 5 if failures else 0


@swe.command(
    "predict",
    epilog=examples(
        "swe predict --model local-chat-completions --model_args model=NAME,base_url=URL --instances instances.jsonl "
        "--repo . -o predictions.jsonl"
    ),
)
@_instances
@click.option("--model", required=True, metavar="KIND", help="Kind of model, as in `run`.")
@click.option("--model_args", default="", metavar="A=1,B=2", help="Arguments of the model, as in `run`.")
@click.option("-o", "--output", required=True, type=_PATH, metavar="FILE",
              help="Predictions to write: JSON lines, or a list where it ends in .json.")  # fmt: skip
@click.option(
    "--how",
    type=click.Choice(["agent", "oracle", "bm25"]),
    default="agent",
    show_default=True,
    help="An agent with bash; or one answer, with the gold patch's files or those that BM25 finds.",
)
@click.option("--name", default="", metavar="NAME", help="Name of the model in predictions (default: its own).")
@click.option("--attempt", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="Number of the attempt; another one asks again.")  # fmt: skip
@click.option("--max_tokens", type=click.IntRange(1), default=4096, show_default=True, metavar="N",
              help="Longest answer of the model.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), default=250, show_default=True, metavar="N",
              help="Calls of the model by an agent, for each instance.")  # fmt: skip
@click.option(
    "--max_cost",
    type=click.FloatRange(0),
    metavar="MONEY",
    help="Cost of an agent for each instance, above 0: past it the agent ends (default: 3 where the model's price is "
    "known).",
)
@click.option("--agent_time", type=click.FloatRange(1, 604_800), default=3600, show_default=True, metavar="SECONDS",
              help="Time of an agent for each instance: past it the agent is asked no more.")  # fmt: skip
@declared_option("price")
@declared_option("prices")
@click.option("--trajectories", type=_PATH, metavar="FOLDER", help="Also write each ID.traj.json there.")
@_places
@_agents_commands
@store_option
@json_option
def predict_command(
    output: Path, instances: Path, *, store: str | None, as_json: bool, model: str, model_args: str, how: str,
    name: str, attempt: int, max_tokens: int, steps: int, max_cost: float | None, agent_time: float, price: str | None,
    prices: str | None, trajectories: Path | None, repositories: tuple[str, ...], environments: Path | None, where: str,
    python: str | None, timeout: float, memory: int,
) -> int:  # fmt: skip
    """Let a model write a patch for each instance; the same command resumes.

    An agent's commands run in bubblewrap or a container, without network. Exit code 5 if some instances have no
    prediction.
    """
    from dataclasses import replace

    from assaymark.models.cost.bill import bill_for
    from assaymark.models.create import create_model
    from assaymark.records import GenerationSettings
    from assaymark.runs.stored import check_writable
    from assaymark.store import Store
    from assaymark.swe.agent import AgentLimits
    from assaymark.swe.base_copies import Repositories
    from assaymark.swe.environments import Environments
    from assaymark.swe.instances import check_suffix, read_instances, write_rows
    from assaymark.swe.predicting import PredictOptions, predict, write_trajectories

    check_suffix(output)
    check_writable(output, "-o")
    if max_cost == 0:
        raise UsageError(
            "--max_cost is 0: nothing may be spent, so no model can be asked; name a cost above 0, or leave the option "
            "out where the model costs nothing"
        )
    known = read_instances(instances)
    agent = AgentLimits(n_steps=steps, seconds=agent_time, command_seconds=timeout)
    chosen = PredictOptions(
        Repositories(repositories), Environments.read(environments, python, where), how, name,
        GenerationSettings(max_tokens=max_tokens), agent=agent if max_cost is None else replace(agent, cost=max_cost),
        limits=_limits(timeout, memory), attempt=attempt,
    )  # fmt: skip
    asked = create_model(model, model_args)
    try:
        bill = bill_for(asked, price, prices, max_cost)
        chosen = replace(chosen, price=None if bill is None else bill.price)
        with Store.open(store) as opened:
            made, failures = predict(opened, known, asked, chosen, lambda line: echo(line, err=True))
            if trajectories is not None:
                write_trajectories(opened, made, trajectories)
    finally:
        asked.close()
    write_rows(output, map(asdict, made))
    said = f"{len(made)} predictions in {output}; {len(failures)} instances without one"
    print_result({"file": str(output), "predictions": len(made), "failures": failures}, lambda: said, as_json=as_json)
    return 5 if failures else 0


@swe.command("grade", epilog=examples("swe grade predictions.jsonl --instances instances.jsonl --repo . --workers 2"))
@click.argument("predictions", type=_PATH, metavar="PREDICTIONS")
@_instances
@_places
@_tests
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Instances graded at the same time; default: 1, with --cluster as many as it has processors.",
)
@click.option("--cluster", metavar="ADDRESS",
              help="Grade on a Ray cluster: auto, HOST:6379 or ray://HOST:10001. Each machine needs the environments "
              "and repositories at the same paths.")  # fmt: skip
@store_option
@json_option
def grade_command(
    predictions: Path, instances: Path, *, store: str | None, as_json: bool, repositories: tuple[str, ...],
    environments: Path | None, where: str, python: str | None, timeout: float, memory: int, workers: int | None,
    cluster: str | None,
) -> None:  # fmt: skip
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
        Repositories(repositories), Environments.read(environments, python, where), _limits(timeout, memory), workers,
        cluster
    )  # fmt: skip
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
        from assaymark.documents.document import document
        from assaymark.swe.report_documents import report_blocks

        print_rich(document(report_blocks(report)))


@swe.command(
    "report",
    epilog=examples(
        "swe report predictions.jsonl --instances instances.jsonl --run_id first -o .",
        "swe report try1.jsonl try2.jsonl --instances instances.jsonl --cutoff 2024-06-01 --as_run my-issues",
    ),
)
@click.argument("predictions", nargs=-1, required=True, type=_PATH, metavar="PREDICTIONS...")
@_instances
@click.option("--against", multiple=True, type=_PATH, metavar="PREDICTIONS",
              help="Also compare with another model's patches; may be repeated, for several attempts.")  # fmt: skip
@click.option("--cutoff", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE",
              help="Also compare the instances from this date on with those before it, as YYYY-MM-DD.")  # fmt: skip
@click.option("--as_run", metavar="TASK",
              help="Also store the gradings as a run of a task of this name, which pages and boards show.")  # fmt: skip
@click.option(
    "--official",
    type=_PATH,
    metavar="FILE",
    help="SWE-bench's report of the same predictions, MODEL.ID.json: lists the instances whose outcome differs.",
)
@click.option("--traces", metavar="PROJECT", help="Also store the trajectories as traces of this project.")
@click.option("--run_id", default="assaymark", show_default=True, metavar="ID", help="Part of the report's file name.")
@click.option("-o", "--output", type=_PATH, metavar="FOLDER", help="Write SWE-bench's report, MODEL.ID.json, there.")
@store_option
@json_option
def report_command(
    predictions: tuple[Path, ...], instances: Path, *, store: str | None, as_json: bool, against: tuple[Path, ...],
    cutoff: datetime | None, as_run: str | None, official: Path | None, traces: str | None, run_id: str,
    output: Path | None,
) -> None:  # fmt: skip
    """Show what graded predictions resolve, with intervals, and what to look at in them.

    Several files are several attempts of one model: with pass@k, and each instance counted once.
    """
    from assaymark.runs.stored import existing_store
    from assaymark.store import Store
    from assaymark.swe.as_run import store_gradings
    from assaymark.swe.instances import read_instances, read_predictions
    from assaymark.swe.official_reports import compare_official, read_official
    from assaymark.swe.repeats import compare_repeats, per_resolved, repeats_of, split_by_date
    from assaymark.swe.report import report_file, stored_report

    if official is not None and len(predictions) > 1:
        raise UsageError(f"--official is the report of one file of predictions; {len(predictions)} are named")
    stated = None if official is None else read_official(official)
    known = read_instances(instances)
    written, beside = ([read_predictions(path) for path in paths] for paths in (predictions, against))
    lines: list[str] = []
    opened = existing_store(store)
    if as_run is not None or traces is not None:
        opened.close()
        opened = Store.open(store)
    with opened:
        reports = [stored_report(opened, known, each) for each in written]
        others = [stored_report(opened, known, each) for each in beside]
        repeats = repeats_of(reports)
        if traces is not None:
            lines.append(_stored_traces(opened, traces, reports))
        run = None
        if as_run is not None:
            run, is_new = store_gradings(opened, _task_name(as_run), known, reports)
            lines.append(f"run {run[:12]}{'' if is_new else ' (stored before)'}: see it with `assaymark serve`")
    split = None if cutoff is None else split_by_date(reports, known, cutoff.date())
    efforts, compared = per_resolved(reports), compare_repeats(others, reports) if others else None
    agreement = None if stated is None else compare_official(reports[0], stated)
    if output is not None:
        ids = [run_id] if len(reports) == 1 else [f"{run_id}-{n + 1}" for n in range(len(reports))]
        paths = [report_file(report, run_id, output) for report, run_id in zip(reports, ids, strict=True)]
        lines += [f"written: {path}" for path in paths]
    if as_json:
        content: dict[str, object] = (
            reports[0].to_json() if len(reports) == 1 else {"attempts": [each.to_json() for each in reports]}
        )
        if compared is not None:
            names = {"first": others[0].model, "second": reports[0].model}
            content["comparison"] = {**names, **json_fields(compared[0]), **compared[1]}
        content |= {
            "repeats": repeats if len(reports) > 1 else None,
            "per_resolved": efforts,
            "cutoff": split,
            "run": run,
            "official": agreement,
        }
        print_json(content | ({"file": lines[-1].removeprefix("written: ")} if output else {}))
        return
    from assaymark.documents.document import document
    from assaymark.swe import report_documents as shown

    print_rich(
        document(
            *map(shown.report_blocks, reports),
            [] if repeats is None or len(reports) == 1 else shown.repeats_blocks(repeats, len(reports)),
            [] if efforts is None else shown.effort_blocks(efforts),
            [] if split is None else shown.split_blocks(split),
            [] if compared is None else shown.comparison_blocks(others[0].model, reports[0].model, *compared),
            [] if agreement is None else shown.agreement_blocks(agreement),
        )
    )
    echo(*lines)


def _task_name(name: str) -> str:
    if not name or len(name) > 100 or not all(letter.isalnum() or letter in "._-" for letter in name):
        raise UsageError(f"--as_run is '{name:.40}'; expected a task's name of letters, digits, '.', '_' and '-'")
    return name


def _stored_traces(store: "Store", project: str, reports: "Sequence[SweReport]") -> str:
    from assaymark.errors import MissingExtra
    from assaymark.swe.grading_log import GradingLog

    try:
        from assaymark.swe.trajectory_traces import store_traces
    except ImportError as error:
        raise MissingExtra("storing trajectories as traces", "traces") from error
    log = GradingLog(store)
    keys = [each.key for report in reports if report.efforts for each in report.efforts.by_instance.values()]
    attempts = [attempt for key in dict.fromkeys(keys) if (attempt := log.attempt(key)) is not None]
    n_stored = store_traces(store, project, attempts)
    return (
        f"{n_stored} trajectories are traces of the project {project}: see them with `assaymark serve --traces` and a "
        f"token (`assaymark traces project token {project}`)"
    )


def _limits(timeout: float, memory: int) -> "SweLimits":
    from assaymark.swe.sandbox import SweLimits

    return SweLimits(seconds=timeout, memory_bytes=memory << 20)


def _say(graded: "Graded") -> None:
    seconds = f" ({graded.grading.seconds:.1f} s)" if graded.grading is not None and graded.is_new else ""
    stored = "" if graded.is_new or graded.grading is None else " (stored)"
    reason = f": {graded.reason}" if graded.reason else ""
    echo(f"{graded.prediction.instance_id}: {graded.outcome}{seconds}{stored}{reason}", err=True)
