"""Submissions that are screened, by real workers: stopped early, resumed after a kill, dishonest stops refused."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import DataError
from assaymark.leaderboard.board import Screening
from assaymark.leaderboard.rows import BoardRow
from assaymark.leaderboard.screening import Rivals
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns, model_label
from assaymark.leaderboard.submission.host import boards_of
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobRow
from assaymark.leaderboard.submission.worker.job_steps import ScreeningSpec
from assaymark.leaderboard.submission.worker.screened import evaluate_screened, settled_after
from assaymark.leaderboard.submission.worker.work import Host, Worker
from assaymark.leaderboard.table import BoardTable
from assaymark.results.evidence.from_store import stopped_by_rule
from assaymark.runs.prepare import prepare_run
from assaymark.store import Store

N = 200  # questions of demo_facts
MODEL = Path(assaymark.__file__).parent / "library" / "demo_models" / "small"


@pytest.fixture
def screening_host(host: Host, store: Store, tmp_path: Path) -> Host:
    """Return a host whose board screens, with rows far from the demo model's score in the store."""
    (tmp_path / "screening.yaml").write_text(
        "title: Demo\nname: demo\ntasks: [demo_facts]\nscreening: {at_least: 50}\n"
    )
    add_rivals(store)
    return replace(host, boards=boards_of([str(tmp_path / "screening.yaml")]), limit=None)


def add_rivals(store: Store | str) -> None:
    """Store complete runs of three models that know little."""
    for seed, accuracy in enumerate((0.01, 0.02, 0.03)):
        assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": accuracy, "seed": seed}, store=store)


def job_of(store: Store, submission: str) -> JobRow:
    """Return the job of a submission."""
    return SubmissionQueue(store).jobs_of(submission)[-1]


@pytest.mark.slow
def test_a_submission_stops_where_its_rank_set_is_settled(
    store: Store, screening_host: Host, submit: Callable[..., str], tmp_path: Path
) -> None:
    """The stored run is the beginning of the order, marked, verifies, and has the rank set of a complete evaluation."""
    submission = submit("demo/small")
    said: list[str] = []
    assert Worker(store, screening_host, said.append).work(once=True) == 1
    job = job_of(store, submission)
    assert job.state == "finished", said
    row = store.run(job.run_id or "")
    stopped = stopped_by_rule(row)
    assert stopped is not None
    assert (row.status, row.n_samples) == ("incomplete", stopped.n_seen)
    assert 50 <= stopped.n_seen < N
    assert row.extra["screening"]["n_rivals"] == 3
    assert store.verify() == []
    board = screening_host.boards["demo"]
    table = Site([board], StoredRuns(store)).table(board)
    result, of_model = rank_set(table, row.model)
    assert of_model.stopped is not None
    complete = str(tmp_path / "complete.sqlite")
    arguments = {"pretrained": str(MODEL), "dtype": row.plan.model.dtype}
    full = assaymark.evaluate("hf", "demo_facts", model_args=arguments, store=complete)
    add_rivals(complete)
    with Store.open_to_read(complete) as opened:
        assert rank_set(Site([board], StoredRuns(opened)).table(board), full.row.model)[0] == result


def rank_set(table: BoardTable, model: str) -> tuple[tuple[int, int], BoardRow]:
    """Return the ranks that a model's only row may have, and the row."""
    name = model_label(model)
    (row,) = [each for each in table.rows if each.model.rpartition("/")[2] == name.rpartition("/")[2]]
    at = table.places[row.id]
    return (int(table.index.ranks.best[at]), int(table.index.ranks.worst[at])), row


@pytest.mark.slow
def test_without_rows_to_rank_it_among_a_submission_is_evaluated_in_full(
    store: Store, host: Host, submit: Callable[..., str]
) -> None:
    """The first rows of a board are complete, and the worker says why."""
    board = replace(host.boards["demo"], screening=Screening())
    submission = submit("demo/small")
    said: list[str] = []
    Worker(store, replace(host, boards={"demo": board}, limit=None), said.append).work(once=True)
    row = store.run(job_of(store, submission).run_id or "")
    assert (row.status, row.n_samples) == ("finished", N), said
    assert any("too few rows" in line for line in said)


WORKER = """
import sys
from pathlib import Path
from assaymark.leaderboard.submission.host import boards_of
from assaymark.leaderboard.submission.worker.work import Host, Worker
from assaymark.store import Store
folder = Path(sys.argv[1])
host = Host(boards=boards_of([str(folder / "screening.yaml")]), folders=[folder / "models"], work=folder / "work",
            lease_seconds=2)
with Store.open(str(folder / "store.sqlite")) as store:
    Worker(store, host, print).work(once=True)
"""


