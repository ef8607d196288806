"""The process that holds a lease, and whether it is known to have ended.

A process number alone is not enough: numbers are reused, and two containers may share a host name. So an owner also has
the machine's boot and process namespace, and the tick at which the process began. If all of these match, the operating
system can report that the process has ended; otherwise only the lease's expiry shows it.
"""

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from assaymark.platforms import is_running

STARTED = 19  # the 22nd field of /proc/PID/stat, counted after the process's name and from its state


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds a lease, and a token for the lease."""

    host: str
    process_id: int
    machine: str  # boot and process namespace; empty if the system does not report them
    started: int | None  # ticks after the boot; None if the system does not report it
    token: str  # distinguishes the leases of one process

    @classmethod
    def this_process(cls, token: str) -> Self:
        """Return the current process as an owner."""
        process_id = os.getpid()
        return cls(socket.gethostname()[:255], process_id, _machine(), _started(process_id), token)

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Return the owner in a text by `to_text`; None for any other text."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None

    def to_text(self) -> str:
        """Return the owner as JSON."""
        return json.dumps(asdict(self))

    @property
    def is_this_process(self) -> bool:
        """Whether the current process is the owner."""
        return self == Owner.this_process(self.token)

    @property
    def is_known_dead(self) -> bool:
        """Whether the process is known to have ended; False if this machine cannot know."""
        if self.host != socket.gethostname()[:255] or self.machine != _machine():
            return False
        if not is_running(self.process_id):
            return True
        if self.started is None:
            return False
        return _started(self.process_id) != self.started


def _machine() -> str:
    """Return an id of this boot of this machine and this process namespace; empty if the system has none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(process_id: int) -> int | None:
    """Return the tick at which a process began; None for a zombie, or on a system without Linux's /proc."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in {"Z", "X"} else int(fields[STARTED])
    except (OSError, ValueError, IndexError):
        return None
