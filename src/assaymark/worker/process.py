"""Starting the process of a step, listening to it, and ending it with everything it started."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any

from assaymark.worker.sandbox import command_in_sandbox

__all__ = ["Ended", "run_step"]

POLL_SECONDS = 0.5
GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a step ended. `made` is what it returned, None where it failed."""

    made: Mapping[str, Any] | None
    fault: str = "ours"
    reason: str = ""
    log: str = ""


def run_step(
    spec: Mapping[str, Any],
    folder: Path,
    environment: Mapping[str, str],
    heard: Callable[[Mapping[str, Any]], None],
    *,
    seconds: float,
    sandbox: str | None = None,
    readable: Sequence[Path] = (),
) -> Ended:
    """Run a step in a process of its own; return how it ended.

    Args:
        spec: of `job_steps`.
        folder: of the job.
        environment: all variables of the process.
        heard: called with each progress, and at least every POLL_SECONDS with an empty one; what it raises ends the
            process and is raised again.
        seconds: after which the process is ended.
        sandbox: from `find_bubblewrap`; None: a plain process, with the network.
        readable: what the sandbox may read.
    """
    file = folder / f"{spec['step']}.json"
    file.write_text(json.dumps(spec), encoding="utf-8")
    command = [sys.executable, "-m", "assaymark.worker.child", str(file)]
    if sandbox is not None:
        command = command_in_sandbox(sandbox, command, folder, readable, environment)
    log = folder / f"{spec['step']}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # ends with this process, however that ends
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )
    try:
        last = _listen(process, heard, time.monotonic() + seconds)
    finally:
        _end(process)
    text = log.read_text(encoding="utf-8", errors="replace")
    return _outcome(last, process.returncode, text, seconds)


def _listen(
    process: "subprocess.Popen[bytes]", heard: Callable[[Mapping[str, Any]], None], deadline: float
) -> Mapping[str, Any]:
    """Return the last object that the process printed."""
    lines: Queue[bytes | None] = Queue()
    if process.stdout is None:
        return {}
    Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    last: Mapping[str, Any] = {}
    while True:
        try:
            line = lines.get(timeout=POLL_SECONDS)
        except Empty:
            line = b""
        if line is None:
            process.wait(GRACE_SECONDS)
            return last
        if time.monotonic() > deadline:
            return {"timeout": True}
        said = _object(line)
        last = said or last
        heard(said)


def _read(stream: IO[bytes], lines: "Queue[bytes | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _object(line: bytes) -> Mapping[str, Any]:
    with suppress(ValueError):
        value = json.loads(line)
        if isinstance(value, dict):
            return value
    return {}


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def _outcome(last: Mapping[str, Any], status: int | None, log: str, seconds: float) -> Ended:
    if last.get("timeout"):
        return Ended(None, "theirs", f"it took longer than the {seconds / 3600:.1f} h that a job may take", log)
    if "failed" in last:
        return Ended(None, str(last["failed"]), str(last["reason"]), log)
    if status == 0 and ("runs" in last or "model" in last):
        return Ended(last, log=log)
    if status in {-signal.SIGKILL, 128 + signal.SIGKILL}:
        return Ended(None, "ours", "the process was killed (out of memory?)", log)
    return Ended(None, "ours", f"the process ended with status {status} and without a result", log)
