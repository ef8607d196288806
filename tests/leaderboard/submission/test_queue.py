"""The queue: one worker has a job, order by turns and votes, retries, and races on both databases."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.errors import HashMismatch, LeaseLost, UnknownName, UsageError
from assaymark.leaderboard.queue import Marks, read_marks
from assaymark.leaderboard.submission.queue import CLAIMS, SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobProgress, NewSubmission
from assaymark.leaderboard.submission.tables import jobs, submissions
from assaymark.leaderboard.submission.worker.work import Host, Worker
from assaymark.store import Store
from assaymark.store.liveness import Owner
from assaymark.store.schema import VERSION_TABLE

OTHER = Owner("elsewhere", 1, "another machine", None, "t").to_text()


def new(submitter: str = "ada", model: str = "org/model", **changes: object) -> NewSubmission:
    """Return a submission; its content is its name."""
    made = NewSubmission(submitter, "demo", model, "0" * 40, "hub", f"sha256:{model}", "float32")
    return replace(made, **changes)  # type: ignore[arg-type]


def make_due(store: Store) -> None:
    """Let jobs that wait for another attempt begin now."""
    with store._database.writing() as connection:
        connection.execute(jobs.update().values(not_before=0.0))


def lapse(store: Store) -> None:
    """Let every lease expire."""
    with store._database.writing() as connection:
        connection.execute(jobs.update().values(expires=1.0))


def test_a_job_is_taken_once_and_finished(store: Store) -> None:
    """A submission's job is taken by one worker, reports its progress and ends with its run."""
    submission = SubmissionQueue(store).submit(new())
    job = SubmissionQueue(store).claim(OTHER, 60)
    assert job is not None
    assert SubmissionQueue(store).claim(OTHER, 60) is None
    SubmissionQueue(store).renew(job, 60, JobProgress(3, 10, "evaluating"))
    assert [(each.n_done, each.n_total, each.stage) for each in SubmissionQueue(store).jobs_in("running")] == [
        (3, 10, "evaluating")
    ]
    SubmissionQueue(store).finish(job, "run1")
    (ended,) = SubmissionQueue(store).jobs_of(submission)
    assert (ended.state, ended.run_id, ended.n_attempts) == ("finished", "run1", 1)
    ((row, run_id),) = SubmissionQueue(store).with_results()
    assert (row, run_id) == (SubmissionQueue(store).submission(submission), "run1")


@pytest.mark.parametrize(
    "changed", [{"model": "org/other"}, {"is_verified": 1}, {"is_withdrawn": 0}, {"facts": '{"params": 7}'}]
)
def test_a_changed_row_of_a_submission_is_noticed(store: Store, changed: dict[str, object]) -> None:
    """What the queue itself changes stays as saved; a value changed in the database is refused, listed and marked."""
    queue = SubmissionQueue(store)
    first, second = queue.submit(new()), queue.submit(new("eve", "org/second", reported_run="run2"))
    queue.vote(first, "eve")
    job = queue.claim(OTHER, 60)
    assert job is not None
    queue.finish(job, "run1", (False, "differs"))
    queue.withdraw(second)
    assert queue.relaunch(second)
    queue.withdraw(second)
    assert store.verify() == []
    assert {run: mark.is_hidden for run, mark in read_marks(store, Marks()).runs.items()} == {
        "run1": False,
        "run2": True,
    }
    damaged, run_id, other = (second, "run2", first) if "is_withdrawn" in changed else (first, "run1", second)
    with store._database.writing() as connection:
        connection.execute(submissions.update().where(submissions.c.id == damaged).values(**changed))
    (problem,) = store.verify()
    assert (problem.table, damaged in str(problem)) == ("submissions", True)
    mark = read_marks(store, Marks()).runs[run_id]
    assert (mark.name, "`assaymark verify`" in mark.note) == (f"damaged submission {damaged}", True)
    for refused in (queue.submission, queue.withdraw, queue.relaunch):
        with pytest.raises(HashMismatch, match=f"a row of submissions \\(id {damaged}\\) is not as it was saved"):
            refused(damaged)
    assert queue.submission(other).id == other


def test_submissions_of_earlier_stores_get_their_checksums(store: Store) -> None:
    """The migration computes them from the stored rows."""
    submission = SubmissionQueue(store).submit(new(facts={"params": 7}, preset="plain"))
    before = SubmissionQueue(store).submission(submission)
    with store._database.writing() as connection:
        for table, column in (("submissions", "checksum"), ("trace_rules", "scale")):  # of this revision, and after it
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '0015'")
    with Store.open(store.url) as opened:
        assert opened.verify() == []
        assert SubmissionQueue(opened).submission(submission) == before


