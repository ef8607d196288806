"""Equal commands at the same time: one evaluates, the others follow it, and all end with the same result."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from assaymark.store import Store

ROOT = Path(__file__).parents[2]
LIMIT = 24
TASK = "demo_letters_nature"
PROGRAM = """
import sys
from assaymark.errors import AssaymarkError
from assaymark.models.fake import FakeModel
from assaymark.runs.execute import execute
from assaymark.store import Store
from tests.runs.test_execute import prepared_run, stored_scores
path, asked, wait, delay_ms = sys.argv[1:]

class Logging(FakeModel):
    def answer(self, requests, **watching):
        for output in super().answer(requests, **watching):
            with open(asked, "a") as file:
                file.write(f"{output.request_id} {output.ask_index}\\n")
            yield output

model = Logging(delay_ms=float(delay_ms))
seen = []
store = Store.open(path)
try:
    result = execute(
        prepared_run(model, ["TASK"], LIMIT), model, store, wait=wait == "wait",
        observe=lambda progress: seen.append(progress.model.n_outputs_done),
        notify=lambda line: print(line, flush=True),
    )
except AssaymarkError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
scores = hash(str(stored_scores(store, result.run_id)))
print("result", result.status, result.n_answered_now, scores, seen == sorted(seen))
""".replace("LIMIT", str(LIMIT)).replace("TASK", TASK)


def start(store: Path, asked: Path, wait: str = "wait", delay_ms: int = 20) -> "subprocess.Popen[str]":
    """Start a process that evaluates the fake model and logs each query."""
    command = [sys.executable, "-c", PROGRAM, str(store), str(asked), wait, str(delay_ms)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, env=environment)


def wait_for_lines(path: Path, n: int) -> None:
    """Wait until n queries were logged."""
    deadline = time.monotonic() + 60
    while not path.exists() or len(path.read_text().splitlines()) < n:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_three_equal_commands_evaluate_each_sample_once(tmp_path: Path) -> None:
    """Of three that are started together one evaluates; the others name it, follow it and end with its result."""
    store, asked = tmp_path / "store.sqlite", tmp_path / "asked"
    processes = [start(store, asked, delay_ms=300) for _ in range(3)]
    printed = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], printed
    counts = Counter(asked.read_text().splitlines())
    assert set(counts.values()) == {1}
    assert len({line.rpartition(" ")[0] for line in counts}) == LIMIT
    results = [out.strip().splitlines()[-1].split() for out, _ in printed]
    assert {(words[1], words[3], words[4]) for words in results} == {("finished", results[0][3], "True")}
    assert sorted(int(words[2]) for words in results) == [0, 0, len(counts)]
    pids = {str(process.pid) for process in processes}
    followed = [m[1] for out, _ in printed for m in re.finditer(r"being written by process (\d+) on \S+ since 20", out)]
    assert len(followed) >= 2
    assert set(followed) < pids
    with Store.open(str(store)) as opened:
        assert opened.verify() == []


@pytest.mark.slow
def test_one_that_does_not_wait_is_refused(tmp_path: Path) -> None:
    """Without waiting the second command exits at once with code 4 and the writer's name; the first continues."""
    store, asked = tmp_path / "store.sqlite", tmp_path / "asked"
    first = start(store, asked, delay_ms=400)
    wait_for_lines(asked, 3)
    second = start(store, asked, "refuse")
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 4
    assert f"being written by process {first.pid} on" in errors
    assert first.communicate(timeout=60)[0].startswith("result finished")


@pytest.mark.slow
def test_a_follower_continues_where_a_killed_writer_was(tmp_path: Path) -> None:
    """When the writer is killed, a follower evaluates the rest, and nothing is lost."""
    store, asked = tmp_path / "store.sqlite", tmp_path / "asked"
    first = start(store, asked, delay_ms=600)
    wait_for_lines(asked, 10)
    second = start(store, asked)
    assert second.stdout is not None
    assert f"process {first.pid} on" in second.stdout.readline()
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    out, errors = second.communicate(timeout=60)
    assert out.startswith("result finished"), errors
    with Store.open(str(store)) as opened:
        assert opened.run("last").n_samples == LIMIT
        assert opened.verify() == []


@pytest.mark.slow
def test_the_command_refuses_with_exit_code_4(tmp_path: Path) -> None:
    """`run --no-wait` names the writer in one line on stderr; `run` without it follows and shows the table."""
    store = tmp_path / "store.sqlite"
    command = [sys.executable, "-m", "assaymark", "run", "--model", "fake", "--model_args", "delay_ms=600"]
    command += ["--tasks", TASK, "--limit", str(LIMIT), "--store", str(store)]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (Store.exists(str(store)) and any(run.n_outputs for run in Store.open(str(store)).runs())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    refused = subprocess.run([*command, "--no-wait"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 4, refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert f"being written by process {first.pid} on" in refused.stderr
    followed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    out, _ = first.communicate(timeout=60)
    assert followed.returncode == first.returncode == 0
    assert "following its progress (--no_wait refuses)" in followed.stderr
    tables = [text.partition("\nrun ")[0].replace("the run was already in the store; no request was sent", "").strip()
              for text in (out, followed.stdout)]  # fmt: skip
    assert tables[0] == tables[1]
