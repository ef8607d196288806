"""One run, one writer: leases taken, renewed, lost and taken over, with real processes on both databases."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from assaymark import settings
from assaymark.errors import LeaseLost, RunBusy, UsageError
from assaymark.store import Store, leases
from assaymark.store.schema import outputs
from tests.store import examples

ROOT = Path(__file__).parents[2]
N = 60

WRITER = """
import sys, time
from assaymark.errors import StoreError
from assaymark.store import Store
from tests.store import examples
url, n_samples = sys.argv[1], int(sys.argv[2])
try:
    with Store.open(url) as store:
        run = store.open_run(examples.plan(n_samples=n_samples), facts={})
        asked = examples.requests(n_samples=n_samples)
        store.add_requests(run.run_id, asked, examples.samples(n_samples=n_samples))
        for request in store.unanswered(run.run_id, asked):
            store.add(run.run_id, run.attempt_id, examples.outputs_for(request))
            store.add_scores(run.run_id, examples.scores_for(request), examples.SCORING)
            print(request.sample_index, flush=True)
            time.sleep(0.03)
        store.close_run(run.run_id, run.attempt_id, "finished")
except StoreError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""

HELD_TRANSACTION = """
import os, signal, sys
from assaymark.store import Store, connection
from tests.store import examples
connection.IDLE_SECONDS = 1.0
store = Store.open(sys.argv[1])
run = store.open_run(examples.plan(), facts={})
with store._database.writing() as transaction:
    store._leases.check(transaction, run.run_id, 1)
    print("locked", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def start(url: str, lease_seconds: float, program: str = WRITER) -> "subprocess.Popen[str]":
    """Start a process that writes a run under a lease of this length."""
    environment = {**os.environ, "ASSAYMARK_LEASE_SECONDS": str(lease_seconds)}
    command = [sys.executable, "-c", program, url, str(N)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, env=environment)


def read_lines(process: "subprocess.Popen[str]", n: int) -> None:
    """Wait until a process has written so many lines."""
    assert process.stdout is not None
    for _ in range(n):
        assert process.stdout.readline(), process.communicate()[1]


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


def by_attempt(store: Store) -> dict[int, int]:
    """Return how many outputs each attempt has in the store."""
    results: dict[int, int] = {}
    with store._database.reading() as connection:
        for (attempt,) in connection.execute(select(outputs.c.attempt)):
            results[attempt] = results.get(attempt, 0) + 1
    return results


def answer(store: Store, attempt_id: int, run_id: str, n: int) -> int:
    """Store outputs of the first `n` unanswered requests; return how many were unanswered."""
    left = store.unanswered(run_id, examples.requests(n_samples=N))
    for request in left[:n]:
        store.add(run_id, attempt_id, examples.outputs_for(request))
        store.add_scores(run_id, examples.scores_for(request), examples.SCORING)
    store.flush()
    return len(left)


def holds_lock(url: str) -> bool:
    """Return whether a process is writing a SQLite store."""
    if "://" in url:
        return False
    try:
        with closing(sqlite3.connect(url, timeout=0.2, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    return False


def suspend(process: "subprocess.Popen[str]") -> None:
    """Stop a process and wait until all its threads have stopped, which they do one by one."""
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


@pytest.fixture
def suspended(url: str) -> Iterator["subprocess.Popen[str]"]:
    """Return a process that was suspended while it wrote a run; it is killed at the end."""
    process = start(url, lease_seconds=1)
    read_lines(process, 20)
    suspend(process)
    while holds_lock(url):  # between two transactions, or a file's other writers would wait for it in vain
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.02)
        suspend(process)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("has_ended", [False, True], ids=["while the other writes", "after the other ended"])
def test_a_suspended_writer_is_taken_over_and_stops(
    url: str, suspended: "subprocess.Popen[str]", has_ended: bool
) -> None:
    """A writer that was suspended past its lease and taken over stores nothing more: no duplicates, no losses."""
    with Store.open(url) as store:
        until(lambda: store.writer(examples.plan(n_samples=N)) is None)
        run = store.open_run(examples.plan(n_samples=N), facts={})
        store.add_requests(run.run_id, examples.requests(n_samples=N), examples.samples(n_samples=N))
        before = by_attempt(store)[1]
        n_left = answer(store, run.attempt_id, run.run_id, N if has_ended else 5)
        assert n_left == N - before // 4
        if has_ended:
            store.close_run(run.run_id, run.attempt_id, "finished")
        os.kill(suspended.pid, signal.SIGCONT)
        _, errors = suspended.communicate(timeout=30)
        assert suspended.returncode == 4, errors
        assert f"taken over by process {os.getpid()}" in errors or (has_ended and "taken over by another" in errors)
        if not has_ended:
            answer(store, run.attempt_id, run.run_id, N)
            store.close_run(run.run_id, run.attempt_id, "finished")
        assert by_attempt(store) == {1: before, 2: 4 * N - before}
        assert store.verify() == []
        results = [list(record.outputs) for record in store.samples(run.run_id, "letters")]
        assert results == [examples.outputs_for(request) for request in examples.requests(n_samples=N)]
        assert [attempt.status for attempt in store.attempts(run.run_id)] == ["interrupted", "finished"]


def test_a_suspended_writer_that_nobody_replaced_continues(suspended: "subprocess.Popen[str]", url: str) -> None:
    """An expired lease that nobody took still belongs to its holder: a laptop that slept finishes its run."""
    with Store.open(url) as store:
        until(lambda: store.writer(examples.plan(n_samples=N)) is None)
        os.kill(suspended.pid, signal.SIGCONT)
        _, errors = suspended.communicate(timeout=30)
        assert suspended.returncode == 0, errors
        assert store.run("last").status == "finished"
        assert by_attempt(store) == {1: 4 * N}


def test_a_killed_writer_is_not_waited_for(url: str) -> None:
    """A killed process of this machine is known to have ended at once, however long its lease."""
    process = start(url, lease_seconds=600)
    read_lines(process, 5)
    plan = examples.plan(n_samples=N)
    with Store.open(url) as store:
        writer = store.writer(plan)
        assert writer is not None
        assert writer.process_id == process.pid
        process.kill()
        process.communicate()
        assert store.writer(plan) is None
        assert store.run("last").status == "interrupted"
        assert store.open_run(plan, facts={}).n_attempts == 2


def test_a_second_writer_is_refused_and_named(url: str) -> None:
    """The error has the process, host and time of the writer; the run is not changed."""
    with Store.open(url) as first, Store.open(url) as second:
        run = first.open_run(examples.plan(), facts={})
        with pytest.raises(
            RunBusy, match=rf"by process {os.getpid()} on \S+ since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        ):
            second.open_run(examples.plan(), facts={})
        with pytest.raises(RunBusy):
            second.add_requests(run.run_id, examples.requests(), examples.samples())
        assert len(first.attempts(run.run_id)) == 1
        first.close_run(run.run_id, run.attempt_id, "incomplete")
        assert second.open_run(examples.plan(), facts={}).n_attempts == 2


def test_a_complete_run_is_opened_by_several(url: str) -> None:
    """Reading a complete run needs no lease; rescoring needs one, and two cannot rescore at once."""
    with Store.open(url) as first, Store.open(url) as second:
        examples.fill(first, examples.plan())
        looked = [store.open_run(examples.plan(), facts={}) for store in (first, second)]
        assert all(run.is_complete for run in looked)
        first.open_run(examples.plan(), facts={}, rescoring=True)
        with pytest.raises(RunBusy):
            second.open_run(examples.plan(), facts={}, rescoring=True)
        second.close_run(looked[1].run_id, looked[1].attempt_id, "finished")
        assert first.verify() == []


def test_a_lease_is_renewed_while_nothing_is_written(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of the model may take minutes; the lease of its run is renewed meanwhile."""
    monkeypatch.setenv("ASSAYMARK_LEASE_SECONDS", "1")
    with Store.open(url) as store, Store.open(url, read_only=True) as other:
        store.open_run(examples.plan(), facts={})
        deadline = time.monotonic() + 2.5
        while time.monotonic() < deadline:
            assert other.writer(examples.plan()) is not None
            time.sleep(0.1)
        store.close()
        assert other.writer(examples.plan()) is None


