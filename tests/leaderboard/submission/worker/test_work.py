"""Jobs done by real workers: finished, failed with a reason, resumed after a kill, cancelled, verified."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.leaderboard.submission.checks import verdict_of
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobRow
from assaymark.leaderboard.submission.worker.work import SEALED_REASON, Host, Worker
from assaymark.store import Store
from assaymark.store.public_store import public_store
from tests.leaderboard.submission.test_queue import make_due
from tests.leaderboard.submission.worker.conftest import resume

pytestmark = pytest.mark.slow


def job_of(store: Store, submission: str) -> JobRow:
    """Return the job of a submission."""
    return SubmissionQueue(store).jobs_of(submission)[-1]


def work_until_ended(store: Store, host: Host, submission: str, say: Callable[[str], None] = print) -> JobRow:
    """Work on a job; once more, without the pause, where the machine ended its process (memory, threads)."""
    Worker(store, host, say).work(once=True)
    job = job_of(store, submission)
    if (job.state, job.fault) == ("pending", "killed"):
        say(f"{job.reason}\n{job.log_tail}")
        make_due(store)
        Worker(store, host, say).work(once=True)
        job = job_of(store, submission)
    return job


def test_a_job_becomes_a_run_of_the_shared_store(store: Store, host: Host, submit: Callable[..., str]) -> None:
    """The run is complete, has the submission's precision, and the job's folder is gone."""
    submission = submit("demo/small", precision="bfloat16")
    said: list[str] = []
    assert Worker(store, host, said.append).work(once=True) == 1
    job = job_of(store, submission)
    assert (job.state, job.n_attempts, job.fault) == ("finished", 1, None), said
    row = store.run(job.run_id or "")
    assert (row.status, row.plan.model.dtype, row.tasks) == ("finished", "bfloat16", ("demo_facts",))
    assert len(store.estimates(row.run_id)) >= 1
    assert store.verify() == []
    assert list(host.work.iterdir()) == []


def test_a_damaged_model_fails_with_a_reason_and_without_secrets(
    store: Store, host: Host, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose fault it is, why, and a log tail without folders and tokens; it is not tried again."""
    monkeypatch.setenv("HF_TOKEN", "hf_ofthehostitself123")
    submission = submit("demo/damaged")
    job = work_until_ended(store, host, submission)
    assert (job.state, job.fault) == ("failed", "submission"), (job.reason, job.log_tail)
    assert "a weights file is truncated or damaged" in (job.reason or "")
    result = f"{job.reason} {job.log_tail}"
    assert str(host.work.parent) not in result
    assert "hf_ofthehost" not in result


def test_a_sealed_jobs_reason_and_log_are_the_hosts(store: Store, host: Host, submit: Callable[..., str]) -> None:
    """A submitter to a board with a sealed task sees neither the log nor a reason that quotes a row; the host does."""
    board = host.boards["demo"]
    sealed = replace(host, boards={"demo": replace(board, private=frozenset({"demo_facts"}))})
    submission = submit("demo/damaged")
    said: list[str] = []
    job = work_until_ended(store, sealed, submission, said.append)
    assert (job.state, job.fault) == ("failed", "submission"), (job.reason, job.log_tail)
    assert job.reason == SEALED_REASON
    assert not job.log_tail
    assert any("a weights file is truncated or damaged" in line for line in said)


def test_a_private_boards_runs_are_sealed(store: Store, placed: Host, submit_small: Callable[[], str]) -> None:
    """What a worker stores for a private board is withheld in the shared store from its first row."""
    board = placed.boards["demo"]
    submission = submit_small()
    resume(placed, "job")
    sealed = replace(placed, boards={"demo": replace(board, private=frozenset({"demo_facts"}))})
    Worker(store, sealed, lambda _: None).work(once=True)
    run_id = job_of(store, submission).run_id or ""
    records = list(public_store(store).samples(run_id, "demo_facts"))
    assert len(records) == 20
    assert all(record.is_withheld for record in records)


def test_a_board_that_the_worker_does_not_know_is_our_fault(store: Store, host: Host, submit: Any) -> None:
    """The job goes back to the queue with the remedy, for a worker that has the board."""
    submission = submit("demo/small")
    Worker(store, replace(host, boards={"other": next(iter(host.boards.values()))}), lambda _: None).work(once=True)
    job = job_of(store, submission)
    assert (job.state, job.fault) == ("pending", "infrastructure")
    assert "this worker has no board 'demo'" in (job.reason or "")


