"""The queue under load: submitters, and workers that die at random, on a real database.

python benchmarks/queue_speed.py [--submissions 10000] [--submitters 1000] [--workers 20] [--store URL]

Workers are processes; a share of the jobs kills its worker (`os._exit`, before the job has ended), and another process
takes its place. Without --store a PostgreSQL server is started in a temporary folder, where one is installed. Printed:
submissions and jobs per second, a line for each tenth of the jobs (growth), how long a claim takes, and the checks: no
job lost, none done twice, none starved. Exit status 1 if one of them fails.

The evaluation itself is left out: a job is claimed, renewed and finished. A job that lost its worker waits for its
lease to expire, as it does where the worker was on another machine.
"""

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark.leaderboard.submission.queue import SubmissionQueue

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from assaymark.errors import LeaseLost
from assaymark.leaderboard.submission.queue import MOST_ADVANCE
from assaymark.leaderboard.submission.queue_rows import JobProgress, NewSubmission
from assaymark.store import Store
from assaymark.store.liveness import Owner

LEASE_SECONDS = 3.0
DEATHS = 0.02  # of jobs
IDLE_SECONDS = 0.5  # a worker really waits two seconds


@dataclass(frozen=True)
class Load:
    """One simulation."""

    store: str
    n_submissions: int
    n_submitters: int
    n_workers: int
    deaths: float = DEATHS
    seed: int = 1


@dataclass(frozen=True)
class Found:
    """What a simulation found."""

    submit_seconds: float
    work_seconds: float
    claim_ms: list[float]  # of each job that was finished, in the order of the end
    ended_at: list[float]  # seconds after the first one
    n_lost: int
    n_twice: int
    n_deaths: int
    n_retried: int
    worst_overtaking: float  # turns by which a job of a later turn began before one of an earlier turn

    @property
    def is_right(self) -> bool:
        """Whether no job was lost, done twice or starved."""
        return not self.n_lost and not self.n_twice and self.worst_overtaking <= MOST_ADVANCE