def test_the_same_content_is_refused_in_the_same_setup(store: Store) -> None:
    """Weights that are waiting under another name are a duplicate; another precision, or a failure before, is not."""
    first = SubmissionQueue(store).submit(new())
    with pytest.raises(UsageError, match=f"submitted as 'org/model' in this setup \\(submission {first}\\)"):
        SubmissionQueue(store).submit(new("eve", "eve/copy", content_hash="sha256:org/model"))
    SubmissionQueue(store).submit(new("eve", precision="bfloat16"))
    assert SubmissionQueue(store).cancel(first)
    SubmissionQueue(store).submit(new("eve"))
    with pytest.raises(UsageError, match="submitted again as"):
        SubmissionQueue(store).relaunch(first)


def test_a_submitter_with_many_models_does_not_hold_up_another(store: Store) -> None:
    """Turns alternate between submitters, whatever one has submitted before."""
    for number in range(5):
        SubmissionQueue(store).submit(new("many", f"many/{number}"))
    SubmissionQueue(store).submit(new("one", "one/0"))
    order = [SubmissionQueue(store).claim(OTHER, 60) for _ in range(6)]
    assert [job.submitter for job in order if job] == ["many", "one", "many", "many", "many", "many"]


def test_votes_move_a_job_forward_within_a_bound(store: Store) -> None:
    """Votes advance a job by a few turns; a hundred votes do not advance it past everything."""
    for number in range(12):
        last = SubmissionQueue(store).submit(new("many", f"many/{number}"))
    for voter in range(40):
        SubmissionQueue(store).vote(last, f"voter{voter}")
    ahead = SubmissionQueue(store).n_ahead(SubmissionQueue(store).jobs_of(last)[0])
    assert ahead == 8  # turn 11 less 5 is 6; the others have one vote each, so those of turn 0 to 7 come first
    with pytest.raises(UsageError, match="you have voted"):
        SubmissionQueue(store).vote(last, "voter1")
    with pytest.raises(UnknownName):
        SubmissionQueue(store).vote("nothing", "voter1")


def test_a_lost_worker_stores_nothing_more(store: Store) -> None:
    """A worker whose lease expired and whose job was taken over gets LeaseLost for every change."""
    SubmissionQueue(store).submit(new())
    first = SubmissionQueue(store).claim(OTHER, 60)
    lapse(store)
    second = SubmissionQueue(store).claim(OTHER, 60)
    assert first is not None
    assert second is not None
    assert (second.id, second.epoch) == (first.id, first.epoch + 1)
    for change in (
        lambda: SubmissionQueue(store).renew(first, 60, JobProgress()),
        lambda: SubmissionQueue(store).finish(first, "run"),
        lambda: SubmissionQueue(store).fail(first, "infrastructure", "no"),
    ):
        with pytest.raises(LeaseLost):
            change()
    SubmissionQueue(store).release(first)  # changes nothing either
    SubmissionQueue(store).finish(second, "run")


def test_what_is_ours_is_tried_again_and_what_is_theirs_is_not(store: Store) -> None:
    """A failure of ours goes back to the queue until there were CLAIMS.most_tries; one of theirs ends at once."""
    mine = SubmissionQueue(store).submit(new())
    for attempt in range(1, CLAIMS.most_tries + 1):
        job = SubmissionQueue(store).claim(OTHER, 60)
        assert job is not None
        is_retried = SubmissionQueue(store).fail(job, "infrastructure", "disk full", "log").state == "pending"
        assert is_retried is (attempt < CLAIMS.most_tries)
        assert SubmissionQueue(store).claim(OTHER, 60) is None  # it waits before the next attempt
        make_due(store)
    (ended,) = SubmissionQueue(store).jobs_of(mine)
    assert (ended.state, ended.fault, ended.reason, ended.log_tail) == ("failed", "infrastructure", "disk full", "log")
    theirs = SubmissionQueue(store).submit(new("eve", "eve/broken"))
    job = SubmissionQueue(store).claim(OTHER, 60)
    assert job is not None
    assert SubmissionQueue(store).fail(job, "submission", "no weights").state == "failed"
    assert SubmissionQueue(store).jobs_of(theirs)[0].state == "failed"
    assert SubmissionQueue(store).relaunch(theirs)
    assert SubmissionQueue(store).claim(OTHER, 60) is not None


def test_a_job_whose_workers_die_is_given_up(store: Store) -> None:
    """After CLAIMS.most_tries workers that never came back, the job has failed, by a fault of the infrastructure."""
    submission = SubmissionQueue(store).submit(new())
    for _ in range(CLAIMS.most_tries):
        assert SubmissionQueue(store).claim(OTHER, 60) is not None
        lapse(store)
    assert SubmissionQueue(store).claim(OTHER, 60) is None
    (job,) = SubmissionQueue(store).jobs_of(submission)
    assert (job.state, job.fault) == ("failed", "infrastructure")
    SubmissionQueue(store).submit(new())  # its content may be submitted again