def test_one_lost_run_does_not_take_others_with_it(url: str) -> None:
    """If a store writes two runs and one is taken over, the other is stored completely."""
    with Store.open(url) as store, Store.open(url) as other:
        runs = [store.open_run(examples.plan(content=content), facts={}) for content in "ab"]
        for run in runs:
            store.add_requests(run.run_id, examples.requests(), examples.samples())
        leases._renewed_here.discard(store._leases._held[runs[0].run_id].token)  # as if it were not renewed any more
        taken = other.open_run(examples.plan(content="a"), facts={})
        for run, content in zip(runs, "ab", strict=True):
            store.add(run.run_id, run.attempt_id, examples.outputs_for(examples.requests()[0], content))
        with pytest.raises(LeaseLost, match="taken over"):
            store.flush()
        with pytest.raises(LeaseLost):
            store.add(runs[0].run_id, 1, [])
        with pytest.raises(LeaseLost):
            store.close_run(runs[0].run_id, 1, "finished")
        store.close_run(runs[1].run_id, runs[1].attempt_id, "incomplete")
        assert [store.run(run.run_id).n_outputs for run in runs] == [0, 4]
        other.close_run(taken.run_id, taken.attempt_id, "incomplete")


def test_a_server_ends_the_transaction_of_a_suspended_writer(postgres_url: str) -> None:
    """A process that is suspended inside a transaction keeps the run's lock no longer than the limit for idle ones."""
    process = start(postgres_url, lease_seconds=1, program=HELD_TRANSACTION)
    read_lines(process, 1)
    try:
        with Store.open(postgres_url) as store:
            until(lambda: store.writer(examples.plan()) is None)
            assert store.open_run(examples.plan(), facts={}).n_attempts == 2
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("value", ["0", "soon", "inf", "-5"])
def test_an_invalid_lease_setting_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting is a number of seconds from 1; the error for anything else states what was expected."""
    monkeypatch.setenv("ASSAYMARK_LEASE_SECONDS", value)
    with pytest.raises(UsageError, match=f"ASSAYMARK_LEASE_SECONDS is '{value}'; expected a number of seconds from 1"):
        settings.lease_seconds()


class LateThread(threading.Thread):
    """A thread that starts late, as on a busy machine."""

    def run(self) -> None:
        """Run after half a second."""
        time.sleep(0.5)
        super().run()


def test_closing_does_not_wait_for_the_next_renewal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends before the renewing thread is waiting lets the store close at once."""
    with Store.open(str(path)) as store:
        monkeypatch.setattr(threading, "Thread", LateThread)
        run = store.open_run(examples.plan(), facts={})
        store.close_run(run.run_id, run.attempt_id, "interrupted")
        started = time.monotonic()
    assert time.monotonic() - started < 5  # the next renewal would be due after 20 s
