"""Several processes that use one store, and a kill in the middle of writing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from assaymark.store import Store
from tests.store import examples

ROOT = Path(__file__).parents[2]

WRITER = """
import sys, time
from assaymark.store import Store
from tests.store import examples
url, content, n_samples, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
waits_after = [int(number) for number in sys.argv[5:]]
plan = examples.plan(n_samples=n_samples, content=content)
with Store.open(url) as store:
    run = store.open_run(plan, facts={})
    asked = examples.requests(n_samples=n_samples)
    store.add_requests(run.run_id, asked, examples.samples(n_samples=n_samples))
    for request in store.unanswered(run.run_id, asked):
        store.add(run.run_id, run.attempt_id, examples.outputs_for(request, content))
        store.add_scores(run.run_id, examples.scores_for(request), examples.SCORING)
        print(request.sample_index, flush=True)
        if request.sample_index in waits_after:
            sys.stdin.readline()
        time.sleep(pause)
    store.close_run(run.run_id, run.attempt_id, "finished")
"""


def start(
    url: str, content: str, n_samples: int, pause: float = 0.0, waits_after: tuple[int, ...] = ()
) -> "subprocess.Popen[str]":
    """Start a process that writes a run; after the samples `waits_after` it waits for a line on its standard input."""
    command = [sys.executable, "-c", WRITER, url, content, str(n_samples), str(pause), *map(str, waits_after)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_two_processes_write_two_runs_at_once(url: str) -> None:
    """Runs that are written at the same time, in a store that both try to create, are both complete."""
    writers = [start(url, content, 400) for content in "ab"]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    with Store.open(url) as store:
        assert [(run.status, run.n_outputs, run.n_scores) for run in store.runs()] == [("finished", 1600, 800)] * 2
        assert store.verify() == []


def test_a_reader_sees_whole_batches_while_a_run_is_written(url: str) -> None:
    """A reader never waits for long, never sees less than before, and finds everything valid at any moment."""
    Store.open(url).close()
    writer = start(url, "a", 300, pause=0.005, waits_after=(99, 199))
    assert writer.stdin is not None
    seen: list[int] = []
    to_see = [400, 800]  # all that is added before the writer waits
    slowest = 0.0
    with Store.open(url, read_only=True) as reader:
        while writer.poll() is None:
            begun = time.monotonic()
            if rows := reader.runs():
                seen.append(rows[0].n_outputs)
                assert reader.verify() == []
                if to_see and seen[-1] == to_see[0]:
                    del to_see[0]
                    writer.stdin.write("\n")
                    writer.stdin.flush()
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(0.05)
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
        assert reader.run("last").n_outputs == 1200
    assert seen == sorted(seen)
    assert not to_see, f"seen only {seen}"
    assert slowest < 10


def test_the_file_alone_is_the_store_once_its_processes_ended(tmp_path: Path) -> None:
    """A script that never closes the store leaves no journal beside it, so a copy of the file has everything."""
    program = WRITER.replace("with Store.open(url) as store:", "store = Store.open(url)\nif True:")
    path = tmp_path / "s.sqlite"
    subprocess.run(
        [sys.executable, "-c", program, str(path), "a", "20", "0"], cwd=ROOT, check=True, capture_output=True
    )
    assert [each.name for each in tmp_path.iterdir()] == ["s.sqlite"]
    copy = path.rename(tmp_path / "copy.sqlite")
    with Store.open(str(copy)) as store:
        assert [(run.status, run.n_outputs) for run in store.runs()] == [("finished", 80)]


def test_a_kill_loses_at_most_one_batch(url: str) -> None:
    """After kill -9 the store is intact, lacks at most the last batch, and the same command does only the rest."""
    writer = start(url, "a", 1000, pause=0.01)
    assert writer.stdout is not None
    arrived: list[tuple[float, int]] = []
    begun = time.monotonic()
    for line in writer.stdout:
        arrived.append((time.monotonic(), int(line)))
        if time.monotonic() - begun > 2.5 and len(arrived) > 50:
            os.kill(writer.pid, signal.SIGKILL)
            break
    killed = time.monotonic()
    writer.wait()
    writer.stdout.close()
    if writer.stderr is not None:
        writer.stderr.close()
    long_ago = sum(1 for moment, _ in arrived if moment < killed - 1.5)
    with Store.open(url) as store:
        assert store.verify() == []
        run = store.run("last")
        assert run.status == "interrupted"
        stored = run.n_outputs // 4
        assert long_ago <= stored <= 1000
        again = store.open_run(examples.plan(n_samples=1000), facts={})
        left = store.unanswered(again.run_id, examples.requests(n_samples=1000))
        assert len(left) == 1000 - stored
        for request in left:
            store.add(again.run_id, again.attempt_id, examples.outputs_for(request))
            store.add_scores(again.run_id, examples.scores_for(request), examples.SCORING)
        store.close_run(again.run_id, again.attempt_id, "finished")
        assert store.verify() == []
        whole = list(store.samples(again.run_id, "letters"))
    assert [list(record.outputs) for record in whole] == [
        examples.outputs_for(request) for request in examples.requests(n_samples=1000)
    ]
