"""The processes that vLLM starts: they end with their owner, leave Ctrl-C to it, and what they write is kept aside."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import pytest

from assaymark.models.vllm.processes import OWNER, interruptible, own_processes

FOLLOWER = """
import sys, time
from assaymark.models.vllm.processes import follow
follow()
print("follows", flush=True)
time.sleep(60)
"""
WRITER = """
import os, subprocess, sys
from assaymark.models.vllm.processes import Aside
aside = Aside()
with aside.starting():
    print("of ours", file=sys.stderr)
    subprocess.run([sys.executable, "-c", CHILD], check=False)
print("after", file=sys.stderr)
print(aside.cause_of(RuntimeError("Engine core initialization failed. See root cause above.")))
""".replace(
    "CHILD",
    repr("import sys; print('noise', file=sys.stderr); raise ValueError('no memory for the cache')"),
)


def follower(owner: int, host: str) -> "subprocess.Popen[str]":
    """Return a process that follows an owner."""
    variables = {**os.environ, OWNER: f"{owner}@{host}"}
    process = subprocess.Popen([sys.executable, "-c", FOLLOWER], env=variables, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "follows\n"
    return process


def test_a_process_ends_with_its_owner_and_not_by_ctrl_c() -> None:
    """An owner that is killed takes its followers along; an interrupt, which a terminal sends to all, does not."""
    pytest.importorskip("psutil")
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    following = follower(owner.pid, socket.gethostname())
    following.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        following.wait(0.5)
    owner.kill()
    owner.wait()
    assert following.wait(30) == 1


def test_a_process_of_another_machine_or_of_nobody_is_left_alone() -> None:
    """A number is a process of the machine that named it; the owner itself, and other users of vLLM, name none."""
    elsewhere = follower(os.getpid(), "another-machine")
    elsewhere.send_signal(signal.SIGINT)
    assert elsewhere.wait(30) == -signal.SIGINT


@pytest.mark.parametrize(
    ("level", "shown", "cause"),
    [
        ("ERROR", ["of ours", "after"], "ValueError: no memory for the cache"),
        ("INFO", ["of ours", "noise", "after"], "Engine core initialization failed. See root cause above."),
    ],
)
def test_what_they_write_is_kept_aside_unless_it_is_asked_for(level: str, shown: list[str], cause: str) -> None:
    """This process's own lines are shown, and the cause of a failure is found in the others."""
    variables = {**os.environ, "VLLM_LOGGING_LEVEL": level}
    done = subprocess.run([sys.executable, "-c", WRITER], env=variables, capture_output=True, text=True, check=True)
    assert [line for line in done.stderr.splitlines() if line in {"of ours", "noise", "after"}] == shown
    assert done.stdout.strip() == cause


def test_ctrl_c_ends_a_start_that_passes_over_it() -> None:
    """While it waits for its processes, vLLM catches KeyboardInterrupt; the block ends all the same."""

    def start() -> None:
        with interruptible(), suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_environment_is_as_it_was_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is named only while vLLM starts, also where that fails; what was there before is there again."""
    monkeypatch.delenv(OWNER, raising=False)
    with suppress(ValueError), own_processes():
        assert os.environ[OWNER].startswith(f"{os.getpid()}@")
        raise ValueError
    assert OWNER not in os.environ
    monkeypatch.setenv(OWNER, "1@elsewhere")
    with own_processes():
        pass
    assert os.environ[OWNER] == "1@elsewhere"
