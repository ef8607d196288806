"""A worker: takes a job, fetches, evaluates, checks, stores the run, and says how it ended.

The folder of a job has one folder for each step, which is all that the step's process may write:

- `fetch`: the model and the data sets, written by our own code alone, and only read by the later steps;
- `evaluate-N`, of the attempt N: a store with the answers, written by the process that reads the model;
- `check`: a store with what of it is the job's, which is copied into the shared store.

So no step needs the address of the shared store, and no file that a submission can reach is used by a step that may do
more. The folder is kept until the job has ended: a worker that takes over a killed one's job on this machine (or with
the same --work_dir) resumes there, and no stored response is computed again.
"""

import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from assaymark import settings
from assaymark.errors import AssaymarkError, DataError, LeaseLost, StoreError, UsageError
from assaymark.interop.one_file import copy_run
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.submission.reproduced import verdict_of
from assaymark.leaderboard.submission.sources import MOST_BYTES
from assaymark.store import Store
from assaymark.store.liveness import Owner
from assaymark.store.queue_rows import JobRow, Progress, SubmissionRow
from assaymark.worker.job_steps import check_step, evaluate_step, fetch_step
from assaymark.worker.messages import Checked, Evaluated, Fetched, Message, Stage
from assaymark.worker.process import Ended, Place, run_step
from assaymark.worker.redact import log_tail
from assaymark.worker.resources import Resources, memory_here
from assaymark.worker.results import STORE, keep_store, take_results
from assaymark.worker.sandbox import find_sandbox

__all__ = ["Host", "Worker"]

IDLE_SECONDS = 2.0
FIRST_STAGES: Mapping[type[Message], str] = {Fetched: "fetching", Evaluated: "loading", Checked: "checking"}

Made = TypeVar("Made", Fetched, Evaluated, Checked)


@dataclass(frozen=True, slots=True)
class Host:
    """What the host of a worker decides."""

    boards: Mapping[str, Board]
    folders: Sequence[Path]  # models that may be submitted by their name in one of these
    work: Path  # where jobs have their folders
    job_seconds: float = 24 * 3600.0
    limit: int | None = None  # samples per task
    lease_seconds: float = 60.0
    limits: Resources = field(default_factory=lambda: Resources(memory_here()))
    most_results: int = 8 << 30  # bytes of what an evaluation stores


