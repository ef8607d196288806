"""Whole jobs whose evaluation is taken over: what it stores, plants and uses up reaches neither board nor host."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.leaderboard.submission.host import boards_of
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobRow, SubmissionRow
from assaymark.leaderboard.submission.worker import process
from assaymark.leaderboard.submission.worker.work import Host, Worker
from assaymark.limits.bubblewrap import find_bubblewrap
from assaymark.limits.resources import Resources
from assaymark.models.checkpoint.identity import count_parameters
from assaymark.store import Store
from tests.leaderboard.submission.test_queue import make_due
from tests.leaderboard.submission.worker.conftest import resume

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_bubblewrap() is None, reason="bubblewrap is not installed, or cannot start a process here"),
]
# runs `attack` where the evaluation would begin; `honest()` is the real step
TAKEN_OVER = """
import os, sys, json
line = os.read(0, 1 << 16)
sys.path.insert(0, sys.argv[1])
from assaymark.leaderboard.submission.worker import child
reading, writing = os.pipe()
os.write(writing, line)
os.dup2(reading, 0)
evaluate_honestly = child._evaluate
def honest():
    return evaluate_honestly(spec, type("", (), {"stage": lambda *_: None})())
if json.loads(line)["step"] == "evaluate":
    def attack(spec, channel):
        globals().update(spec=spec, channel=channel)
        exec(ATTACK, globals())
        return {"kind": "evaluated"}
    child._evaluate = attack
sys.exit(child.main())
"""


@pytest.fixture
def worked(
    store: Store, placed: Host, submit_small: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., JobRow]:
    """Return a function that submits a model, does its job with an evaluation that was taken over, and returns it."""
    submission = submit_small()

    def done(attack: str, stored: str = "", limits: Resources = placed.limits) -> JobRow:
        monkeypatch.setattr(process, "START", TAKEN_OVER.replace("ATTACK", repr(attack), 1))
        make_due(store)
        if stored:
            resume(placed, stored)
        Worker(store, replace(placed, limits=limits), lambda _: None).work(once=True)
        return SubmissionQueue(store).jobs_of(submission)[-1]

    return done


OTHER_MODEL = """
from assaymark.runs.evaluate import evaluate
options = {**spec["options"], "num_fewshot": None, "store": spec["store"]}
evaluate("fake", spec["parts"][0][0], model_args="accuracy=1.0", **options).store.close()
"""
OTHER_TASK = """
spec["parts"] = [[["demo_sums"], None]]
honest()
"""
FEWER_SAMPLES = """
spec["options"]["limit"] = 5
honest()
"""
TRIGGER = """
honest()
import sqlite3
connection = sqlite3.connect(spec["store"])
connection.execute("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END")
connection.commit()
connection.close()
"""
SCORES = """
honest()
from dataclasses import replace
from assaymark.store import Store
with Store.open(spec["store"]) as own:
    row = own.runs()[0]
    opened = own.open_run(row.plan, facts={}, rescoring=True)
    scores = [replace(score, value=5.0) for record in own.samples(row.run_id, row.tasks[0]) for score in record.scores]
    own.close_rescoring(opened, "finished", [(scores, "sha256:other")], {})
"""
LINK = """
import os
for name in ("evaluate.log", "fetch.json", "fetch.log", "evaluate.json"):
    for place in (".", ".."):
        os.symlink("SECRET", os.path.join(place, name))
os.symlink("SECRET", spec["store"])
"""


@pytest.mark.parametrize(
    ("stored", "attack", "reason"),
    [
        ("", OTHER_MODEL, "no run of the job's model, tasks and settings"),
        ("task", OTHER_TASK, "no run of the job's model, tasks and settings"),
        ("samples", FEWER_SAMPLES, "no run of the job's model, tasks and settings"),
        ("job", TRIGGER, "other tables than a store of this version"),
        ("job", SCORES, "has a score 5 of"),
        ("", LINK, "no results that can be opened"),
        ("", "", "no results that can be opened"),
    ],
    ids=["model", "task", "samples", "trigger", "scores", "links", "nothing"],
)
def test_results_that_are_not_the_jobs_are_refused(
    worked: Callable[..., JobRow], store: Store, host: Host, stored: str, attack: str, reason: str
) -> None:
    """Another model, task or number of samples, a trigger, an impossible score or a link: nothing is stored."""
    secret = host.work.parent / "server.secret"
    secret.write_text("the-secret-that-signs")
    job = worked(attack.replace("SECRET", str(secret)), stored=stored)
    assert (job.state, job.fault) == ("failed", "submission"), job
    assert reason in (job.reason or "")
    assert "the-secret" not in f"{job.reason}{job.log_tail}"
    assert store.runs() == []
    assert secret.read_text() == "the-secret-that-signs"


def test_estimates_are_computed_again(worked: Callable[..., JobRow], store: Store, host: Host) -> None:
    """Numbers that the evaluation claims are left behind; those of its scores are stored."""
    claimed = """
