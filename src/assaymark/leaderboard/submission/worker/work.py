"""A worker: takes a job, fetches, evaluates, checks, stores the run, and reports the outcome.

The folder of a job has one folder for each step, and the step's process may write nowhere else:

- `fetch`: the model and the data sets, written by our own code alone, and only read by the later steps;
- `evaluate-N`, of the attempt N: a store with the answers, written by the process that reads the model;
- `check`: a store with the job's runs from it, which is copied into the shared store.

So no step needs the address of the shared store, and no step with more rights uses a file that a submission can write.
The folder is kept until the job has ended: a worker that takes over a killed one's job on this machine (or with
the same --work_dir) resumes there, and no stored response is computed again.

A step's process gets only typed values of the submission and of the host. The public log is the end of the whole one,
without tokens, passwords and folders of this machine. For a job with a sealed task, only the host sees the log and the
reasons that the process gave, since both may quote a row.
"""

import re
import shutil
import subprocess
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from assaymark import settings
from assaymark.errors import AssaymarkError, DataError, LeaseLost, StoreError, UsageError
from assaymark.interop.one_file import copy_run
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.own_rows import PLAIN_TEXT
from assaymark.leaderboard.screening import rivals_of, screened_tasks
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.submission.checks import verdict_of
from assaymark.leaderboard.submission.choices import CHAT_TEMPLATE
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobProgress, JobRow, SubmissionRow
from assaymark.leaderboard.submission.sources import MOST_BYTES
from assaymark.leaderboard.submission.worker.job_steps import (
    CheckStep,
    EvaluateStep,
    JobStep,
    ScreeningSpec,
    evaluate_step,
    fetch_step,
    parts_of,
)
from assaymark.leaderboard.submission.worker.messages import Checked, Evaluated, Fetched, Message, Stage
from assaymark.leaderboard.submission.worker.process import StepEnd, StepPlace, run_step
from assaymark.leaderboard.submission.worker.results import STORE, keep_store, take_results
from assaymark.limits.bubblewrap import find_bubblewrap
from assaymark.limits.resources import Resources, memory_here
from assaymark.results.evidence.task_facts import tasks_from
from assaymark.store import RunRow, Store
from assaymark.store.liveness import Owner
from assaymark.store.sealed_tasks import SealedTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.files_read import files_read
from assaymark.tasks.task_index import copy_package_indexes

