"""The queue: one worker has a job, order by turns and votes, retries, and races on both databases."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from assaymark.errors import LeaseLost, UnknownName, UsageError
from assaymark.store import Store
from assaymark.store.liveness import Owner
from assaymark.store.queue_claims import MOST_ATTEMPTS
from assaymark.store.queue_rows import JobProgress, NewSubmission
from assaymark.store.queue_schema import jobs

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
    submission = store.queue.submit(new())
    job = store.queue.claim(OTHER, 60)
    assert job is not None
    assert store.queue.claim(OTHER, 60) is None
    store.queue.renew(job, 60, JobProgress(3, 10, "evaluating"))
    assert [(one.n_done, one.n_total, one.stage) for one in store.queue.jobs_in("running")] == [(3, 10, "evaluating")]
    store.queue.finish(job, "run1")
    (ended,) = store.queue.jobs_of(submission)
    assert (ended.state, ended.run_id, ended.n_attempts) == ("finished", "run1", 1)
    assert [(row.id, run) for row, run in store.queue.with_results()] == [(submission, "run1")]


def test_the_same_content_is_refused_in_the_same_setup(store: Store) -> None:
    """Weights that are waiting under another name are a duplicate; another precision, or a failure before, is not."""
    first = store.queue.submit(new())
    with pytest.raises(UsageError, match=f"submitted as 'org/model' in this setup \\(submission {first}\\)"):
        store.queue.submit(new("eve", "eve/copy", content_hash="sha256:org/model"))
    store.queue.submit(new("eve", precision="bfloat16"))
    assert store.queue.cancel(first)
    store.queue.submit(new("eve"))
    with pytest.raises(UsageError, match="submitted again as"):
        store.queue.relaunch(first)


def test_a_submitter_with_many_models_does_not_hold_up_another(store: Store) -> None:
    """Turns alternate between submitters, whatever one has submitted before."""
    for number in range(5):
        store.queue.submit(new("many", f"many/{number}"))
    store.queue.submit(new("one", "one/0"))
    order = [store.queue.claim(OTHER, 60) for _ in range(6)]
    assert [job.submitter for job in order if job] == ["many", "one", "many", "many", "many", "many"]


def test_votes_move_a_job_forward_within_a_bound(store: Store) -> None:
    """Votes advance a job by a few turns; a hundred votes do not advance it past everything."""
    for number in range(12):
        last = store.queue.submit(new("many", f"many/{number}"))
    for voter in range(40):
        store.queue.vote(last, f"voter{voter}")
    ahead = store.queue.n_ahead(store.queue.jobs_of(last)[0])
    assert ahead == 8  # turn 11 less 5 is 6; the others have one vote each, so those of turn 0 to 7 come first
    with pytest.raises(UsageError, match="you have voted"):
        store.queue.vote(last, "voter1")
    with pytest.raises(UnknownName):
        store.queue.vote("nothing", "voter1")


def test_a_lost_worker_stores_nothing_more(store: Store) -> None:
    """A worker whose lease expired and whose job was taken over gets LeaseLost for every change."""
    store.queue.submit(new())
    first = store.queue.claim(OTHER, 60)
    lapse(store)
    second = store.queue.claim(OTHER, 60)
    assert first is not None
    assert second is not None
    assert (second.id, second.epoch) == (first.id, first.epoch + 1)
    for change in (
        lambda: store.queue.renew(first, 60, JobProgress()),
        lambda: store.queue.finish(first, "run"),
        lambda: store.queue.fail(first, "infrastructure", "no"),
    ):
        with pytest.raises(LeaseLost):
            change()
    store.queue.release(first)  # changes nothing either
    store.queue.finish(second, "run")


def test_what_is_ours_is_tried_again_and_what_is_theirs_is_not(store: Store) -> None:
    """A failure of ours goes back to the queue until there were MOST_ATTEMPTS; one of theirs ends at once."""
    mine = store.queue.submit(new())
    for attempt in range(1, MOST_ATTEMPTS + 1):
        job = store.queue.claim(OTHER, 60)
        assert job is not None
        is_retried = store.queue.fail(job, "infrastructure", "disk full", "log").state == "pending"
        assert is_retried is (attempt < MOST_ATTEMPTS)
        assert store.queue.claim(OTHER, 60) is None  # it waits before the next attempt
        make_due(store)
    (ended,) = store.queue.jobs_of(mine)
    assert (ended.state, ended.fault, ended.reason, ended.log_tail) == ("failed", "infrastructure", "disk full", "log")
    theirs = store.queue.submit(new("eve", "eve/broken"))
    job = store.queue.claim(OTHER, 60)
    assert job is not None
    assert store.queue.fail(job, "submission", "no weights").state == "failed"
    assert store.queue.jobs_of(theirs)[0].state == "failed"
    assert store.queue.relaunch(theirs)
    assert store.queue.claim(OTHER, 60) is not None


def test_a_job_whose_workers_die_is_given_up(store: Store) -> None:
    """After MOST_ATTEMPTS workers that never came back, the job has failed, by a fault of the infrastructure."""
    submission = store.queue.submit(new())
    for _ in range(MOST_ATTEMPTS):
        assert store.queue.claim(OTHER, 60) is not None
        lapse(store)
    assert store.queue.claim(OTHER, 60) is None
    (job,) = store.queue.jobs_of(submission)
    assert (job.state, job.fault) == ("failed", "infrastructure")
    store.queue.submit(new())  # its content may be submitted again


def test_a_submitter_has_a_limit(store: Store) -> None:
    """The limit counts the submitter's own submissions only, and says when the next one may be made."""
    store.queue.submit(new(), at_most=(1, 3600))
    with pytest.raises(UsageError, match=r"1 are allowed; the next one can be made in 1\.0 h"):
        store.queue.submit(new(model="org/two"), at_most=(1, 3600))
    store.queue.submit(new("eve", "org/two"), at_most=(1, 3600))