@pytest.mark.slow
def test_a_killed_worker_goes_on_where_it_was(
    store: Store, screening_host: Host, submit: Callable[..., str], tmp_path: Path
) -> None:
    """Another worker takes over after kill -9, and ends with the questions of one that was never interrupted."""
    submission = submit("demo/small")
    with subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not list(tmp_path.glob("work/*/evaluate-*/run.sqlite")):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert list(tmp_path.glob("work/*/evaluate-*/run.sqlite")), "it ended before it was killed"
    assert job_of(store, submission).state == "running"
    time.sleep(2.5)  # its lease
    said: list[str] = []
    Worker(store, replace(screening_host, lease_seconds=20), said.append).work(once=True)
    job = job_of(store, submission)
    assert (job.state, job.n_attempts) == ("finished", 2), said
    stopped = stopped_by_rule(store.run(job.run_id or ""))
    assert stopped is not None
    assert stopped.n_seen == store.run(job.run_id or "").n_samples


# ---------------------------------------------------------------------------- the process itself and its check


def spec_of(*scores: float, at_least: int = 50) -> ScreeningSpec:
    """Return a screening among rows with these scores, and intervals of two points."""
    rivals = Rivals(scores, tuple(score - 0.01 for score in scores), tuple(score + 0.01 for score in scores))
    return {"rivals": rivals.to_spec(), "weights": {"demo_facts": 1.0}, "at_least": at_least, "seed": 0}


def screened(folder: Path, spec: ScreeningSpec) -> tuple[Any, Any, list[int]]:
    """Evaluate the demo model; return the store, the plan's parts and how far it said it came."""
    seen: list[int] = []
    options: Any = {"model_args": {"pretrained": str(MODEL)}, "store": str(folder / "run.sqlite")}
    reason, is_empty = evaluate_screened(["demo_facts"], spec, lambda _task, n_seen, _n: seen.append(n_seen), options)
    assert (reason, is_empty) == (None, False)
    return Store.open(str(folder / "run.sqlite")), prepare_run("hf", ["demo_facts"], options)[1], seen


def test_another_field_continues_and_the_check_agrees(tmp_path: Path) -> None:
    """With rows nearby it goes on, asking nothing again; with far ones afterwards, its further answers are kept."""
    store, prepared, seen = screened(tmp_path, spec_of(0.01, 0.02))
    run_id = store.runs()[0].run_id
    n_first = seen[-1]
    assert n_first < N
    assert settled_after(store, run_id, prepared, spec_of(0.01, 0.02)) == n_first
    near = store.runs()[0].n_samples
    score = next(e.value for e in store.estimates(run_id) if e.metric == "acc_norm") or 0.0
    store.close()
    stricter = spec_of(score - 0.06, score + 0.06, at_least=n_first + 1)
    store, prepared, seen = screened(tmp_path, stricter)
    n_second = store.runs()[0].n_samples
    assert n_second > near
    store.close()
    store, prepared, seen = screened(tmp_path, spec_of(0.01, 0.02))
    assert store.runs()[0].n_samples == n_second
    if n_second < N:
        assert settled_after(store, run_id, prepared, spec_of(0.01, 0.02)) == n_second
    store.close()


def test_a_run_that_stopped_too_early_is_refused(tmp_path: Path) -> None:
    """A run whose rank set is open where it ends, or whose questions are not the order's first, is no result."""
    store, prepared, _seen = screened(tmp_path, spec_of(0.01, 0.02))
    run_id = store.runs()[0].run_id
    score = next(e.value for e in store.estimates(run_id) if e.metric == "acc_norm") or 0.0
    with pytest.raises(DataError, match="where its rank set was not settled"):
        settled_after(store, run_id, prepared, spec_of(score - 0.06, score + 0.06))
    with pytest.raises(DataError, match="are the beginning of it"):
        settled_after(store, run_id, prepared, {**spec_of(0.01, 0.02), "seed": 1})
    store.close()


def test_a_board_of_other_tasks_is_refused(tmp_path: Path) -> None:
    """Weights of tasks that the run does not have are the host's fault, in one line."""
    with pytest.raises(DataError, match="the tasks differ in demo_facts, demo_who"):
        screened(tmp_path, {**spec_of(0.1, 0.2), "weights": {"demo_who": 1.0}})
