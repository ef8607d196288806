"""Signals: the first waits for the responses in flight and stores them, a second one stops at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assaymark.store import Store

ROOT = Path(__file__).parents[2]
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "4"
generation_kwargs: {until: ["\\n"]}
metric_list: [{metric: exact_match}]
"""
AT_ONCE = 4
COMMAND = "import sys; from assaymark import stopping; stopping.GRACE_SECONDS = float(sys.argv.pop(1)); "
COMMAND += "from assaymark.cli.main import main; sys.exit(main())"
LOCAL = """
import os, signal, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
import assaymark
from assaymark.cli.signals import handle_signals

folder, store = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder)
seen = []
n_forward = 0

def signal_within_the_third_window(*_):
    global n_forward
    n_forward += bool(seen and seen[-1].model.n_tokens_done)  # loading and the engine's self-check come first
    if n_forward == 2:
        print(seen[-1].model.n_outputs_done, flush=True)
        os.kill(os.getpid(), signal.SIGINT)

model.register_forward_pre_hook(signal_within_the_third_window)
model.model.register_forward_pre_hook(signal_within_the_third_window)
try:
    with handle_signals():
        assaymark.evaluate(
            (model, AutoTokenizer.from_pretrained(folder)), "demo_stories", store=store, observe=seen.append
        )
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def serve() -> Iterator[Callable[[float], "subprocess.Popen[str]"]]:
    """Return a function that starts a server with this many seconds for each response."""
    running: list[subprocess.Popen[str]] = []

    def start(seconds: float) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.models.server.slow_server", str(seconds)]
        running.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def run(folder: Path, server: "subprocess.Popen[str]", grace: float = 30.0) -> "subprocess.Popen[str]":
    """Start a run of forty samples against the server; return once its first four requests are in flight."""
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1/chat/completions"
    (folder / "sums.yaml").write_text(TASK)
    (folder / "sums.jsonl").write_text("".join(f'{{"question": "What is {i}?"}}\n' for i in range(40)))
    arguments = f"model=slow,base_url={url},num_concurrent={AT_ONCE}"
    command = [sys.executable, "-c", COMMAND, str(grace), "run", "--model", "local-chat-completions", "--model_args"]
    command += [arguments, "--tasks", str(folder / "sums.yaml"), "--apply_chat_template", "--quiet", "--store"]
    process = subprocess.Popen(
        [*command, str(folder / "store.sqlite")], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENAI_API_KEY": ""},
    )  # fmt: skip
    for _ in range(AT_ONCE):
        assert server.stdout.readline() == "began\n", process.communicate()[1]
    return process


def n_outputs(folder: Path) -> tuple[str, int, int]:
    """Return the run's status, its number of stored outputs, and how many of them failed."""
    with Store.open(str(folder / "store.sqlite")) as store:
        row = store.run("last")
        return row.status, row.n_outputs, row.n_failed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_responses_in_flight_are_stored(
    tmp_path: Path, serve: Callable[[float], "subprocess.Popen[str]"], number: signal.Signals, code: int
) -> None:
    """After the first signal nothing more is sent, and the response of every sent request is stored."""
    server = serve(1.5)
    process = run(tmp_path, server)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "waiting for the responses in flight, at most 30 s" in errors
    assert "Traceback" not in errors
    assert n_outputs(tmp_path) == ("interrupted", AT_ONCE, 0)
    server.kill()
    assert server.stdout is not None
    assert server.stdout.read().split() == ["ended"] * AT_ONCE


def test_a_second_signal_ends_at_once(tmp_path: Path, serve: Callable[[float], "subprocess.Popen[str]"]) -> None:
    """A second signal stops without waiting."""
    process = run(tmp_path, serve(30.0))
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("waiting for the responses in flight" in line for line in iter(process.stderr.readline, ""))
    assert process.poll() is None
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert time.monotonic() - begun < 10
    assert n_outputs(tmp_path) == ("interrupted", 0, 0)


def test_the_wait_is_bounded(tmp_path: Path, serve: Callable[[float], "subprocess.Popen[str]"]) -> None:
    """The wait for responses is no longer than the grace period."""
    process = run(tmp_path, serve(60.0), grace=1.0)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert 0.9 < time.monotonic() - begun < 15
    assert "at most 1 s" in errors


@pytest.mark.slow
def test_the_current_window_is_stored(tmp_path: Path, shared_dir: Path) -> None:
    """A signal within a window of a local model ends the run after it: the window's outputs are stored."""
    model = shared_dir / "models" / "stories260K"
    if not model.is_dir():
        pytest.skip(f"no {model}")
    store = tmp_path / "store.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ASSAYMARK_THREADS": "1"}
    command = [sys.executable, "-c", LOCAL, str(model), str(store)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 130, done.stderr
    n_before = int(done.stdout.split()[0])
    with Store.open(str(store)) as opened:
        row = opened.run("last")
        assert row.status == "interrupted"
        assert row.n_outputs > n_before
