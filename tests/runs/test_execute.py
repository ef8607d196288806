"""Running, resuming, killing: no stored response is requested again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import StoreError
from assaymark.models.fake import FakeModel
from assaymark.records import Output, Request
from assaymark.runs.chunks import chunks_of
from assaymark.runs.execute import RunProgress, execute
from assaymark.runs.plan import PreparedRun, RunOptions, prepare
from assaymark.settings import environment
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from tests.tasks.folders import ROWS, task_spec, write_rows, write_task

TASKS = ("demo_letters", "demo_who", "demo_stories")
LIMIT = 20


class CountingModel(FakeModel):
    """A fake model that records its queries and can stop in the middle."""

    def __init__(self, stop_after: int | None = None, fails_at: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[tuple[str, int]] = []
        self.stop_after = stop_after
        self.fails_at = fails_at  # this query of every request fails with an error that is retried

    def answer(self, requests: Sequence[Request], **watching: Any) -> Iterator[Output]:
        """Answer as the fake does."""
        for output in super().answer(requests, **watching):
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append((output.request_id, output.ask_index))
            if output.ask_index == self.fails_at:
                yield Output(output.request_id, output.ask_index, error="no answer in time", error_kind="Retryable")
            else:
                yield output


def prepared_run(model: FakeModel, tasks: Sequence[str] = TASKS, limit: float = LIMIT) -> PreparedRun:
    """Return a plan over the demo tasks."""
    return prepare(Catalog.open(lm_eval=False).select(tasks), model, RunOptions(bind=BindOptions(limit=limit)))


def stored_scores(store: Store, run_id: str) -> list[tuple[Any, ...]]:
    """Return every score of a run, sorted."""
    return sorted(
        ((s.task, s.sample_index, s.filter, s.metric, s.value, str(s.status)) for s in store.scores(run_id)), key=str
    )


def test_the_same_plan_is_evaluated_once() -> None:
    """A finished run is read from the store: the second time no request is sent."""
    store = Store.open()
    first = execute(prepared_run(CountingModel()), CountingModel(), store)
    model = CountingModel()
    second = execute(prepared_run(model), model, store)
    assert (first.was_stored, second.was_stored) == (False, True)
    assert first.run_id == second.run_id
    assert model.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [1, 37, 150])
def test_an_interrupted_run_is_resumed(stop_after: int) -> None:
    """A run that was stopped and resumed equals an uninterrupted one, and no query is sent twice."""
    whole = Store.open(str(Path(os.environ["ASSAYMARK_HOME"]) / "whole.sqlite"))
    uninterrupted = CountingModel()
    expected = execute(prepared_run(uninterrupted), uninterrupted, whole)
    store = Store.open()
    first, second = CountingModel(stop_after), CountingModel()
    with pytest.raises(KeyboardInterrupt):
        execute(prepared_run(first), first, store)
    result = execute(prepared_run(second), second, store)
    assert result.status == "finished"
    assert sorted(first.asked + second.asked) == sorted(uninterrupted.asked)
    assert stored_scores(store, result.run_id) == stored_scores(whole, expected.run_id)


def test_a_failed_answer_is_not_a_wrong_one() -> None:
    """A failed request has no score, and the run continues."""
    store = Store.open()
    failing = CountingModel(fail=0.2)
    first = execute(prepared_run(failing), failing, store)
    values = [s for s in store.scores(first.run_id) if str(s.status) == "failed"]
    assert first.n_failed > 0
    assert values
    assert all(score.value is None for score in values)


def test_failed_queries_are_retried_and_scored() -> None:
    """The same command sends only the failed queries, and then every request has its usual score."""
    store, whole = Store.open(), Store.open(str(Path(os.environ["ASSAYMARK_HOME"]) / "whole.sqlite"))
    model = CountingModel()
    expected = execute(prepared_run(model), model, whole)
    flaky = CountingModel(fails_at=1)
    first = execute(prepared_run(flaky), flaky, store)
    assert (first.status, first.n_failed > 0) == ("incomplete", True)
    again = CountingModel()
    second = execute(prepared_run(again), again, store)
    assert second.status == "finished"
    assert {query for _, query in again.asked} == {1}
    assert len(again.asked) == first.n_failed
    assert stored_scores(store, second.run_id) == stored_scores(whole, expected.run_id)


def asked_of(folder: Path, store: Store) -> tuple[str, str, int, set[str]]:
    """Run a small task; return run id, run key, the number of computed queries and the cache keys of its outputs."""
    model = FakeModel()
    prepared = prepare(Catalog.open(lm_eval=False).select([str(folder / "sums.yaml")]), model, RunOptions())
    run_id = execute(prepared, model, store).run_id
    keys = {output.cache_key or "" for record in store.samples(run_id, "sums") for output in record.outputs}
    return run_id, prepared.plan.key, model.n_requested, keys


def test_an_edited_prompt_function_makes_a_new_run(tmp_path: Path) -> None:
    """The body of a function that makes prompts is in the run key, its results are in the cache keys."""
    store = Store.open(str(tmp_path / "store.sqlite"))
    write_task(tmp_path, task_spec(doc_to_text="!function say.text"))
    code = tmp_path / "say.py"
    code.write_text("def text(row):\n    return row['question']\n")
    first = asked_of(tmp_path, store)
    again = asked_of(tmp_path, store)
    assert (again[0], again[2]) == (first[0], 0)
    code.write_text("def text(row):\n    return row['question'] + ' Think.'\n")
    edited = asked_of(tmp_path, store)
    assert len({first[0], edited[0]}) == len({first[1], edited[1]}) == 2
    assert edited[2] == first[2] == len(first[3])
    assert not edited[3] & first[3]
    code.write_text("def text(row):  # the same words\n    return row['question']\n")
    same_words = asked_of(tmp_path, store)
    assert same_words[1] not in {first[1], edited[1]}
    assert (same_words[2], same_words[3]) == (0, first[3])  # another run, answered from the cache


def test_every_answer_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Repeated rows and rows of other tasks never share an id, and the stored plan names each data set."""
    write_rows(tmp_path, [*ROWS, *ROWS])
    paths = [str(write_task(tmp_path, task_spec(name))) for name in ("sums", "more")]
    prepared = prepare(Catalog.open(lm_eval=False).select([*paths, "demo_who"]), FakeModel(), RunOptions())
    asked = [request for task in prepared.bound for request in task.requests()]
    store = Store.open(str(tmp_path / "store.sqlite"))
    run = store.run(execute(prepared, FakeModel(), store).run_id)
    assert len({request.id for request in asked}) == len(asked) == run.n_requests
    assert len({request.sample_sha256 for request in asked if request.task == "sums"}) == len(ROWS)
    hashes = {task.name: task.dataset_hash for task in run.plan.tasks}
    assert hashes["sums"] == hashes["more"] != hashes["demo_who"]
    assert all(value.startswith("sha256:") for value in hashes.values())
    write_rows(tmp_path, [*ROWS, *ROWS[:-1], {**ROWS[-1], "text": "changed"}])
    changed = prepare(Catalog.open(lm_eval=False).select(paths), FakeModel(), RunOptions()).plan
    assert {task.dataset_hash for task in changed.tasks}.isdisjoint(hashes.values())


