"""A worker: takes a job, fetches, evaluates, stores the run, and says how it ended.

The evaluation writes into a store of the job's own folder, so it needs neither the network nor the address of the
shared store. The folder is kept until the job has ended: a worker that takes over a killed one's job on this machine
(or with the same --work_dir) resumes there, and no stored response is computed again. Afterwards the run is copied into
the shared store.
"""

import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark import settings
from assaymark.errors import AssaymarkError, LeaseLost, StoreError, UsageError
from assaymark.interop.one_file import copy_run
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.submission.reproduced import verdict_of
from assaymark.store import Store
from assaymark.store.liveness import Owner
from assaymark.store.queue_rows import JobRow, Progress, SubmissionRow
from assaymark.worker.job_steps import evaluate_step, fetch_step
from assaymark.worker.process import Ended, run_step
from assaymark.worker.redact import log_tail
from assaymark.worker.sandbox import find_bubblewrap

__all__ = ["Host", "Worker"]

IDLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Host:
    """What the host of a worker decides."""

    boards: Mapping[str, Board]
    folders: Sequence[Path]  # models that may be submitted by their name in one of these
    work: Path  # where jobs have their folders
    job_seconds: float = 24 * 3600.0
    limit: int | None = None  # samples per task
    lease_seconds: float = 60.0


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
        self._sandbox = find_bubblewrap()
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
            shutil.rmtree(folder, ignore_errors=True)

    def _fail(self, job: JobRow, ended: Ended) -> None:
        secrets = settings.secrets_here()
        reason = log_tail(" ".join(ended.reason.split())[:500], secrets)
        try:
            again = self._queue.fail(job, ended.fault, reason, log_tail(ended.log, secrets))
        except LeaseLost as error:
            self._say(f"job {job.id}: {error}")
            return
        whose = "ours" if ended.fault == "ours" else "the submission's"
        self._say(f"job {job.id}: failed ({whose}): {reason}{'; it will be tried again' if again else ''}")

    def _carry_out(self, job: JobRow, row: SubmissionRow, folder: Path) -> str:
        board = self._host.boards.get(row.new.board)
        if board is None:
            known = ", ".join(sorted(self._host.boards))
            raise UsageError(
                f"this worker has no board '{row.new.board}' (it has: {known}); start it with the board's file"
            )
        for part in ("home/tmp", "home/assaymark"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        fetched = self._step(job, fetch_step(board, row, self._host.folders, folder / "home" / "models"), folder)
        store = folder / "run.sqlite"
        step = evaluate_step(board, row, fetched, store, self._host.limit)
        made = self._step(job, step, folder, readable=self._readable(board, fetched))
        run_ids = self._copy(store, made["runs"])
        verdict = self._verdict(job, row, run_ids)
        self._queue.finish(job, run_ids[0], verdict)
        return f": {verdict[1]}" if verdict else ""

    def _readable(self, board: Board, fetched: Mapping[str, Any]) -> list[Path]:
        found = [Path(place) for place in (fetched["model"], fetched["base"]) if place]
        found += [path.resolve() for path in found]
        data = settings.data_folder()
        found += [data.resolve()] if data is not None else []
        found += [path.parent for path in board.task_files]
        found += [board.suite.source] if board.suite is not None and board.suite.source is not None else []
        return found

    def _step(
        self, job: JobRow, spec: Mapping[str, Any], folder: Path, readable: Sequence[Path] | None = None
    ) -> Mapping[str, Any]:
        """Run a step while the job's lease is renewed. Raises: _Failed; LeaseLost."""
        has_network = readable is None
        stage = "fetching" if has_network else "loading"
        state: dict[str, Any] = {"progress": Progress(stage=stage), "renewed": time.monotonic(), "stored": None}

        def heard(said: Mapping[str, Any]) -> None:
            if "stage" in said:
                done, total = int(said.get("done", 0)), int(said.get("total", 0))
                state["progress"] = Progress(done, total, str(said["stage"]))
            self._keep(job, state)

        ended = run_step(
            spec,
            folder,
            settings.environment_of_job(folder / "home", network=has_network),
            heard,
            seconds=self._host.job_seconds,
            sandbox=None if has_network else self._sandbox,
            readable=readable or (),
        )
        if ended.made is None:
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

    def _copy(self, path: Path, run_ids: Sequence[str]) -> list[str]:
        with Store.open(str(path)) as source:
            return [copy_run(source, self._store, run_id)[0] for run_id in run_ids]

    def _verdict(self, job: JobRow, row: SubmissionRow, run_ids: Sequence[str]) -> tuple[bool, str] | None:
        if job.kind != "reproduce" or row.new.reported_run is None:
            return None
        measured = [one for run_id in run_ids for one in self._store.estimates(run_id)]
        return verdict_of(self._store.estimates(row.new.reported_run), measured)
