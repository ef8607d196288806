"""Whether the process that holds a lease is known to have ended."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.store.liveness import Owner

SAY_OWNER = "from assaymark.store.liveness import Owner; print(Owner.this_process('x').to_text(), flush=True); input()"
linux_only = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells when a process began")


def child() -> tuple["subprocess.Popen[str]", Owner]:
    """Start a process that waits, and return it as an owner."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAY_OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    owner = Owner.from_text(process.stdout.readline())
    assert owner is not None
    return process, owner


def test_a_process_that_ended_is_known_dead() -> None:
    """A process of this machine is alive until it ends, and known to have ended from then on."""
    process, owner = child()
    assert not owner.is_known_dead
    process.communicate("\n")
    assert owner.is_known_dead


@linux_only
def test_a_killed_process_that_nobody_reaped_is_known_dead() -> None:
    """A zombie still has its number, but has ended."""
    process, owner = child()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert owner.is_known_dead
    process.communicate()


def test_of_other_machines_nothing_is_known() -> None:
    """A process of another host, another boot or another container is never reported as ended."""
    process, owner = child()
    process.communicate("\n")
    assert not replace(owner, host="elsewhere").is_known_dead
    assert not replace(owner, machine="another boot").is_known_dead


@linux_only
def test_a_reused_number_is_another_process() -> None:
    """A process that began at another tick than the owner did is not the owner."""
    owner = Owner.this_process("x")
    assert owner.started is not None
    assert not owner.is_known_dead
    assert replace(owner, started=owner.started - 1).is_known_dead


def test_an_owner_is_read_back() -> None:
    """An owner is the same after it was stored; a released or damaged one is none."""
    owner = Owner.this_process("x")
    assert Owner.from_text(owner.to_text()) == owner
    assert owner.is_this_process
    assert not replace(owner, process_id=owner.process_id + 1).is_this_process
    assert [Owner.from_text(text) for text in ("", "5", "[1]", "{}", '{"host": 1}')] == [None] * 5