def test_the_folder_of_a_job_whose_workers_died_is_removed(store: Store, tmp_path: Path) -> None:
    """It has a copy of the model; folders of jobs that wait, and of no job, stay."""
    queue, work = SubmissionQueue(store), tmp_path / "work"
    lost, waiting = (queue.submit(new(model=f"org/{number}")) for number in range(2))
    given_up, other = (queue.jobs_of(submission)[0].id for submission in (lost, waiting))
    for name in (given_up, other, "mine"):
        (work / name / "fetch").mkdir(parents=True)
    assert queue.cancel(lost)
    held = queue.claim(OTHER, 60)
    assert held is not None
    assert held.id == other
    Worker(store, Host(boards={}, folders=[], work=work), print).work(once=True)
    assert sorted(folder.name for folder in work.iterdir()) == sorted([other, "mine"])


def test_a_submitter_has_a_limit(store: Store) -> None:
    """The limit counts the submitter's own submissions only, and says when the next one may be made."""
    SubmissionQueue(store).submit(new(), at_most=(1, 3600))
    with pytest.raises(UsageError, match=r"1 are allowed; the next one can be made in 1\.0 h"):
        SubmissionQueue(store).submit(new(model="org/two"), at_most=(1, 3600))
    SubmissionQueue(store).submit(new("eve", "org/two"), at_most=(1, 3600))


def test_racing_claims_take_each_job_once(store: Store, url: str) -> None:
    """Ten workers with connections of their own take forty jobs, each exactly one."""
    for number in range(40):
        SubmissionQueue(store).submit(new(f"s{number % 7}", f"org/{number}"))
    taken: list[str] = []

    def work() -> None:
        with Store.open(url) as opened:
            while (job := SubmissionQueue(opened).claim(OTHER, 60)) is not None:
                taken.append(job.id)
                SubmissionQueue(opened).finish(job, f"run of {job.id}")

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(Counter(taken).values()) == {1: 40}


def test_racing_votes_and_duplicates_count_once(store: Store, url: str) -> None:
    """The same voter, and the same content, at once from eight connections: one is accepted."""
    submission = SubmissionQueue(store).submit(new())
    done: list[str] = []

    def act() -> None:
        with Store.open(url) as opened:
            actions: tuple[Callable[[], str], ...] = (
                lambda: str(SubmissionQueue(opened).vote(submission, "voter")),
                lambda: SubmissionQueue(opened).submit(new("eve", "eve/same")),
            )
            for action in actions:
                try:
                    done.append(action())
                except UsageError as error:
                    done.append(str(error)[:12])

    threads = [threading.Thread(target=act) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(done)["2"] == 1
    assert Counter(done)["you have vot"] == 7
    assert Counter(done)["the same mod"] == 7
    assert SubmissionQueue(store).submission(submission).n_votes == 2


def test_cancelling_stops_the_worker_and_withdrawing_hides(store: Store) -> None:
    """A cancelled job cannot be finished; a withdrawn submission says so."""
    submission = SubmissionQueue(store).submit(new())
    job = SubmissionQueue(store).claim(OTHER, 60)
    SubmissionQueue(store).withdraw(submission)
    assert job is not None
    with pytest.raises(LeaseLost):
        SubmissionQueue(store).finish(job, "run")
    assert SubmissionQueue(store).submission(submission).is_withdrawn


def test_a_verdict_is_stored_with_the_job_that_found_it(store: Store) -> None:
    """The job `reproduce` marks the submission as verified."""
    submission = SubmissionQueue(store).submit(new(source="file", reported_run="r1"), kind="reproduce")
    job = SubmissionQueue(store).claim(OTHER, 60)
    assert job is not None
    SubmissionQueue(store).finish(job, "r2", (True, "all 3 scores agree"))
    row = SubmissionQueue(store).submission(submission)
    assert (row.is_verified, row.verdict) == (True, "all 3 scores agree")


def test_counts(store: Store) -> None:
    """Counts by state, and the workers that are alive."""
    SubmissionQueue(store).submit(new())
    SubmissionQueue(store).submit(new(model="org/two"))
    SubmissionQueue(store).claim(OTHER, 60)
    counts = SubmissionQueue(store).counts()
    assert (counts.by_state["pending"], counts.by_state["running"], counts.n_working) == (1, 1, 1)
    assert counts.mean_seconds is None


def test_a_job_that_kills_its_process_twice_is_the_submissions_fault(store: Store) -> None:
    """It is tried once more, also with a failure of ours between; then it has failed, and may be submitted again."""
    submission = SubmissionQueue(store).submit(new())
    outcomes = []
    for fault in ("killed", "infrastructure", "killed"):
        make_due(store)
        job = SubmissionQueue(store).claim(OTHER, 60)
        assert job is not None
        ended = SubmissionQueue(store).fail(job, fault, "out of memory", "log")
        assert SubmissionQueue(store).jobs_of(submission) == [ended]
        outcomes.append((ended.state, ended.fault))
    assert outcomes == [("pending", "killed"), ("pending", "killed"), ("failed", "submission")]
    assert "it happened twice" in (ended.reason or "")
    assert SubmissionQueue(store).submit(new()) != submission