def test_racing_claims_take_each_job_once(store: Store, url: str) -> None:
    """Ten workers with connections of their own take forty jobs, each exactly one."""
    for number in range(40):
        store.queue.submit(new(f"s{number % 7}", f"org/{number}"))
    taken: list[str] = []

    def work() -> None:
        with Store.open(url) as opened:
            while (job := opened.queue.claim(OTHER, 60)) is not None:
                taken.append(job.id)
                opened.queue.finish(job, f"run of {job.id}")

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(Counter(taken).values()) == {1: 40}


def test_racing_votes_and_duplicates_count_once(store: Store, url: str) -> None:
    """The same voter, and the same content, at once from eight connections: one is accepted."""
    submission = store.queue.submit(new())
    done: list[str] = []

    def act() -> None:
        with Store.open(url) as opened:
            actions: tuple[Callable[[], str], ...] = (
                lambda: str(opened.queue.vote(submission, "voter")),
                lambda: opened.queue.submit(new("eve", "eve/same")),
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
    assert store.queue.submission(submission).n_votes == 2


def test_cancelling_stops_the_worker_and_withdrawing_hides(store: Store) -> None:
    """A cancelled job cannot be finished; a withdrawn submission says so."""
    submission = store.queue.submit(new())
    job = store.queue.claim(OTHER, 60)
    store.queue.withdraw(submission)
    assert job is not None
    with pytest.raises(LeaseLost):
        store.queue.finish(job, "run")
    assert store.queue.submission(submission).is_withdrawn


def test_a_verdict_is_stored_with_the_job_that_found_it(store: Store) -> None:
    """The job `reproduce` marks the submission as verified."""
    submission = store.queue.submit(new(source="file", reported_run="r1"), kind="reproduce")
    job = store.queue.claim(OTHER, 60)
    assert job is not None
    store.queue.finish(job, "r2", (True, "all 3 scores agree"))
    row = store.queue.submission(submission)
    assert (row.is_verified, row.verdict) == (True, "all 3 scores agree")


def test_counts(store: Store) -> None:
    """Counts by state, and the workers that are alive."""
    store.queue.submit(new())
    store.queue.submit(new(model="org/two"))
    store.queue.claim(OTHER, 60)
    counts = store.queue.counts()
    assert (counts.by_state["pending"], counts.by_state["running"], counts.n_working) == (1, 1, 1)
    assert counts.mean_seconds is None


def test_a_job_that_kills_its_process_twice_is_the_submissions_fault(store: Store) -> None:
    """It is tried once more, also with a failure of ours between; then it has failed, and may be submitted again."""
    submission = store.queue.submit(new())
    outcomes = []
    for fault in ("killed", "infrastructure", "killed"):
        make_due(store)
        job = store.queue.claim(OTHER, 60)
        assert job is not None
        ended = store.queue.fail(job, fault, "out of memory", "log")
        assert store.queue.jobs_of(submission) == [ended]
        outcomes.append((ended.state, ended.fault))
    assert outcomes == [("pending", "killed"), ("pending", "killed"), ("failed", "submission")]
    assert "it happened twice" in (ended.reason or "")
    assert store.queue.submit(new()) != submission
