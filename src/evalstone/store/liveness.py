"""Whether the process that writes a run is still there: a killed one leaves its run as running."""

import os
import socket
import time
from datetime import datetime
from pathlib import Path

__all__ = ["is_dead"]

CLOCK_SLACK_SECONDS = 60.0  # by how much a machine's clock may have been set since


def is_dead(host: str, process_id: int, started_at: str) -> bool:
    """Return whether the process that began an attempt then is known to have ended; of other machines we know nothing.

    Numbers of processes come round again, after a restart or in a container soon: a younger process is another one.
    """
    if host != socket.gethostname():
        return False
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    began = _began(process_id)
    return began is not None and began > datetime.fromisoformat(started_at).timestamp() + CLOCK_SLACK_SECONDS


def _began(process_id: int) -> float | None:
    """Return when a process began, in seconds since 1970; None where the system does not tell as Linux does."""
    try:
        after_name = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        seconds_up = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        began_after = int(after_name.split()[19]) / os.sysconf("SC_CLK_TCK")  # the 22nd field: ticks after the boot
    except (OSError, ValueError, IndexError):
        return None
    return time.time() - seconds_up + began_after
