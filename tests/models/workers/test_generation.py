"""Texts written by workers: the same whoever writes them, and no process left behind."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalstone.engine.generation import GenerationPrompt
from evalstone.models.create import create_model
from evalstone.models.local.local_model import LocalModel
from evalstone.models.workers.pool import EnginePool
from evalstone.models.workers.ranges import GeneratedUnits, ranges_of_texts
from evalstone.records import Output, Progress, Request
from tests.models.local.test_generation import STORY, answers, asked, folder, prompts
from tests.models.workers.test_pool import processes_of

DRAWN: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "repeats": 3}


def requests() -> list[Request]:
    """Return prompts of real rows: some greedy with stops, some sampled thrice, one that does not fit."""
    texts = prompts()
    greedy = [asked(i, text, max_tokens=24, stop=(". ", "\n\n")) for i, text in enumerate(texts)]
    sampled = [asked(100 + i, text, max_tokens=16, **DRAWN) for i, text in enumerate(texts[-4:])]
    return [*greedy, *sampled, asked(200, STORY, max_tokens=512)]


def opened(n_workers: int) -> LocalModel:
    """Return the model with so many workers."""
    place = f"pretrained={folder('stories260K')},dtype=float32,device=cpu,n_threads=1"
    model = create_model("hf", place, workers=n_workers)
    assert isinstance(model, LocalModel)
    return model


@pytest.fixture(scope="module")
def alone() -> Iterator[dict[tuple[str, int], Output]]:
    """Return what one process writes."""
    model = opened(1)
    yield answers(model, requests())
    model.close()


prompt_lists = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(1, 4)), min_size=1, max_size=20
)


@settings(max_examples=100, deadline=None)
@given(prompt_lists, st.integers(1, 7))
def test_ranges_hold_every_text_once(given_prompts: list[tuple[list[int], int]], n_ranges: int) -> None:
    """However the line is cut, each prompt and repeat lies in one range, and a range gives its repeats in order."""
    made = [
        GenerationPrompt(np.asarray(tokens, dtype=np.int32), 5, repeats=tuple(range(n))) for tokens, n in given_prompts
    ]
    units = GeneratedUnits.of(made)
    parts = ranges_of_texts(units, n_ranges)
    assert sorted(i for part in parts for i in part.indices.tolist()) == list(range(len(units)))
    for part in parts:
        grouped = units.grouped(part.indices)
        flat = [(place, repeat) for place, repeats in grouped.items() for repeat in repeats]
        own = zip(units.places[part.indices].tolist(), units.repeats[part.indices].tolist(), strict=True)
        assert flat == list(own)


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [2, 3])
def test_texts_do_not_depend_on_the_number_of_workers(alone: dict[tuple[str, int], Output], n_workers: int) -> None:
    """Trap 9: greedy and sampled texts, ends, counts and failures of 2 and 3 workers are those of one process."""
    model = opened(n_workers)
    seen: list[Progress] = []
    together = answers(model, requests(), observe=seen.append)
    assert together == alone
    assert len({output.text for key, output in together.items() if key[0] == "task/100/0"}) > 1
    assert model.describe()["n_workers"] == n_workers
    assert seen[-1].n_outputs_done == seen[-1].n_outputs == len(alone)
    assert 0 < seen[-1].n_tokens_done <= seen[-1].n_tokens_distinct
    if n_workers == 2:
        assert _after_a_kill(model) == alone
        request = asked(0, STORY, max_tokens=20)
        assert "".join(model.stream(request)) == answers(model, [request])["task/0/0", 0].text
    pool = model.engine
    assert isinstance(pool, EnginePool)
    model.close()
    assert all(process.poll() is not None for process in processes_of(pool))


def _after_a_kill(model: LocalModel) -> dict[tuple[str, int], Output]:
    """Return what is written while the first worker is killed once the first text is there."""
    pool = model.engine
    assert isinstance(pool, EnginePool)
    found: dict[tuple[str, int], Output] = {}
    for output in model.answer(requests()):
        found[output.request_id, output.repeat] = output
        if len(found) == 2:  # the one that does not fit comes first
            processes_of(pool)[0].send_signal(signal.SIGKILL)
    assert len(pool._links.workers) == 1
    return found


DRIVER = """
import sys
from evalstone.models.create import create_model
from evalstone.records import GenerateQuery, GenerationSettings, Request

model = create_model("hf", {"pretrained": sys.argv[1], "dtype": "float32", "device": "cpu"}, workers=2)
drawn = GenerationSettings(max_tokens=400, do_sample=True, temperature=2.0, repeats=2000)
request = Request("t", 0, "s", ("Once",), (GenerateQuery(0, drawn),))
pool = model.engine
print(*(process.pid for process in pool._links.processes), flush=True)
for output in model.answer([request]):
    pass
"""


def _alive(pids: Sequence[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def _gone(pids: Sequence[int], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while _alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _alive(pids)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_driver(tmp_path: Path, kind: signal.Signals) -> None:
    """Killed or interrupted in the middle of writing, a driver leaves no worker behind."""
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc to see other processes")
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), folder("stories260K")]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert driver.stdout is not None
    workers = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(_alive(workers)) == 2
    time.sleep(0.3)
    driver.send_signal(kind)
    driver.wait(timeout=120)
    assert _gone(workers)
    driver.stdout.close()
