"""Workers: ranges that cover everything evenly, and the same results with any number of workers."""

import heapq
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assaymark.engine.options import EngineSettings
from assaymark.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowReport
from assaymark.engine.trie import build_trie, plan_trie
from assaymark.errors import ModelUnavailable, PromptTooLong, UsageError
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.spans import chunks_of
from assaymark.models.text.tokenizer import TokenizerSource
from assaymark.models.workers.links import WorkerLinks
from assaymark.models.workers.pool import EnginePool
from assaymark.models.workers.ranges import TokenCosts, ranges_of
from assaymark.records import Progress
from tests.models.local.test_local_model import answers, folder, opened, real_requests

SETTINGS = EngineSettings(dtype="float32", device="cpu", n_threads=1, attention="trie")
sequences = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=9), min_size=1, max_size=30)


def random_spans(n: int, *, n_shots: int = 60, vocabulary: int = 500, seed: int = 0) -> SpanBatch:
    """Return spans like those of benchmarks: blocks of shots, questions of many lengths, four endings each."""
    rng = np.random.default_rng(seed)
    shots = [rng.integers(3, vocabulary, n_shots).tolist() for _ in range(5)]
    lists = []
    for i in range(n):
        question = rng.integers(3, vocabulary, int(rng.integers(5, 60))).tolist()
        lists += [[1, *shots[i % 5], *question, int(rng.integers(3, vocabulary)), int(end)] for end in (1, 2, 3, 4)]
    return SpanBatch.from_lists(lists, [2] * len(lists))


def processes_of(pool: EnginePool) -> list[subprocess.Popen[bytes]]:
    """Return the processes that a pool has started on this machine."""
    assert isinstance(pool._links, WorkerLinks)
    return pool._links.processes


@settings(max_examples=200, deadline=None)
@given(sequences, st.integers(1, 9), st.integers(1, 8))
def test_ranges_contain_every_span_once(lists: list[list[int]], n_workers: int, smallest: int) -> None:
    """However the work is split, each span is in one range, and a range's cost is its trie's size."""
    spans = SpanBatch.from_lists(lists, [1] * len(lists))
    parts = ranges_of(spans, n_workers, smallest=smallest)
    assert sorted(i for part in parts for i in part.indices.tolist()) == list(range(len(lists)))
    for part in parts:
        assert part.n_distinct == build_trie(spans.subset(part.indices)).n_nodes


def test_a_range_has_a_minimum_size() -> None:
    """Ranges are measured by the tokens to compute, not by those requested: shots are requested again and again."""
    spans = random_spans(100)
    n_distinct = build_trie(spans).n_nodes
    parts = ranges_of(spans, 64, smallest=1000)
    assert len(parts) <= n_distinct // 1000
    assert len(spans.tokens) > 5 * n_distinct


def ended(seconds: Sequence[float], n_workers: int) -> float:
    """Return when the last worker ends relative to the mean, if each takes the next range when it is free."""
    ends = [0.0] * n_workers
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends) * n_workers / sum(seconds)


@pytest.mark.slow
def test_64_workers_are_balanced_within_5_percent() -> None:
    """Although ranges take up to a tenth more or less than their shape predicts, the last worker ends within 5%.

    No more than a tenth of the tokens is computed again where the line is cut.
    """
    spans = random_spans(16_000)
    costs = TokenCosts(1.0, 0.002, 1.0)
    parts = ranges_of(spans, 64, costs)
    rng = np.random.default_rng(0)
    seconds = [spent(spans.subset(part.indices), costs) * rng.uniform(0.9, 1.1) for part in parts]
    assert ended(seconds, 64) < 1.05
    assert sum(part.n_distinct for part in parts) < 1.1 * build_trie(spans).n_nodes


def spent(spans: SpanBatch, costs: TokenCosts) -> float:
    """Return the cost of these spans, counted on their trie."""
    plan = plan_trie(spans)
    return costs.token * plan.n_distinct + costs.position * plan.attended + costs.row * plan.n_rows