def test_a_changed_model_is_not_evaluated(store: Store, host: Host, submit: Callable[..., str]) -> None:
    """A folder whose content changed after the submission is another model."""
    submission = submit("demo/small")
    config = Path(host.folders[0]) / "demo" / "small" / "config.json"
    config.write_text(config.read_text().replace("1024", "512"))
    Worker(store, host, lambda _: None).work(once=True)
    job = job_of(store, submission)
    assert (job.state, job.fault) == ("failed", "submission"), (job.reason, job.log_tail)
    assert "it was changed" in (job.reason or "")


WHOLE = """
import sys
from pathlib import Path
from assaymark.leaderboard.submission.host import boards_of
from assaymark.store import Store
from assaymark.leaderboard.submission.worker.work import SEALED_REASON, Host, Worker
folder = Path(sys.argv[1])
host = Host(boards_of([str(folder / "board.yaml")]), [folder / "models"], folder / "work", lease_seconds=20)
with Store.open(str(folder / "store.sqlite")) as store:
    Worker(store, host, print).work(once=True)
"""


def test_a_killed_workers_job_is_resumed(store: Store, host: Host, submit: Callable[..., str], tmp_path: Path) -> None:
    """After kill -9 another worker goes on: the responses stored by the first are not computed again."""
    (tmp_path / "board.yaml").write_text("title: Demo\nname: demo\ntasks: [demo_facts, demo_sums, demo_orders]\n")
    submission = submit("demo/large")
    worker = subprocess.Popen([sys.executable, "-c", WHOLE, str(tmp_path)], stdout=subprocess.DEVNULL)
    n_before = wait_for_outputs(host)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert job_of(store, submission).state == "running"
    (own,) = host.work.glob("*/*/run.sqlite")
    os.link(own, tmp_path / "kept.sqlite")  # the job's own store outlives its folder
    subprocess.run([sys.executable, "-c", WHOLE, str(tmp_path)], stdout=subprocess.DEVNULL, check=True)
    job = job_of(store, submission)
    assert (job.state, job.n_attempts) == ("finished", 2)
    connection = sqlite3.connect(tmp_path / "kept.sqlite")
    by_attempt = dict(connection.execute("SELECT attempt, count(*) FROM outputs GROUP BY attempt").fetchall())
    connection.close()
    assert by_attempt[1] >= n_before > 0
    assert by_attempt[1] + by_attempt.get(2, 0) == store.run(job.run_id or "").n_outputs


def wait_for_outputs(host: Host) -> int:
    """Return how many outputs are stored in a job's own store, as soon as there are some and not all."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for place in host.work.glob("*/*/run.sqlite"):
            try:
                with Store.open(str(place), read_only=True) as own:
                    results = [row.n_outputs for row in own.runs()]
            except Exception:  # noqa: BLE001 - it is being created
                continue
            if results and results[0] > 0:
                return results[0]
        time.sleep(0.05)
    raise AssertionError("nothing was evaluated")


def test_a_cancelled_job_ends_its_process(store: Store, host: Host, submit: Callable[..., str]) -> None:
    """Cancelling ends the evaluation within a few seconds, and stores no run."""
    submission = submit("demo/large")
    worker = Worker(store, replace(host, limit=None, lease_seconds=3), lambda _: None)
    thread = threading.Thread(target=worker.work, kwargs={"once": True})
    thread.start()
    while job_of(store, submission).state != "running":
        time.sleep(0.05)
    assert SubmissionQueue(store).cancel(submission)
    thread.join(30)
    assert not thread.is_alive()
    assert job_of(store, submission).state == "cancelled"
    assert store.runs() == []


def test_reported_results_are_verified_by_measuring(
    store: Store, placed: Host, submit_small: Callable[[], str]
) -> None:
    """Equal numbers are verified; a number outside the measured interval is not, and the verdict says which.

    A submission with reported results is measured and compared.
    """
    submission = submit_small()
    resume(placed, "job")
    Worker(store, placed, lambda _: None).work(once=True)
    (run,) = store.runs()
    measured = store.estimates(run.run_id)
    assert verdict_of(measured, measured)[0]
    inflated = [replace(each, value=1.5) for each in measured]
    is_verified, why = verdict_of(inflated, measured)
    assert not is_verified
    assert "1.5000 reported" in why
    assert verdict_of([replace(item, task="other") for item in measured], measured)[0] is False

    row = SubmissionQueue(store).submission(submission)
    reported: Mapping[str, Any] = {"reported_run": run.run_id, "preset": None, "precision": "float16"}
    again = SubmissionQueue(store).submit(replace(row.new, **reported), kind="reproduce")
    Worker(store, placed, lambda _: None).work(once=True)
    verified = SubmissionQueue(store).submission(again)
    assert verified.is_verified, (verified.verdict, job_of(store, again))
    assert "all" in (verified.verdict or "")
