"""`assaymark worker [BOARD.yaml ...]`: take jobs from the queue and evaluate them."""

import math
from pathlib import Path

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, store_option
from assaymark.documents.numbers import counted
from assaymark.errors import UsageError


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
    boards: tuple[str, ...],
    once: bool,
    allow_folder: tuple[str, ...],
    work_dir: str | None,
    limit: int | None,
    job_hours: float,
    memory_gb: float | None,
    store: str | None,
) -> None:
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
        boards=boards_of(boards),
        folders=folders_of(allow_folder),
        work=work.absolute(),
        job_seconds=job_hours * 3600,
        limit=limit,
        lease_seconds=settings.lease_seconds(),
        limits=Resources(memory_here() if memory_gb is None else int(memory_gb * 1e9)),
    )
    with Store.open(store) as opened:
        echo(f"worker on {opened.url}; boards {', '.join(sorted(host.boards))}", err=True)
        n_done = Worker(opened, host, lambda line: echo(line, err=True)).work(once=once)
    echo(f"{counted(n_done, 'job')} done", err=True)
