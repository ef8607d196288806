"""Showing a run of many samples takes the same number of queries and memory as a small one.

`docs/experiments/storage.md` has the seconds for 200,000 samples; the test has 50,000, because storing them
takes most of its time.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assaymark.records import Estimate, EstimateDetails, GenerateQuery, GenerationSettings, Output, Request, Score
from assaymark.store import Store
from tests.conftest import ROOT
from tests.store import examples

SIZES = {"small": 400, "large": 50_000}
STORED_AT_ONCE = 5000
PAGE_CACHE = 32_000  # KiB, of SQLite; filled only by what counts rows

LOOK = """
import json, re, sys
from pathlib import Path
from sqlalchemy import Engine, event
from assaymark.cli.main import main
queries = []
event.listen(Engine, "before_cursor_execute", lambda *given: queries.append(given[2]))
code = main(sys.argv[1:])
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps({"code": code, "n_queries": len(queries), "peak_kib": int(peak[1])}), file=sys.stderr)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from Linux's /proc"),
]


def store_run(store: Store, name: str, n_samples: int) -> None:
    """Store a finished run of one task with this name, with every second sample right."""
    run = store.open_run(examples.plan((name,), content=name, n_samples=n_samples), facts={})
    settings = GenerationSettings(max_tokens=8)
    for start in range(0, n_samples, STORED_AT_ONCE):
        samples = [examples.sample(name, index) for index in range(start, min(n_samples, start + STORED_AT_ONCE))]
        requests = [
            Request(name, each.index, each.sha256, (f"Q: {each.row['question']}\nA:",), (GenerateQuery(0, settings),))
            for each in samples
        ]
        store.add_requests(run.run_id, requests, samples)
        answers = [Output(each.id, 0, text="4", finish_reason="stop", n_tokens=1) for each in requests]
        store.add(run.run_id, run.attempt_id, answers)
        scores = [Score(each.id, "exact_match", float(each.sample_index % 2)) for each in requests]
        store.add_scores(run.run_id, scores, examples.SCORING)
    details: EstimateDetails = {"kind": "task", "path": (), "alias": name, "primary": True, "unit": "proportion"}
    estimate = Estimate(name, "exact_match", "none", 0.5, 0.49, 0.51, "wilson", n_samples, details=details)
    store.save_estimates(run.run_id, [estimate])
    store.close_run(run.run_id, run.attempt_id, "finished")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with a small and a large run, the large one last."""
    path = str(tmp_path_factory.mktemp("large") / "store.sqlite")
    with Store.open(path) as store:
        for name, n_samples in SIZES.items():
            store_run(store, name, n_samples)
    return path


def look(place: str, *words: str) -> tuple[str, dict[str, Any]]:
    """Run a command in a process of its own; return its output, and its numbers of queries and bytes."""
    command = [sys.executable, "-c", LOOK, *words, "--store", place]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("words", "shown", "grows_by"),
    [
        ([], "exact_match", PAGE_CACHE),
        (["--samples"], "what is 9 + 9?", 0),
        (["--samples", "--wrong"], "what is 18 + 18?", 0),
        (["--samples", "--json"], "what is 9 + 9?", 0),
    ],
)
def test_a_large_run_opens_like_a_small_one(place: str, words: list[str], shown: str, grows_by: int) -> None:
    """Showing 50,000 samples, or the first of them, takes the queries and memory of 400."""
    cost = {}
    for run, name in (("last~1", "small"), ("last", "large")):
        inputs = [part for word in words for part in ([word, name] if word == "--samples" else [word])]
        printed, cost[name] = look(place, "show", run, *inputs)
        assert shown in printed
        assert name in printed
    assert cost["large"]["code"] == cost["small"]["code"] == 0
    assert cost["large"]["n_queries"] == cost["small"]["n_queries"] < 50
    assert cost["large"]["peak_kib"] - cost["small"]["peak_kib"] < grows_by + 6_000