def test_anything_in_the_key_makes_a_new_run() -> None:
    """Another limit, shots or seed is another run; the model's name is not."""
    model = FakeModel()
    catalog = Catalog.open(lm_eval=False)
    selection = catalog.select(["demo_letters"])
    base = RunOptions(bind=BindOptions(limit=5))
    others = [
        RunOptions(bind=BindOptions(limit=6)),
        RunOptions(bind=BindOptions(limit=5, num_fewshot=2)),
        RunOptions(bind=BindOptions(limit=5, num_fewshot=2, seed=7)),
        RunOptions(bind=BindOptions(limit=5), settings={"too_long": "error"}),
        RunOptions(bind=BindOptions(limit=5), settings={"environment": environment()}),
    ]
    keys = [prepare(selection, model, options).plan.key for options in (base, *others)]
    assert len(set(keys)) == len(keys)


def test_progress_is_reported() -> None:
    """The observer is called for each chunk, and at the end every output is counted."""
    reported: list[RunProgress] = []
    model = FakeModel()
    execute(prepared_run(model), model, Store.open(), observe=reported.append)
    assert reported[-1].model.n_outputs_done == reported[-1].model.n_outputs
    assert reported[-1].chunk == reported[-1].n_chunks


def test_tasks_on_the_same_data_stay_together() -> None:
    """Tasks with the same questions are in one chunk, and small tasks are combined."""
    bound = prepared_run(FakeModel()).bound
    assert [len(chunk) for chunk in chunks_of(bound)] == [len(bound)]


KILLED = """
import sys
from assaymark.models.fake import FakeModel
from assaymark.runs.execute import execute
from assaymark.settings import environment
from assaymark.store import Store
from tests.runs.test_execute import prepared_run
model = FakeModel(delay_ms=float(sys.argv[2]))
print("ready", flush=True)
execute(prepared_run(model, limit=100), model, Store.open(sys.argv[1]))
"""


def _n_outputs(store: str) -> int:
    try:
        runs = Store.open(store, read_only=True).runs()
    except StoreError:
        return 0  # its tables are being made
    return runs[0].n_outputs if runs else 0


def test_kill_nine_loses_at_most_a_batch(tmp_path: Path) -> None:
    """A run killed with SIGKILL in the middle and run again equals an uninterrupted one to the bit."""
    killed, whole = str(tmp_path / "killed.sqlite"), str(tmp_path / "whole.sqlite")
    model = FakeModel()
    expected = execute(prepared_run(model, limit=100), model, Store.open(whole))
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, killed, "30"], cwd=root, stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stdout is not None
    process.stdout.readline()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _n_outputs(killed):
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    store = Store.open(killed)
    (row,) = store.runs()
    n_before = row.n_outputs
    assert n_before > 0
    assert row.status != "finished"
    again = CountingModel()
    result = execute(prepared_run(again, limit=100), again, store)
    assert result.run_id == expected.run_id
    assert len(again.asked) == Store.open(whole).run(expected.run_id).n_outputs - n_before
    assert stored_scores(store, result.run_id) == stored_scores(Store.open(whole), expected.run_id)
    for task in store.run(result.run_id).tasks:
        assert list(store.samples(result.run_id, task)) == list(Store.open(whole).samples(expected.run_id, task))
    assert store.verify() == []


class TokenModel(FakeModel):
    """Says of each output that it took ten tokens."""

    def answer(self, requests: Sequence[Request], **options: Any) -> Iterator[Output]:
        """Answer as the fake model does."""
        for output in super().answer(requests, **options):
            yield replace(output, n_context_tokens=7, n_tokens=3)


def test_an_attempt_records_its_work() -> None:
    """Tokens that were evaluated, and seconds; a repeated run did nothing and says nothing."""
    store = Store.open()
    run_id = execute(prepared_run(TokenModel()), TokenModel(), store).run_id
    work = store.attempts(run_id)[-1].summary["work"]
    assert isinstance(work, dict)
    assert work["n_tokens"] == 10 * store.run(run_id).n_outputs
    assert work["seconds"] > 0
    assert work["peak_bytes"] > 10**7
    execute(prepared_run(TokenModel()), TokenModel(), store)
    assert store.run(run_id).summary["work"] == work
