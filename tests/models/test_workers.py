"""Workers: ranges that cover everything evenly, and the same results whoever scores them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalstone.engine.options import EngineSettings
from evalstone.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowReport
from evalstone.engine.trie import build_trie
from evalstone.errors import ModelUnavailable, UsageError
from evalstone.models.create import create_model
from evalstone.models.local import LocalModel
from evalstone.models.tokenizer import TokenizerSource
from evalstone.models.work_ranges import ranges_of
from evalstone.models.worker_links import WorkerLinks
from evalstone.models.workers import EnginePool
from tests.models.test_local import answers, folder, opened, real_requests

SETTINGS = EngineSettings(dtype="float32", device="cpu", n_threads=1, attention="trie")
sequences = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=9), min_size=1, max_size=30)


def random_spans(n: int, *, n_shots: int = 60, vocabulary: int = 500, seed: int = 0) -> SpanBatch:
    """Return spans as benchmarks make them: blocks of shots, questions of many lengths, four endings each."""
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
@given(sequences, st.integers(1, 9))
def test_ranges_hold_every_span_once(lists: list[list[int]], n_ranges: int) -> None:
    """However the line is cut, each span lies in one range, and a range's cost is its trie's size."""
    spans = SpanBatch.from_lists(lists, [1] * len(lists))
    parts = ranges_of(spans, n_ranges)
    assert sorted(i for part in parts for i in part.indices.tolist()) == list(range(len(lists)))
    assert len(parts) <= n_ranges
    for part in parts:
        assert part.n_distinct == build_trie(spans.subset(part.indices)).n_nodes


def test_a_range_is_not_too_small_to_be_worth_starting() -> None:
    """Ranges are counted by the tokens left to compute, not by those asked: shots are asked again and again."""
    spans = random_spans(100)
    n_distinct = build_trie(spans).n_nodes
    parts = ranges_of(spans, 64, smallest=1000)
    assert len(parts) == n_distinct // 1000
    assert len(spans.tokens) > 5 * n_distinct


def test_64_workers_are_balanced_within_5_percent() -> None:
    """By distinct tokens, the costliest of 64 ranges exceeds the mean by less than 5%, and sharing is hardly lost."""
    spans = random_spans(12_000)
    parts = ranges_of(spans, 64)
    costs = np.asarray([part.n_distinct for part in parts])
    assert len(parts) == 64
    assert costs.max() / costs.mean() < 1.05
    assert costs.sum() < 1.02 * build_trie(spans).n_nodes


@pytest.fixture(scope="module")
def two_workers() -> Iterator[LocalModel]:
    """Return a model with two workers, started once for this file."""
    model = create_model("hf", f"pretrained={folder('stories260K')},dtype=float32,device=cpu", workers=2)
    assert isinstance(model, LocalModel)
    yield model
    model.close()


@pytest.mark.slow
def test_two_workers_give_what_one_process_gives(two_workers: LocalModel) -> None:
    """Trap 9: every output of a run with two workers equals that of one process within float32's noise."""
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
def test_a_killed_worker_loses_nothing(two_workers: LocalModel) -> None:
    """One of two workers is killed in the middle: the other takes its range, and each span has one result."""
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
    assert len(pool._links.workers) == 1
    assert seen[-1].n_tokens_done == seen[-1].n_tokens
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
    """What a worker cannot load is told by the driver, as one process would tell it."""
    (tmp_path / "config.json").write_text('{"model_type": "no such"}')
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded"):
        WorkerLinks(str(tmp_path), SETTINGS, 1, TokenizerSource(tmp_path))


def test_a_loaded_model_has_no_workers() -> None:
    """An object cannot be handed to other processes."""
    with pytest.raises(UsageError, match="workers"):
        LocalModel.from_loaded(object(), object(), workers=2)


RANK = """
import json, sys
from evalstone.models.worker_process import serve_if_launched
from evalstone.models.create import create_model
from evalstone.records import LoglikelihoodAsk, Request

if serve_if_launched():
    sys.exit(0)
model = create_model("hf", {"pretrained": sys.argv[1], "dtype": "float32", "device": "cpu", "n_threads": 1})
asks = tuple(LoglikelihoodAsk(i, f" dog number {i}") for i in range(400))
outputs = list(model.answer([Request("t", 0, "s", ("Once upon a time there was a",), asks)]))
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
    """Of two processes that a launcher started, one drives and prints; the other scores for it and ends with it."""
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    command = [sys.executable, str(tmp_path / "launcher.py"), str(tmp_path / "rank.py"), folder("stories260K")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
    told: list[Any] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(each["n"], each["n_workers"]) for each in told] == [(400, 2)]
    assert not list(own_home.rglob("invitation.json"))


def test_a_rank_without_work_ends_with_its_driver(own_home: Path, tmp_path: Path) -> None:
    """Where rank 0 needs no model (everything is stored), the other ranks end when it does."""
    (tmp_path / "rank.py").write_text(
        "import sys\nfrom evalstone.models.worker_process import serve_if_launched\nserve_if_launched()\n"
    )
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    command = [sys.executable, str(tmp_path / "launcher.py"), str(tmp_path / "rank.py")]
    subprocess.run(command, check=True, capture_output=True, timeout=120, env={**os.environ})  # a rank would wait 600 s