honest()
assert "torch" not in sys.modules, "what an earlier attempt has stored was computed again"
from dataclasses import replace
from assaymark.store import Store
with Store.open(spec["store"]) as own:
    row = own.runs()[0]
    changed = [replace(each, value=0.99, low=0.98, high=1.0) for each in own.estimates(row.run_id)]
    changed.append(replace(changed[0], task="mmlu"))
    own.save_estimates(row.run_id, changed, {"claimed": True})
"""
    job = worked(claimed, stored="job")
    assert job.state == "finished", job
    estimates = store.estimates(job.run_id or "")
    assert {each.task for each in estimates} == {"demo_facts"}
    assert 0.99 not in [each.value for each in estimates]
    assert "claimed" not in store.run(job.run_id or "").extra
    assert store.verify() == []


def test_what_it_plants_is_not_imported_by_the_next_fetch(
    worked: Callable[..., JobRow], store: Store, host: Host, tmp_path: Path
) -> None:
    """Packages in the job's folder, home and working directory are not run outside the sandbox."""
    marker = tmp_path / "marker"
    planted = f"""
import os
for place in (".", "..", os.environ["HOME"] + "/.local/lib/python3.11/site-packages"):
    for name in ("assaymark", "json", "sitecustomize", "usercustomize"):
        os.makedirs(os.path.join(place, name), exist_ok=True)
        with open(os.path.join(place, name, "__init__.py"), "w") as file:
            file.write("open({str(marker)!r}, 'w').write('run outside')")
os.kill(os.getpid(), 9)
"""
    job = worked(planted)
    assert (job.state, job.fault) == ("pending", "killed"), job
    job = worked("honest()", stored="job")
    assert job.state == "finished", job
    assert not marker.exists()


def test_a_model_that_is_swapped_after_its_acceptance_is_not_ranked(
    store: Store, host: Host, submit: Callable[..., str]
) -> None:
    """The folder changes as soon as the job has it: what was checked is evaluated, with the size that was checked."""
    models = Path(host.folders[0]) / "demo"
    size, other_size = (count_parameters(models / name) for name in ("small", "large"))
    assert size != other_size
    submission = submit("demo/small")
    worker = threading.Thread(target=Worker(store, host, lambda _: None).work, kwargs={"once": True})
    worker.start()
    while not list(host.work.glob("*/evaluate-*")):
        time.sleep(0.005)
    shutil.rmtree(models / "small")
    shutil.copytree(models / "large", models / "small")
    worker.join(300)
    job = SubmissionQueue(store).jobs_of(submission)[-1]
    assert job.state == "finished", job
    model = store.run(job.run_id or "").plan.model
    assert model.n_parameters == size
    assert str(models) not in model.name


def test_a_tokenizer_that_multiplies_texts_is_the_submissions_fault(
    store: Store, host: Host, submit: Callable[..., str]
) -> None:
    """Five normalisers that multiply each letter are refused before a text is tokenized, and the job is not retried."""
    place = Path(host.folders[0]) / "demo" / "bomb"
    shutil.copytree(place.parent / "small", place)
    tokenizer = json.loads((place / "tokenizer.json").read_text())
    multiply = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 60}
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [multiply] * 5}
    (place / "tokenizer.json").write_text(json.dumps(tokenizer))
    submission = submit("demo/bomb")
    Worker(store, host, lambda _: None).work(once=True)
    job = SubmissionQueue(store).jobs_of(submission)[-1]
    assert (job.state, job.fault, job.n_attempts) == ("failed", "submission", 1), job
    assert "expected at most 64 times" in (job.reason or "")


def test_an_evaluation_that_exhausts_memory_twice_is_the_submissions_fault(worked: Callable[..., JobRow]) -> None:
    """The process ends at its limit of memory; after the second time the job is not tried again."""
    exhaust = """
blocks = []
while True:
    blocks.append(bytearray(1 << 27))
"""
    states = []
    for _ in range(2):
        job = worked(exhaust, limits=Resources(3 << 30))
        states.append((job.state, job.fault, job.n_attempts))
    assert states == [("pending", "killed", 1), ("failed", "submission", 2)], job
    assert "it happened twice" in (job.reason or "")