LONGEST_TAIL = 6000  # characters
LONGEST_READ = 200_000
HIDDEN = "(hidden)"
SHORTEST = 6  # characters of a secret that is looked for
_TOKENS = re.compile(
    r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|xox[abprs]-|AKIA|glpat-|eyJ)[A-Za-z0-9_.\-]{8,}"
    r"|(?i:\b(?:bearer|basic)\s+)[A-Za-z0-9+/_.=\-]{8,}"
)
# A log is written by whoever controls the process: each expression begins only where a run of its characters does, and
# is possessive, so that it takes time in proportion to the text.
_NAMED = re.compile(
    r"(?i)(?<![\w-])(?=[\w-]*?(?:token(?!i[sz])|secret|passw(?:or)?d|api[_-]?key|credential))"
    r"([\w-]++)(['\"]?\s*+[=:]\s*+['\"]?)([^\s'\",;}]++)"
)
_IN_URL = re.compile(r"(?<=://)[^\s/@'\"]+@")
_FOLDERS = re.compile(r"(?<![\w:/.])(?:~[\w.-]*)?/(?:[^\s'\"`,;:<>()\[\]{}|/\\]+/)+")
_UNPRINTABLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|(?<![^\S\n])[^\S\n]*\r|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def log_tail(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the end of a log without secrets and folders. `secrets` are hidden wherever they occur in full."""
    text = text[-LONGEST_READ:]
    for secret in sorted({value for value in secrets if len(value) >= SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _UNPRINTABLE.sub("", text)
    text = _NAMED.sub(rf"\1\2{HIDDEN}", _TOKENS.sub(HIDDEN, _IN_URL.sub("", text)))
    text = _FOLDERS.sub("", text)
    return text[-LONGEST_TAIL:].partition("\n")[2] if len(text) > LONGEST_TAIL else text


def sealed_names(board: Board, store: Store) -> set[str]:
    """Return the tasks of a board that are sealed: by its file, by their own files, or in the store."""
    if board.suite is None:
        return set()
    members = {member.task for member in board.suite.members}
    known = {seal.task for seal in store.seals.all() if seal.is_closed}
    names = set(board.private) | (known & members)
    own = Catalog.open([]).select([str(path) for path in board.task_files]).tasks if board.task_files else ()
    return names | {task.name for task in own if task.sealing is not None}


def seal_private(board: Board, row: RunRow, store: Store) -> None:
    """Seal in a store the tasks of a run that its board calls private; all of them where it names a group."""
    is_group = not board.private <= set(row.tasks)
    for task in row.plan.tasks:
        if task.name in board.private or (board.private and is_group):
            store.seals.put_missing(SealedTask(task.name, task.dataset_hash, version=task.version))


SEALED_REASON = "the evaluation failed; a task of the board is sealed, so the reason and the log are with its host"
IDLE_SECONDS = 2.0
FIRST_STAGES: Mapping[type[Message], str] = {Fetched: "fetching", Evaluated: "loading", Checked: "checking"}

Made = TypeVar("Made", Fetched, Evaluated, Checked)


@dataclass(frozen=True, slots=True)
class Host:
    """The settings of a worker's host."""

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

    def __init__(self, ended: StepEnd) -> None:
        super().__init__(ended.reason)
        self.ended = ended


@dataclass(slots=True)
class _LeaseState:
    """A step's progress, and when its job's lease was last renewed (monotonic seconds)."""

    progress: JobProgress
    renewed: float
    stored: JobProgress | None = None


class Worker:
    """Runs jobs one after another."""

    def __init__(self, store: Store, host: Host, say: Callable[[str], None]) -> None:
        """Args: store: shared; host: its settings; say: called with one line for each event."""
        self._store = store
        self._queue = SubmissionQueue(store)
        self._host = host
        self._say = say
        self._owner = Owner.this_process(uuid.uuid4().hex)
        self._sandbox = find_bubblewrap()
        if self._sandbox is None:
            say("bubblewrap is not installed: evaluations run without a sandbox (apt-get install bubblewrap)")

    def work(self, *, once: bool = False, stopped: Callable[[], bool] = lambda: False) -> int:
        """Run jobs until `stopped`; with `once`, until none is waiting. Return the number of jobs."""
        n_done = 0
        while not stopped():
            job = self._queue.claim(self._owner.to_text(), self._host.lease_seconds)
            if job is None:
                self._remove_ended()
                if once:
                    break
                time.sleep(IDLE_SECONDS)
                continue
            self.do(job)
            n_done += 1
        return n_done

    def _remove_ended(self) -> None:
        """Remove the folders of jobs that ended while no worker of this machine had them: given up, or cancelled."""
        folders = {folder.name: folder for folder in self._host.work.glob("*")}
        for job in self._queue.ended(list(folders)):
            _remove(folders[job])

    def do(self, job: JobRow) -> None:
        """Run one claimed job. Whatever it does, this worker continues with the next one."""
        try:
            self._attempt(job)
        except Exception as error:  # noqa: BLE001 - even its failure could not be stored; its lease will expire
            self._say(f"job {job.id}: left to another attempt ({type(error).__name__}: {error})")

    def _attempt(self, job: JobRow) -> None:
        folder = self._host.work / job.id
        try:
            row = self._queue.submission(job.submission)
            again = f", attempt {job.n_attempts}" if job.n_attempts > 1 else ""
            self._say(f"job {job.id}: {job.kind} {row.new.model} for {row.new.board}{again}")
            verdict = self._carry_out(job, row, folder)
        except LeaseLost as error:
            self._say(f"job {job.id}: {error}")
            return
        except _Failed as failed:
            self._fail(job, failed.ended, is_sealed=self._is_sealed(job))
        except KeyboardInterrupt:
            self._queue.release(job)
            self._say(f"job {job.id}: put back")
            raise
        except (AssaymarkError, OSError) as error:
            ended = StepEnd(None, "infrastructure", str(error))
            self._fail(job, ended, is_sealed=self._is_sealed(job))
        except Exception as error:  # noqa: BLE001 - see `do`
            self._say(f"job {job.id}: an error of the worker itself; please report it\n{traceback.format_exc()}")
            ended = StepEnd(None, "infrastructure", f"{type(error).__name__}: {error}")
            self._fail(job, ended, is_sealed=self._is_sealed(job))
        else:
            self._say(f"job {job.id}: finished{verdict}")
        if all(job_row.state not in {"pending", "running"} for job_row in self._queue.jobs_of(job.submission)):
            _remove(folder)

    def _is_sealed(self, job: JobRow) -> bool:
        """Return whether a task of a job is sealed, by its file, the board's, or the store, or cannot be read."""
        try:
            board = self._host.boards.get(self._queue.submission(job.submission).new.board)
            return board is not None and bool(sealed_names(board, self._store))
        except (AssaymarkError, OSError):
            return True

    def _fail(self, job: JobRow, ended: StepEnd, *, is_sealed: bool) -> None:
        secrets = settings.secrets_here()
        reason = " ".join(log_tail(ended.reason[:2000], secrets).split())[:500]
        log = log_tail(ended.log, secrets)
        if is_sealed:
            if log:
                self._say(f"job {job.id}: end of its log, which the submitter does not see\n{log}")
            self._say(f"job {job.id}: the reason, which the submitter does not see: {reason}")
            reason, log = SEALED_REASON, ""
        try:
            failed = self._queue.fail(job, ended.fault, reason, log)
        except LeaseLost as error:
            self._say(f"job {job.id}: {error}")
            return
        whose = {"killed": "infrastructure or submission"}.get(failed.fault or "", failed.fault or "infrastructure")
        again = "; it will be tried again" if failed.state == "pending" else ""
        self._say(f"job {job.id}: failed ({whose}): {failed.reason}{again}")

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
        screening = self._screening(job, board, row)
        evaluate = evaluate_step(board, row, fetched, here / STORE, self._host.limit, screening)
        self._step(job, evaluate, self._place(here, readable=readable), Evaluated)
        run_ids = self._stored(job, board, evaluate, here, readable)
        verdict = self._verdict(job, row, run_ids)
        self._queue.finish(job, run_ids[0], verdict)
        return f": {verdict[1]}" if verdict else ""

    def _screening(self, job: JobRow, board: Board, row: SubmissionRow) -> ScreeningSpec | None:
        """Return the rows among which a submission is ranked, and when it may stop; None: it is evaluated in full.

        Reported results are reproduced in full; so are limited tasks, which have no order that all models share.
        """
        if board.screening is None or job.kind == "reproduce" or self._host.limit is not None:
            return None
        preset = row.new.preset
        setup = "chat template" if preset == CHAT_TEMPLATE else f"preset {preset}" if preset else PLAIN_TEXT
        runs = StoredRuns(self._store, private=board.private)
        rivals = rivals_of(Site([board], runs).table(board), setup, row.new.model)
        if rivals is None:
            self._say(f"job {job.id}: evaluated in full, since the board has too few rows to rank it among")
            return None
        return {
            "rivals": rivals.to_spec(),
            "weights": screened_tasks(board),
            "at_least": board.screening.at_least,
            "seed": board.screening.seed,
        }

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

    def _place(self, folder: Path, *, has_network: bool = False, readable: Sequence[Path] = ()) -> StepPlace:
        return StepPlace(
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
        files = [path for names, _ in parts_of(board) for path in files_read(names)]
        return list(dict.fromkeys([*readable, *(each for path in files for each in (path, path.resolve()))]))

    def _step(self, job: JobRow, spec: JobStep, place: StepPlace, expected: type[Made]) -> Made:
        """Run a step while the job's lease is renewed. Raises: _Failed; LeaseLost."""
        lease = _LeaseState(JobProgress(stage=FIRST_STAGES[expected]), time.monotonic())

        def heard(stage: Stage | None) -> None:
            if stage is not None:
                lease.progress = JobProgress(stage.n_done, stage.n_total, stage.text)
            self._keep(job, lease)

        ended = run_step(spec, place, heard)
        if not isinstance(ended.made, expected):
            raise _Failed(ended)
        return ended.made

    def _keep(self, job: JobRow, lease: "_LeaseState") -> None:
        """Renew the lease where a third of it has passed, or a second after other progress."""
        now = time.monotonic()
        since = now - lease.renewed
        is_new = lease.progress != lease.stored and since > 1
        if not is_new and since < self._host.lease_seconds / 3:
            return
        try:
            self._queue.renew(job, self._host.lease_seconds, lease.progress)
        except LeaseLost:
            raise
        except StoreError:  # a database that is away for a moment; there is time until the lease expires
            if since > self._host.lease_seconds:
                raise
            return
        lease.renewed, lease.stored = now, lease.progress

    def _stored(
        self, job: JobRow, board: Board, evaluate: EvaluateStep, here: Path, readable: Sequence[Path]
    ) -> list[str]:
        """Store the job's runs from an evaluation's results; return their ids."""
        folder = here.parent / "check"
        _remove(folder)
        _step_folder(folder, data=here.parent / "fetch")
        copied = here.parent / f"results-{job.epoch}.sqlite"
        copied.unlink(missing_ok=True)
        try:
            take_results(here, copied, self._host.most_results)
        except DataError as error:
            raise _Failed(StepEnd(None, "submission", str(error))) from error
        place = self._place(folder, readable=[*readable, copied])
        check: CheckStep = {**evaluate, "step": "check", "results": str(copied), "store": str(folder / STORE)}
        checked = self._step(job, check, place, Checked)
        with Store.open(str(folder / STORE)) as source:
            for run_id in checked.runs:
                seal_private(board, source.run(run_id), self._store)  # before the first row of the run is there
            return [copy_run(source, self._store, run_id)[0] for run_id in checked.runs]

    def _verdict(self, job: JobRow, row: SubmissionRow, run_ids: Sequence[str]) -> tuple[bool, str] | None:
        if job.kind != "reproduce" or row.new.reported_run is None:
            return None
        measured = [estimate for run_id in run_ids for estimate in self._store.estimates(run_id)]
        theirs, ours = self._versions([row.new.reported_run]), self._versions(run_ids)
        return verdict_of(self._store.estimates(row.new.reported_run), measured, theirs, ours)

    def _versions(self, run_ids: Sequence[str]) -> dict[str, str]:
        rows = [self._store.run(run_id) for run_id in run_ids]
        return {task.name: task.version for row in rows for task in tasks_from(row.extra) if task.version != "N/A"}


def _step_folder(folder: Path, *, data: Path | None = None) -> Path:
    """Return the folder of a step, with its home, its working directory, the index of tasks and the fetched data sets.

    The index is this worker's own each time, never one that an evaluation could write.
    """
    for part in ("home/tmp", "home/assaymark", "cwd"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    Catalog.open()  # a board of files alone needs no index here, but in the step
    copy_package_indexes(folder / "home" / "assaymark" / "cache")
    if data is not None and (data / "home" / "hf").is_dir():
        shutil.copytree(data / "home" / "hf", folder / "home" / "hf", symlinks=True)
    return folder


def _remove(folder: Path) -> None:
    """Remove a folder that an evaluation wrote: of any depth, and with folders that deny access to their owner.

    `shutil.rmtree` is recursive, and would crash this process at some thousand nested folders.
    """
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], capture_output=True, check=False)
