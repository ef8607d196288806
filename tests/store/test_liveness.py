"""A run whose writer is gone is not taken for one that is being written."""

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evalstone.store.liveness import is_dead

HERE = socket.gethostname()


def ago(**span: float) -> str:
    """Return a time of the past as the store writes it."""
    return (datetime.now(UTC) - timedelta(**span)).isoformat().replace("+00:00", "Z")


def test_a_process_that_ended_is_dead() -> None:
    """A number that no process has now is known to be gone; of another machine nothing is known."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert is_dead(HERE, done.pid, ago(seconds=1))
    assert not is_dead("elsewhere", done.pid, ago(seconds=1))


@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="only Linux tells when a process began")
def test_a_number_that_came_round_again_is_another_process() -> None:
    """This process began after an attempt of last year, so that one is not running; its own attempt is."""
    assert is_dead(HERE, os.getpid(), ago(days=365))
    assert not is_dead(HERE, os.getpid(), ago(seconds=0))
    assert not is_dead(HERE, os.getpid(), ago(seconds=-3600))