@pytest.mark.parametrize(
    "message",
    [r'{"kind": "stage", "text": "\ud800"}', r'{"kind": "failed", "fault": "submission", "reason": "\ud800"}'],
    ids=["stage", "reason"],
)
def test_half_a_character_ends_the_job_and_not_the_worker(worked: Callable[..., JobRow], message: str) -> None:
    """A text that no database takes is not a message: the job has failed by the submission's fault, at once."""
    job = worked(f"import time\nos.write(channel._pipe, {message.encode()!r} + b'\\n')\ntime.sleep(4)\nos._exit(0)")
    assert (job.state, job.fault, job.n_attempts) == ("failed", "submission", 1)
    assert "is not a Unicode text" in (job.reason or "")


def test_a_process_cannot_have_four_attempts_by_blaming_the_host(worked: Callable[..., JobRow]) -> None:
    """What it says is tried once more; then the submission has failed, and the worker says so."""
    attack = """raise __import__("assaymark.errors").errors.DataError("the disk is full")"""
    assert [(job.state, job.fault) for job in (worked(attack), worked(attack))] == [
        ("pending", "killed"),
        ("failed", "submission"),
    ]


def test_an_unexpected_error_of_one_job_leaves_the_worker(
    store: Store,
    placed: Host,
    submit: Callable[..., str],
    submit_small: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever error a job meets, the worker says so, does the next one, and the job waits for another attempt."""
    first = submit("demo/large")
    submit_small()
    resume(placed, "job")
    done = Worker._carry_out

    def carry_out(worker: Worker, job: JobRow, row: SubmissionRow, folder: Path) -> str:
        if job.submission == first:
            raise RuntimeError("\ud800 unexpected")
        return done(worker, job, row, folder)

    monkeypatch.setattr(Worker, "_carry_out", carry_out)
    said: list[str] = []
    Worker(store, placed, said.append).work(stopped=lambda: any(line.endswith("finished") for line in said))
    failed = SubmissionQueue(store).jobs_of(first)[-1]
    assert (failed.state, failed.fault, failed.reason) == ("pending", "infrastructure", "RuntimeError: unexpected")
    assert any("failed (infrastructure): RuntimeError: unexpected; it will be tried again" in line for line in said)
    assert SubmissionQueue(store).counts().by_state["finished"] == 1


def test_the_worker_says_whose_fault_a_second_crash_is(
    store: Store, host: Host, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is nobody's yet, the second is logged as the submission's, which it is."""
    submit("demo/small")
    monkeypatch.setattr(process, "START", TAKEN_OVER.replace("ATTACK", repr("os.kill(os.getpid(), 11)"), 1))
    said: list[str] = []
    for _ in range(2):
        make_due(store)
        Worker(store, host, said.append).work(once=True)
    failures = [line.partition(": ")[2] for line in said if "failed" in line]
    assert failures[0].startswith("failed (infrastructure or submission): the process was ended by SIGSEGV")
    assert failures[0].endswith("it will be tried again")
    assert failures[1].startswith("failed (submission): the process was ended by SIGSEGV")
    assert failures[1].endswith("it happened twice, so it is not tried again")


MINE = """
include: base.inc
task: mine
test_split: test
output_type: multiple_choice
doc_to_text: !function utils.prompt
doc_to_choice: ["red", "blue"]
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}]
"""


def test_beside_the_boards_task_files_nothing_is_seen(
    store: Store, host: Host, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A board's own task is evaluated in the sandbox, which shows its include, its functions and its data, no more."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.yaml").write_text(MINE)
    (own / "base.inc").write_text("dataset_path: csv\ndataset_kwargs: {data_files: {test: q.csv}}\n")
    (own / "utils.py").write_text("from more import text\ndef prompt(row): return text(row)\n")
    (own / "more.py").write_text("def text(row): return row['question']\n")
    (own / "q.csv").write_text("question,answer\nthe sky,blue\nblood,red\n")
    (own / "secret.csv").write_text("the-secret")
    (own / "board.yaml").write_text("title: Demo\nname: demo\ntasks: [{file: mine.yaml}]\n")
    host = replace(host, boards=boards_of([str(own / "board.yaml")]))
    attack = (
        f"assert sorted(os.listdir({str(own)!r})) == ['base.inc', 'mine.yaml', 'more.py', 'q.csv', 'utils.py']\n"
        "assert os.listdir(os.environ['ASSAYMARK_HOME'] + '/cache/task_index')\n"  # parsed once for all jobs
    )
    monkeypatch.setattr(process, "START", TAKEN_OVER.replace("ATTACK", repr(attack + "honest()"), 1))
    submission = submit("demo/small")
    Worker(store, host, lambda _: None).work(once=True)
    job = SubmissionQueue(store).jobs_of(submission)[-1]
    assert (job.state, job.reason) == ("finished", None)
    assert store.run(job.run_id or "").tasks == ("mine",)