class _Failed(Exception):
    """A step that failed."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.reason)
        self.ended = ended


class Worker:
    """Does jobs one after another."""

    def __init__(self, store: Store, host: Host, say: Callable[[str], None]) -> None:
        """Args: store: shared; host: what it decides; say: called with one line for each thing that happens."""
        self._store = store
        self._queue = store.queue
        self._host = host
        self._say = say
        self._owner = Owner.this_process(uuid.uuid4().hex)
        self._sandbox = find_sandbox()
        if self._sandbox is None:
            say("bubblewrap is not installed: evaluations run without a sandbox (apt-get install bubblewrap)")

    def work(self, *, once: bool = False, stopped: Callable[[], bool] = lambda: False) -> int:
        """Do jobs until `stopped`; with `once`, until none is waiting. Returns how many were done."""
        n_done = 0
        while not stopped():
            job = self._queue.claim(self._owner.to_text(), self._host.lease_seconds)
            if job is None:
                if once:
                    break
                time.sleep(IDLE_SECONDS)
                continue
            self.do(job)
            n_done += 1
        return n_done

    def do(self, job: JobRow) -> None:
        """Do one job that was claimed."""
        row = self._queue.submission(job.submission)
        again = f", attempt {job.n_attempts}" if job.n_attempts > 1 else ""
        self._say(f"job {job.id}: {job.kind} {row.new.model} for {row.new.board}{again}")
        folder = self._host.work / job.id
        try:
            verdict = self._carry_out(job, row, folder)
        except LeaseLost as error:
            self._say(f"job {job.id}: {error}")
            return
        except _Failed as failed:
            self._fail(job, failed.ended)
        except KeyboardInterrupt:
            self._queue.release(job)
            self._say(f"job {job.id}: put back")
            raise
        except (AssaymarkError, OSError) as error:
            self._fail(job, Ended(None, "ours", str(error)))
        else:
            self._say(f"job {job.id}: finished{verdict}")
        if all(one.state not in {"pending", "running"} for one in self._queue.jobs_of(job.submission)):
            _remove(folder)

    def _fail(self, job: JobRow, ended: Ended) -> None:
        secrets = settings.secrets_here()
        reason = log_tail(" ".join(ended.reason.split())[:500], secrets)
        try:
            again = self._queue.fail(job, ended.fault, reason, log_tail(ended.log, secrets))
        except LeaseLost as error:
            self._say(f"job {job.id}: {error}")
            return
        whose = "the submission's" if ended.fault == "theirs" else "ours"
        self._say(f"job {job.id}: failed ({whose}): {reason}{'; it will be tried again' if again else ''}")

    def _carry_out(self, job: JobRow, row: SubmissionRow, folder: Path) -> str:
        board = self._host.boards.get(row.new.board)
        if board is None:
            known = ", ".join(sorted(self._host.boards))
            raise UsageError(
                f"this worker has no board '{row.new.board}' (it has: {known}); start it with the board's file"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fetch = _step_folder(folder / "fetch")
        fetched = self._fetch(job, row, board, fetch)
        here = _step_folder(folder / f"evaluate-{job.epoch}", data=fetch)
        for before in sorted(folder.glob("evaluate-*"), key=lambda each: each.stat().st_mtime):
            if before != here:
                keep_store(before, here)
                _remove(before)
        readable = self._readable(board, fetch)
        evaluate = evaluate_step(board, row, fetched, here / STORE, self._host.limit)
        self._step(job, evaluate, self._place(here, readable=readable), Evaluated)
        run_ids = self._stored(job, evaluate, here, readable)
        verdict = self._verdict(job, row, run_ids)
        self._queue.finish(job, run_ids[0], verdict)
        return f": {verdict[1]}" if verdict else ""

    def _fetch(self, job: JobRow, row: SubmissionRow, board: Board, folder: Path) -> Fetched:
        """Fetch model and data; the model lies in a folder of the job, and nowhere else."""
        models = folder / "models"
        models.mkdir(exist_ok=True)
        step = fetch_step(board, row, self._host.folders, models)
        limits = replace(self._host.limits, file_bytes=MOST_BYTES, disk_bytes=3 * MOST_BYTES)
        fetched = self._step(job, step, replace(self._place(folder, has_network=True), limits=limits), Fetched)
        for place in (fetched.model, fetched.base):
            if place is not None and not place.resolve().is_relative_to(models.resolve()):
                raise StoreError(f"the model was fetched to {place}; expected a folder below {models}")
        return fetched

    def _place(self, folder: Path, *, has_network: bool = False, readable: Sequence[Path] = ()) -> Place:
        return Place(
            folder,
            settings.environment_of_job(folder / "home", network=has_network),
            self._host.limits,
            self._host.job_seconds,
            None if has_network else self._sandbox,
            readable,
        )

    def _readable(self, board: Board, fetch: Path) -> list[Path]:
        readable = [fetch / "models"]
        data = settings.data_folder()
        readable += [data.resolve()] if data is not None else []
        readable += [path.parent for path in board.task_files]
        readable += [board.suite.source] if board.suite is not None and board.suite.source is not None else []
        return readable

    def _step(self, job: JobRow, spec: Mapping[str, Any], place: Place, made: type[Made]) -> Made:
        """Run a step while the job's lease is renewed. Raises: _Failed; LeaseLost."""
        state: dict[str, Any] = {
            "progress": Progress(stage=FIRST_STAGES[made]),
            "renewed": time.monotonic(),
            "stored": None,
        }

        def heard(stage: Stage | None) -> None:
            if stage is not None:
                state["progress"] = Progress(stage.n_done, stage.n_total, stage.text)
            self._keep(job, state)

        ended = run_step(spec, place, heard)
        if not isinstance(ended.made, made):
            raise _Failed(ended)
        return ended.made

    def _keep(self, job: JobRow, state: dict[str, Any]) -> None:
        """Renew the lease where a third of it has passed, or a second after other progress."""
        now = time.monotonic()
        progress: Progress = state["progress"]
        is_new = progress != state.get("stored") and now - state["renewed"] > 1
        if not is_new and now - state["renewed"] < self._host.lease_seconds / 3:
            return
        try:
            self._queue.renew(job, self._host.lease_seconds, progress)
        except LeaseLost:
            raise
        except StoreError:  # a database that is away for a moment; there is time until the lease expires
            if now - state["renewed"] > self._host.lease_seconds:
                raise
            return
        state["renewed"], state["stored"] = now, progress

    def _stored(self, job: JobRow, evaluate: Mapping[str, Any], here: Path, readable: Sequence[Path]) -> list[str]:
        """Store what of an evaluation's results is the job's; return the ids of the runs."""
        folder = here.parent / "check"
        _remove(folder)
        _step_folder(folder, data=here.parent / "fetch")
        copied = here.parent / f"results-{job.epoch}.sqlite"
        copied.unlink(missing_ok=True)
        try:
            take_results(here, copied, self._host.most_results)
        except DataError as error:
            raise _Failed(Ended(None, "theirs", str(error))) from error
        place = self._place(folder, readable=[*readable, copied])
        checked = self._step(job, check_step(evaluate, copied, folder / STORE), place, Checked)
        with Store.open(str(folder / STORE)) as source:
            return [copy_run(source, self._store, run_id)[0] for run_id in checked.runs]

    def _verdict(self, job: JobRow, row: SubmissionRow, run_ids: Sequence[str]) -> tuple[bool, str] | None:
        if job.kind != "reproduce" or row.new.reported_run is None:
            return None
        measured = [one for run_id in run_ids for one in self._store.estimates(run_id)]
        return verdict_of(self._store.estimates(row.new.reported_run), measured)


def _step_folder(folder: Path, *, data: Path | None = None) -> Path:
    """Return the folder of a step, with what it needs: a home, a working directory, the data sets that were fetched."""
    for part in ("home/tmp", "home/assaymark", "cwd"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    if data is not None and (data / "home" / "hf").is_dir():
        shutil.copytree(data / "home" / "hf", folder / "home" / "hf", symlinks=True)
    return folder


def _remove(folder: Path) -> None:
    """Remove a folder that an evaluation wrote: of any depth, and with folders that deny access to their owner.

    `shutil.rmtree` is recursive, and would end this process at some thousand folders in each other.
    """
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], capture_output=True, check=False)
