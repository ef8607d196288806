"""The other end of `workers`: a process that loads the model it is told and scores the spans it is sent.

Started by the driver (`python -m evalstone.models.worker_process`), or by torchrun or accelerate as one of several
equal processes: then rank 0 drives the one run, and the others come here. Without its driver a worker ends.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from evalstone.engine.options import EngineSettings
from evalstone.engine.spans import SpanBatch, SpanScore, WindowReport
from evalstone.errors import EvalstoneError, ModelUnavailable
from evalstone.models.workers import POLL_SECONDS, START_SECONDS, folder_of_launch
from evalstone.settings import process_of


def serve(connection: Connection) -> None:
    """Do what the driver says until it says stop or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle; it tells us, or vanishes
    engine: Any = None
    with suppress(EOFError, OSError):
        while True:
            order, *content = connection.recv()
            if order == "close":
                break
            try:
                if order == "load":
                    engine = _load(*content)
                    connection.send(("ready", engine.info))
                else:
                    _score(connection, engine, SpanBatch(*content))
            except EvalstoneError as error:
                connection.send(("failed", str(error)))
            except (OSError, EOFError):
                raise
            except Exception as error:  # noqa: BLE001 - the driver must hear of it, whatever it is
                connection.send(("failed", f"a worker failed with {type(error).__name__}: {error}"))


def _load(source: str, settings: EngineSettings, number: int) -> Any:
    """Return the engine, on a device of this worker's own where there are several."""
    from evalstone.engine.engine import Engine

    if settings.device in ("auto", "cuda"):
        settings = replace(settings, device=_device_of(number, settings.device))
    return Engine.load(source, settings=settings)


def _device_of(number: int, wanted: str) -> str:
    from evalstone.engine.devices import cuda_count

    count = cuda_count()
    return f"cuda:{number % count}" if count else wanted


def _score(connection: Connection, engine: Any, spans: SpanBatch) -> None:
    """Send results after each window: a list of (index, nats, greedy, error), and how far it has come."""
    results: list[tuple[int, float | None, bool | None, str | None]] = []
    report = (0, 0)

    def send(window: WindowReport) -> None:
        nonlocal report
        report = (window.n_tokens_done, window.n_distinct_done)
        connection.send(("results", list(results), report, False))
        results.clear()

    for result in engine.score(spans, on_window=send):
        if isinstance(result, SpanScore):
            results.append((result.index, result.total_nats, result.is_greedy, None))
        else:
            results.append((result.index, None, None, result.message))
    connection.send(("results", results, report, True))


def serve_if_launched() -> bool:
    """Say whether this process was one of several started by a launcher and has served as a worker until the end.

    To be called first by every command that answers: rank 0 gets False at once and drives the run; any other rank
    returns True when rank 0 is gone, and should then leave without doing anything.

    Raises: ModelUnavailable if there is no rank 0 on this machine.
    """
    rank, size = process_of()
    if size < 2:
        return False
    lead = folder_of_launch() / "driver.json"
    if rank == 0:
        lead.parent.mkdir(parents=True, exist_ok=True)
        lead.write_text(json.dumps({"pid": os.getpid()}), encoding="utf-8")
        return False
    deadline = time.monotonic() + START_SECONDS
    while not _is_fresh(lead):
        if time.monotonic() > deadline:
            raise ModelUnavailable(
                f"process {rank} of {size} found no rank 0 on this machine within {START_SECONDS:.0f} s; "
                "processes of one run must be on one machine"
            )
        time.sleep(POLL_SECONDS)
    driver = int(json.loads(lead.read_text(encoding="utf-8"))["pid"])
    while _is_alive(driver):
        connection = _connect(_read(lead.with_name("invitation.json")))
        if connection is None:
            time.sleep(POLL_SECONDS)
        else:
            serve(connection)
    return True


def _is_fresh(path: Path) -> bool:
    """Say whether a file was written since our launcher started; process numbers come again."""
    with suppress(OSError):
        launcher = Path(f"/proc/{os.getppid()}")
        started = launcher.stat().st_ctime if launcher.exists() else 0.0
        return path.stat().st_mtime >= started - 1 and path.stat().st_size > 0
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(path: Path) -> Mapping[str, Any] | None:
    with suppress(OSError, ValueError):
        value = json.loads(path.read_text(encoding="utf-8"))
        return value if isinstance(value, dict) else None
    return None


def _connect(invitation: Mapping[str, Any] | None) -> Connection | None:
    """Return a connection to the driver, None where nobody listens (an old invitation)."""
    if invitation is None:
        return None
    address = invitation["address"]
    with suppress(OSError, EOFError, AuthenticationError):
        place = tuple(address) if isinstance(address, list) else address
        return Client(place, authkey=bytes.fromhex(invitation["key"]))
    return None


def main() -> int:
    """Read where the driver listens from standard input, and serve it."""
    connection = _connect(json.loads(sys.stdin.read()))
    if connection is None:
        print("the driver is gone", file=sys.stderr)  # noqa: T201 - read by the driver from our log
        return 1
    serve(connection)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