def test_deep_tokens_cost_more() -> None:
    """If half of the work has long contexts, ranges there contain fewer tokens and cost the same."""
    rng = np.random.default_rng(0)
    lists = []
    for shots in (rng.integers(100, 200, 20).tolist(), rng.integers(200, 300, 2000).tolist()):
        lists += [[*shots, *rng.integers(3, 90, 50).tolist()] for _ in range(400)]
    spans = SpanBatch.from_lists(lists, [1] * len(lists))
    costs = TokenCosts(1.0, 0.001, 0.0)
    parts = ranges_of(spans, 8, costs)[:8]
    spendings = [spent(spans.subset(part.indices), costs) for part in parts]
    assert max(spendings) / min(spendings) < 1.1
    assert parts[0].n_distinct > 1.5 * parts[-1].n_distinct


def test_costs_follow_from_a_models_shape() -> None:
    """Embeddings cost nothing, a tied one is counted once, and an unknown shape makes all tokens equal."""
    shape = {"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 100}
    assert TokenCosts.of(shape, 1800) == TokenCosts(2000.0, 96.0, 1600.0)
    assert TokenCosts.of({**shape, "tie_word_embeddings": False}, 2600) == TokenCosts(2000.0, 96.0, 1600.0)
    assert TokenCosts.of({}, 1800) == TokenCosts.of(shape, None) == TokenCosts()


@pytest.fixture(scope="module")
def two_workers() -> Iterator[LocalModel]:
    """Return a model with two workers, started once for this file."""
    model = create_model("hf", f"pretrained={folder('stories260K')},dtype=float32,device=cpu", workers=2)
    assert isinstance(model, LocalModel)
    yield model
    model.close()


@pytest.mark.slow
def test_two_workers_outputs_equal_one_processs(two_workers: LocalModel) -> None:
    """Every output of a run with two workers equals that of one process up to float32 rounding."""
    alone = answers(opened("stories260K"), real_requests())
    together = answers(two_workers, real_requests())
    again = answers(two_workers, real_requests())
    assert two_workers.describe()["n_workers"] == 2
    assert together.keys() == again.keys() == alone.keys()
    for key, output in alone.items():
        assert together[key].total_nats == pytest.approx(output.total_nats, abs=1e-4, rel=1e-6)
        assert together[key].is_greedy == output.is_greedy
        assert together[key].cache_key == output.cache_key


@pytest.mark.slow
def test_a_batch_begins_before_the_previous_one_is_finished(two_workers: LocalModel) -> None:
    """Each batch but the last still has ranges in progress when the next is added, and every span has one result."""
    pool = two_workers.engine
    assert isinstance(pool, EnginePool)
    batches = [random_spans(150, seed=seed) for seed in range(3)]
    queue = pool.queue()
    results: list[tuple[int, int]] = []
    for number, batch in enumerate(batches):
        results += [(of, result.index) for of, result in queue.add(batch)]
        assert sum(of == number for of, _ in results) < len(batch)
    results += [(of, result.index) for of, result in queue.finish()]
    assert sorted(results) == [(number, index) for number, batch in enumerate(batches) for index in range(len(batch))]


@pytest.mark.slow
def test_overlapping_pieces_are_computed_and_counted_once(
    two_workers: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests read in many small pieces give the outputs of one process; queries shared by pieces are scored once."""
    alone = answers(opened("stories260K"), real_requests())
    cut = partial(chunks_of, first=500, size=2_000)
    assert len(list(cut(real_requests()))) > 4
    monkeypatch.setattr("assaymark.models.local.local_model.chunks_of", lambda requests, **_: cut(requests))
    reported: list[Progress] = []
    twice = [*real_requests(), *(replace(request, task="again") for request in real_requests())]
    outputs = list(two_workers.answer(twice, observe=reported.append))
    assert len(outputs) == len({(o.request_id, o.ask_index) for o in outputs}) == 2 * len(alone)
    for output in outputs:
        item = alone[output.request_id.replace("again", "task"), output.ask_index]
        assert output.total_nats == pytest.approx(item.total_nats, abs=1e-4, rel=1e-6)
    assert reported[-1].n_outputs_done == reported[-1].n_outputs == len(outputs)
    assert reported[-1].n_tokens_done == reported[-1].n_tokens_distinct


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(two_workers: LocalModel) -> None:
    """If one of two workers is killed in the middle, the other takes its range, and each span has one result."""
    pool = two_workers.engine
    assert isinstance(pool, EnginePool)
    spans = random_spans(600)
    seen: list[WindowReport] = []
    results: list[SpanScore | SpanFailure] = []
    for result in pool.score(spans, on_window=seen.append):
        results.append(result)
        if len(results) == 1:
            processes_of(pool)[0].send_signal(signal.SIGKILL)
    assert sorted(result.index for result in results) == list(range(len(spans)))
    assert all(isinstance(result, SpanScore) for result in results)
    assert pool.n_workers == two_workers.describe()["n_workers"] == 1  # only living workers are counted
    assert seen[-1].n_tokens_done == seen[-1].n_tokens
    longer = SpanBatch.from_lists([[1] * 10, [1] * 5000, [1] * 11], [1, 1, 1])
    (failed,) = [result for result in pool.score(longer) if isinstance(result, SpanFailure)]
    assert (failed.index, failed.kind) == (1, PromptTooLong)  # the worker's failure, under the caller's index
    given_up = pool.score(spans)
    next(given_up)
    del given_up  # the worker is still busy with it, and the next call must not see its results
    few = spans.subset(range(8))
    assert sorted(result.index for result in pool.score(few)) == list(range(8))
    processes_of(pool)[1].send_signal(signal.SIGKILL)
    with pytest.raises(ModelUnavailable, match="no worker is left"):
        list(pool.score(spans))
    two_workers.close()
    assert all(process.poll() is not None for process in processes_of(pool))


@pytest.mark.slow
def test_a_model_that_does_not_load_is_one_clear_line(tmp_path: Path) -> None:
    """If a worker cannot load the model, the driver raises the error that one process would raise."""
    (tmp_path / "config.json").write_text('{"model_type": "no such"}')
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded"):
        WorkerLinks(str(tmp_path), SETTINGS, 1, TokenizerSource(tmp_path))


def test_a_loaded_model_has_no_workers() -> None:
    """An object cannot be sent to other processes."""
    with pytest.raises(UsageError, match="workers"):
        LocalModel.from_loaded(object(), object(), workers=2)


RANK = """
import json, sys
from assaymark.models.workers.process import serve_if_launched
from assaymark.models.create import create_model
from assaymark.records import LoglikelihoodQuery, Request

if serve_if_launched():
    sys.exit(0)
model = create_model("hf", {"pretrained": sys.argv[1], "dtype": "float32", "device": "cpu", "n_threads": 1})
queries = tuple(LoglikelihoodQuery(i, f" dog number {i}") for i in range(400))
outputs = list(model.answer([Request("t", 0, "s", ("Once upon a time there was a",), queries)]))
print(json.dumps({"n": len(outputs), "n_workers": model.describe()["n_workers"], "nats": outputs[0].total_nats}))
model.close()
"""
LAUNCHER = """
import os, subprocess, sys
ranks = []
for rank in (1, 0):
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    ranks.append(subprocess.Popen([sys.executable, *sys.argv[1:]], env=env))
sys.exit(max(abs(rank.wait()) for rank in reversed(ranks)))
"""


@pytest.mark.slow
def test_launched_processes_are_workers_of_one_run(tmp_path: Path, own_home: Path) -> None:
    """Of two processes started by a launcher, one drives and prints; the other scores for it and ends with it."""
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    command = [sys.executable, str(tmp_path / "launcher.py"), str(tmp_path / "rank.py"), folder("stories260K")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
    reported: list[Any] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(each["n"], each["n_workers"]) for each in reported] == [(400, 2)]
    assert not list(own_home.rglob("invitation.json"))


def test_a_rank_without_work_ends_with_its_driver(own_home: Path, tmp_path: Path) -> None:
    """If rank 0 needs no model (everything is stored), the other ranks end when it does."""
    (tmp_path / "rank.py").write_text(
        "import sys\nfrom assaymark.models.workers.process import serve_if_launched\nserve_if_launched()\n"
    )
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    command = [sys.executable, str(tmp_path / "launcher.py"), str(tmp_path / "rank.py")]
    subprocess.run(command, check=True, capture_output=True, timeout=120, env={**os.environ})  # a rank would wait 600 s
