"""`assaymark submit MODEL`, to a leaderboard, and `assaymark worker`, which evaluates what was submitted."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.output import Command, echo, examples, json_option, print_json
from assaymark.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assaymark.leaderboard.submission.choices import SubmissionProblem
import math

from assaymark.cli.output import store_option
from assaymark.documents.numbers import counted

REFUSED = 1


@click.command(cls=Command, epilog=examples("submit ORG/MODEL --server https://leaderboard.example.org"))
@click.argument("model", metavar="MODEL")
@click.option("--check", is_flag=True, help="Only check here; nothing is sent to a leaderboard.")
@click.option("--server", metavar="URL", help="Address of the leaderboard's server, such as https://board.example.org.")
@click.option("--board", default="", metavar="NAME", help="Leaderboard, where the server has several.")
@click.option("--revision", default="", metavar="REV", help="Branch, tag or commit (default: the latest).")
@click.option("--precision", default="float32", show_default=True, metavar="TYPE",
              help="float32, bfloat16, float16, 8bit, 4bit, GPTQ or AWQ.")  # fmt: skip
@click.option("--preset", default="none", show_default=True, metavar="NAME", help="Prompt preset, or chat-template.")
@click.option("--weights", default="original", show_default=True, metavar="TYPE", help="original or adapter.")
@click.option("--base", default="", metavar="MODEL", help="Base model of an adapter.")
@click.option("--base_revision", default="", metavar="REV", help="Revision of the base model.")
@click.option("--kind", default="unknown", metavar="TYPE", help="pretrained, continued, finetuned, chat or merge.")
@click.option("--results", type=click.Path(exists=True, dir_okay=False), help="Report lm-eval's results file.")
@json_option
def submit(model: str, check: bool, server: str | None, results: str | None, as_json: bool, **options: object) -> int:
    """Check a model as a leaderboard does before it evaluates one, and submit it.

    MODEL is a Hub id; with --check also a folder. The token is read from ASSAYMARK_TOKEN. Exit code 1 if there are
    problems; each is printed with its remedy.
    """
    if check and server is None:
        problems, passed = _check_here(model, options)
        url = ""
    else:
        problems, passed, url = _send(server, results, check, {**options, "model": model})
    if as_json:
        print_json({"problems": problems, "passed": list(passed), "url": url or None})
    else:
        echo(*(f"ok       {line}" for line in passed))
        echo(*(f"problem  {problem}" for problem in problems))
        if url:
            echo(f"submitted; follow it at {url}")
        elif not problems:
            echo("it can be submitted")
    return REFUSED if problems else 0


def _check_here(model: str, options: "Mapping[str, object]") -> "tuple[Sequence[SubmissionProblem], Sequence[str]]":
    """Run the checks on this machine: of a folder by its own name, of anything else on the Hub."""
    from assaymark.leaderboard.submission.checks import Policy, check_submission
    from assaymark.leaderboard.submission.choices import read_choices
    from assaymark.leaderboard.submission.host import boards_of
    from assaymark.leaderboard.submission.hub_models import HubModels
    from assaymark.leaderboard.submission.sources import FolderModels, ModelSource

    place = Path(model).expanduser()
    sources: list[ModelSource] = []
    if place.is_dir():
        place = place.resolve()
        sources, model = [FolderModels([place.parent])], place.name
    else:
        sources = [HubModels()]
    boards = boards_of(())
    values = {**options, "model": model, "board": options["board"] or next(iter(boards))}
    chosen, problems = read_choices(lambda name: str(values.get(name, "")), boards)
    checked = check_submission(chosen, problems, sources, Policy(), "you")
    return checked.problems, checked.passed


def _send(
    server: str | None, results: str | None, check: bool, values: dict[str, object]
) -> "tuple[Sequence[SubmissionProblem], Sequence[str], str]":
    from assaymark import settings
    from assaymark.leaderboard.submission.client import send

    token = settings.read("ASSAYMARK_TOKEN")
    if server is None:
        raise UsageError("name the leaderboard with --server URL, or check the model here with --check")
    if token is None:
        raise UsageError("ASSAYMARK_TOKEN is not set; expected the token that the leaderboard's host gave you")
    if results is not None:
        try:
            values["results"] = json.loads(Path(results).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"--results {results} is not a JSON file; expected lm-eval's results_<time>.json"
            ) from error
    path = "/api/check" if check else "/api/results" if results is not None else "/api/submissions"
    sent = send(server, path, token, values)
    return sent.problems, sent.passed, sent.url


@click.command(cls=Command, epilog=examples("worker board.yaml --once"))
@click.argument("boards", nargs=-1, metavar="[BOARD.yaml ...]")
@click.option("--once", is_flag=True, help="End when no job is waiting.")
@click.option(
    "--allow_folder",
    multiple=True,
    metavar="DIR",
    help="Folder whose models may be submitted by name (DIR/model, DIR/organisation/model); repeatable.",
)
@click.option("--work_dir", metavar="DIR", help="Folder for jobs in progress (default: work in your data folder).")
@click.option("--limit", "-L", type=click.IntRange(1), metavar="N", help="Evaluate only the first N samples per task.")
@click.option("--job_hours", type=click.FloatRange(0.001), default=24.0, show_default=True, help="Time limit of a job.")
@click.option("--memory_gb", type=click.FloatRange(1, 1e6), help="Memory of a job (default: 80% of this machine's).")
@store_option
def worker(
    boards: tuple[str, ...], once: bool, allow_folder: tuple[str, ...], work_dir: str | None, limit: int | None,
    job_hours: float, memory_gb: float | None, store: str | None,
) -> None:  # fmt: skip
    """Take jobs from the queue and evaluate them, on this machine.

    Start one per GPU, on any machine that reaches the store. It knows the boards of the given files, and the suites
    that come with the package. Models are fetched without a token and evaluated without the network, in a sandbox where
    bubblewrap is installed, with limits on memory, processes and files. After a kill another worker continues the job.
    Ctrl-C puts the current job back.
    """
    from assaymark import settings
    from assaymark.leaderboard.submission.host import boards_of, folders_of
    from assaymark.leaderboard.submission.worker.work import Host, Worker
    from assaymark.limits.resources import Resources, memory_here
    from assaymark.store import Store

    if memory_gb is not None and math.isnan(memory_gb):
        raise UsageError("--memory_gb is nan; expected a number of gigabytes")
    work = Path(work_dir).expanduser() if work_dir else settings.home_folder() / "work"
    host = Host(
        boards=boards_of(boards), folders=folders_of(allow_folder), work=work.absolute(), job_seconds=job_hours * 3600,
        limit=limit, lease_seconds=settings.lease_seconds(),
        limits=Resources(memory_here() if memory_gb is None else int(memory_gb * 1e9)),
    )  # fmt: skip
    with Store.open(store) as opened:
        echo(f"worker on {opened.url}; boards {', '.join(sorted(host.boards))}", err=True)
        n_done = Worker(opened, host, lambda line: echo(line, err=True)).work(once=once)
    echo(f"{counted(n_done, 'job')} done", err=True)
