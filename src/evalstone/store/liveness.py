"""Which process holds a lease, and whether it is known to have ended.

A process number alone says little: numbers are reused, and two containers may share a host name. So an owner also
carries the machine's boot and process namespace, and the tick at which the process began. Where all of these agree,
the operating system can say at once that the process is gone; in every other case only the lease's expiry tells.
"""

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

__all__ = ["Owner"]

STARTED = 19  # the 22nd field of /proc/PID/stat, counted after the process's name and from its state


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds a lease, and which of its leases this is."""

    host: str
    process_id: int
    machine: str  # boot and process namespace; empty where the system does not say
    started: int | None  # ticks after the boot; None where the system does not say
    token: str  # tells the leases of one process apart

    @classmethod
    def this_process(cls, token: str) -> Self:
        """Return the present process as an owner."""
        process_id = os.getpid()
        return cls(socket.gethostname()[:255], process_id, _machine(), _started(process_id), token)

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Return what `to_text` wrote; None for anything else."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None

    def to_text(self) -> str:
        """Return the owner as JSON."""
        return json.dumps(asdict(self))

    @property
    def is_this_process(self) -> bool:
        """Whether the present process is the owner."""
        return self == Owner.this_process(self.token)

    @property
    def is_known_dead(self) -> bool:
        """Whether the process is known to have ended; False where this machine cannot tell."""
        if self.host != socket.gethostname()[:255] or self.machine != _machine():
            return False
        try:
            os.kill(self.process_id, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # it is another user's
        if self.started is None:
            return False
        return _started(self.process_id) != self.started


def _machine() -> str:
    """Return what tells this boot of this machine, and this process namespace, from every other one."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(process_id: int) -> int | None:
    """Return when a process began; None where it is a zombie, or the system does not say as Linux does."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in {"Z", "X"} else int(fields[STARTED])
    except (OSError, ValueError, IndexError):
        return None