def simulate(load: Load) -> Found:
    """Submit everything and let workers do it; they begin when half of the submissions are in."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        started = time.monotonic()
        with Store.open(load.store):
            pass  # creates the tables once
        submitting = [multiprocessing.Process(target=_submit, args=(load, part, 4)) for part in range(4)]
        for process in submitting:
            process.start()
        n_deaths, submit_seconds = _supervise(load, log, submitting, started)
        work_seconds = time.monotonic() - started
        lines = [line.split() for path in Path(folder).glob("log*") for line in path.read_text().splitlines()]
    ended = sorted((float(at), job, float(ms)) for job, at, ms in lines)
    counted = Counter(job for _, job, _ in ended)
    with Store.open(load.store) as store:
        states = SubmissionQueue(store).counts().by_state
        jobs = SubmissionQueue(store).jobs_in("finished", limit=load.n_submissions)
    return Found(
        submit_seconds=submit_seconds,
        work_seconds=work_seconds,
        claim_ms=[ms for _, _, ms in ended],
        ended_at=[at - ended[0][0] for at, _, _ in ended],
        n_lost=load.n_submissions - states["finished"],
        n_twice=sum(n - 1 for n in counted.values()),
        n_deaths=n_deaths,
        n_retried=sum(job.n_attempts > 1 for job in jobs),
        worst_overtaking=_overtaking(jobs),
    )


def _submit(load: Load, part: int, n_parts: int) -> None:
    """Submit a part of the models: a few submitters have many, most have few; some get votes."""
    draw = random.Random(load.seed * 100 + part)
    with Store.open(load.store) as store:
        for number in range(part, load.n_submissions, n_parts):
            # each submitter has one model, the rest belong to a few
            often = min(load.n_submitters - 1, int(draw.paretovariate(0.6)) - 1)
            submitter = f"s{number if number < load.n_submitters else often}"
            new = NewSubmission(
                submitter, "board", f"{submitter}/m{number}", "0" * 40, "hub", f"sha256:{number}", "float32"
            )
            submission = SubmissionQueue(store).submit(new)
            if draw.random() < 0.05:
                for voter in range(draw.randrange(1, 40)):
                    try:
                        SubmissionQueue(store).vote(submission, f"v{voter}")
                    except Exception:  # noqa: BLE001 - it began meanwhile
                        break


def _supervise(load: Load, log: Path, submitting: list[Any], started: float) -> tuple[int, float]:
    """Keep the workers running until nothing is left; return how many died, and when the last submission came."""
    n_started = n_deaths = 0
    submit_seconds, is_begun = 0.0, False
    workers: list[Any] = []
    with Store.open(load.store) as store:
        while True:
            n_deaths += sum(worker.exitcode == 1 for worker in workers)
            workers = [each for each in workers if each.is_alive()]
            if not submit_seconds and not any(item.is_alive() for item in submitting):
                submit_seconds = time.monotonic() - started
            if submit_seconds:
                counts = SubmissionQueue(store).counts().by_state
                if not counts["pending"] and not counts["running"]:
                    break
            is_begun = is_begun or sum(SubmissionQueue(store).counts().by_state.values()) >= load.n_submissions / 2
            while is_begun and len(workers) < load.n_workers:
                n_started += 1
                words = (load, n_started, f"{log}{n_started}")
                workers.append(multiprocessing.Process(target=_work, args=words))
                workers[-1].start()
            time.sleep(0.1)
    for one in workers:
        one.terminate()
        one.join()
    return n_deaths, submit_seconds


def _work(load: Load, number: int, log: str) -> None:
    """Do jobs until killed; some jobs end this process."""
    draw = random.Random(load.seed * 10_000 + number)
    owner = Owner(f"machine{number}", number, "another boot", None, str(number)).to_text()  # nobody here can see it die
    with Store.open(load.store) as store, Path(log).open("a") as file:
        while True:
            before = time.perf_counter()
            job = SubmissionQueue(store).claim(owner, LEASE_SECONDS)
            took_ms = 1000 * (time.perf_counter() - before)
            if job is None:
                time.sleep(IDLE_SECONDS)
                continue
            if draw.random() < load.deaths:
                os._exit(1)
            try:
                if draw.random() < 0.2:
                    SubmissionQueue(store).renew(job, LEASE_SECONDS, JobProgress(1, 2, "evaluating"))
                SubmissionQueue(store).finish(job, f"run {job.id}")
            except LeaseLost:
                continue
            file.write(f"{job.id} {time.time()} {took_ms}\n")
            file.flush()


def _overtaking(jobs: list[Any]) -> float:
    """Return by how many turns, at most, a job that came later in the order began before one that waited already."""
    worst, in_order = 0.0, sorted(jobs, key=lambda job: job.first_started)
    highest: list[tuple[float, Any]] = []  # of those that began, the one with the latest turn
    for job in in_order:
        late = [turn - job.turn for created, turn in highest if created > job.created]
        worst = max([worst, *late])
        highest = sorted([*highest, (job.created, job.turn)], key=lambda one: -one[1])[:50]
    return worst


@contextmanager
def temporary_server() -> Iterator[str]:
    """Start PostgreSQL as the tests do; yield the URL of an empty database."""
    from tests.store import conftest

    server = conftest.postgres_server.__wrapped__()  # type: ignore[attr-defined]
    folder = next(server)
    try:
        import psycopg

        with psycopg.connect(host=folder, user="postgres", dbname="postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE queue")
        yield f"postgresql://postgres@/queue?host={folder}"
    finally:
        next(server, None)


def report(load: Load, found: Found) -> None:
    """Print the figures."""
    n = len(found.ended_at)
    print(f"{load.n_submissions:,} submissions by {load.n_submitters:,} submitters, {load.n_workers} workers")
    print(f"submitted in {found.submit_seconds:.1f} s: {load.n_submissions / found.submit_seconds:,.0f} per second")
    print(f"all done after {found.work_seconds:.1f} s: {n / found.work_seconds:,.0f} jobs per second")
    print(f"{found.n_deaths:,} workers died; {found.n_retried:,} jobs needed more than one attempt")
    print("jobs done   per second   claim, median ms")
    tenths = []
    for part in range(10):
        low, high = n * part // 10, n * (part + 1) // 10 - 1
        seconds = max(1e-9, found.ended_at[high] - found.ended_at[low])
        tenths.append((high + 1, (high - low) / seconds, sorted(found.claim_ms[low : high + 1])[(high - low) // 2]))
    fastest = max(rate for _, rate, _ in tenths)
    for done, rate, middle in tenths:
        print(f"{done:9,}   {rate:10,.0f}   {middle:16.2f}   {'█' * round(30 * rate / fastest)}")
    print(f"lost {found.n_lost}, done twice {found.n_twice}, overtaken by at most {found.worst_overtaking:.1f} turns "
          f"(allowed {MOST_ADVANCE:.0f}): {'right' if found.is_right else 'WRONG'}")  # fmt: skip


def main() -> int:
    """Run the simulation; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--submissions", type=int, default=10_000)
    parser.add_argument("--submitters", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--store")
    inputs = parser.parse_args()
    numbers = (inputs.submissions, inputs.submitters, inputs.workers)
    if inputs.store:
        result = simulate(Load(inputs.store, *numbers))
        report(Load(inputs.store, *numbers), result)
    else:
        with temporary_server() as url:
            result = simulate(Load(url, *numbers))
            report(Load(url, *numbers), result)
    return 0 if result.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
