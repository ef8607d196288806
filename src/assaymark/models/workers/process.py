"""The worker's side of `workers`: a process that loads a model and computes the ranges it receives.

Started by the driver (`python -m assaymark.models.workers.process`), or by torchrun or accelerate as one of several
equal processes: then rank 0 drives the run, and the others become its workers. Without its driver a worker ends.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import TYPE_CHECKING, cast

from assaymark.engine.generation import GenerationPrompt, GenerationReport
from assaymark.engine.options import EngineSettings
from assaymark.engine.spans import IntArray, SpanBatch, WindowReport
from assaymark.errors import AssaymarkError, ModelUnavailable
from assaymark.models.text.stops import StopTexts
from assaymark.models.text.tokenizer import TokenizerSource, load_tokenizer
from assaymark.models.token_engine import SpanResult, TextResult
from assaymark.models.workers.links import POLL_SECONDS, START_SECONDS, WorkerMessage, WorkerOrder, folder_of_launch
from assaymark.models.workers.ranges import RangeReport
from assaymark.platforms import collect_garbage_rarely, is_running
from assaymark.records import JsonValue
from assaymark.settings import process_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from assaymark.engine.engine import Engine
    from assaymark.engine.seq2seq import Seq2SeqEngine


class _WorkerServer:
    """One worker: loads a model, then computes the ranges it receives."""

    def __init__(self, connection: "Connection[WorkerMessage, WorkerOrder]") -> None:
        self._connection = connection
        self._engine: Engine | Seq2SeqEngine  # from the first order, which is to load it
        self._source: TokenizerSource | None = None
        self._tokenizer: PreTrainedTokenizerBase | None = None  # only needed to generate

    def serve(self) -> None:
        """Execute the driver's orders until it sends "close" or ends."""
        with suppress(EOFError, OSError):
            while True:
                order = self._connection.recv()
                if order[0] == "close":
                    break
                try:
                    if order[0] == "load":
                        self._load(*order[1:])
                    elif order[0] == "score":
                        self._score(*order[1:])
                    else:
                        self._generate(*order[1:])
                except AssaymarkError as error:
                    self._connection.send(("failed", str(error)))
                except (OSError, EOFError):
                    raise
                except Exception as error:  # noqa: BLE001 - every error must reach the driver
                    self._connection.send(("failed", f"a worker failed with {type(error).__name__}: {error}"))

    def _load(self, source: str, settings: EngineSettings, tokenizer: TokenizerSource, number: int) -> None:
        """Load the engine, on this worker's own device if there are several."""
        from assaymark.engine.seq2seq import load_engine
        from assaymark.models.passed_checks import PassedChecks

        if settings.device in ("auto", "cuda"):
            settings = replace(settings, device=_device_of(number, settings.device))
        self._engine = load_engine(source, settings, PassedChecks())
        self._source = tokenizer
        self._connection.send(("ready", self._engine.info, self._engine.generation_defaults))

    def _score(self, tokens: IntArray, offsets: IntArray, n_scored: IntArray) -> None:
        """Send scores after each window."""
        sender = _Sender(self._connection)

        def report_progress(window: WindowReport) -> None:
            sender.send(RangeReport(window.n_tokens_done, window.n_distinct_done))

        for result in self._engine.score(SpanBatch(tokens, offsets, n_scored), on_window=report_progress):
            sender.results.append((result.index, result))
        sender.send(sender.report, is_last=True)

    def _generate(self, prompts: Sequence[GenerationPrompt], stops: StopTexts) -> None:
        """Send texts as they finish, and the progress a few times a second."""
        if self._tokenizer is None and self._source is not None:
            self._tokenizer = load_tokenizer(self._source)
        sender = _Sender(self._connection)
        units = [(index, repeat) for index, prompt in enumerate(prompts) for repeat in prompt.repeats]
        positions = {unit: position for position, unit in enumerate(units)}

        def report_progress(report: GenerationReport) -> None:
            counts = (report.n_generated, report.n_slot_steps, report.n_sequences_done)
            sender.send_now_and_then(RangeReport(0, report.n_prompt_done, *counts))

        for result in self._engine.generate(prompts, stop=stops.check(self._tokenizer), on_step=report_progress):
            sender.results.append((positions[result.index, result.repeat], result))
        sender.send(sender.report, is_last=True)


class _Sender:
    """Collects results to send with the next report."""

    def __init__(self, connection: "Connection[WorkerMessage, WorkerOrder]") -> None:
        self._connection = connection
        self._sent = time.monotonic()
        self.results: list[tuple[int, SpanResult | TextResult]] = []
        self.report = RangeReport()

    def send(self, report: RangeReport, *, is_last: bool = False) -> None:
        """Send the collected results and the progress of the range."""
        self.report, self._sent = report, time.monotonic()
        self._connection.send(("results", list(self.results), report, is_last))
        self.results.clear()

    def send_now_and_then(self, report: RangeReport) -> None:
        """Send if results have been collected or the last report is old."""
        self.report = report
        if self.results or time.monotonic() - self._sent > POLL_SECONDS:
            self.send(report)


def serve(connection: "Connection[WorkerMessage, WorkerOrder]") -> None:
    """Execute the driver's orders until it sends "close" or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C and then sends an order or ends
    serve_orders(connection)


def serve_orders(connection: "Connection[WorkerMessage, WorkerOrder]") -> None:
    """Execute the orders from a connection until "close" or its end; works in any thread of any process."""
    _WorkerServer(connection).serve()


def _device_of(number: int, wanted: str) -> str:
    from assaymark.engine.memory import cuda_count

    count = cuda_count()
    return f"cuda:{number % count}" if count else wanted


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, even in the middle of a computation."""
    while os.getppid() == parent and is_running(parent):  # on Windows a parent's number does not change
        time.sleep(POLL_SECONDS)
    os._exit(1)


def serve_if_launched() -> bool:
    """Return whether this process was started as one of several by a launcher and has served as a worker to the end.

    Every command that computes calls it first: rank 0 gets False at once and drives the run; any other rank returns
    True when rank 0 has ended, and should then exit.

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
    while is_running(driver):
        connection = _connect(_read(lead.with_name("invitation.json")))
        if connection is None:
            time.sleep(POLL_SECONDS)
        else:
            serve(connection)
    return True


def _is_fresh(path: Path) -> bool:
    """Return whether a file was written since our launcher started; process ids are reused."""
    with suppress(OSError):
        launcher = Path(f"/proc/{os.getppid()}")
        started = launcher.stat().st_ctime if launcher.exists() else 0.0
        return path.stat().st_mtime >= started - 1 and path.stat().st_size > 0
    return False


def _read(path: Path) -> Mapping[str, JsonValue] | None:
    with suppress(OSError, ValueError):
        value = json.loads(path.read_text(encoding="utf-8"))
        return value if isinstance(value, dict) else None
    return None


def _connect(invitation: Mapping[str, JsonValue] | None) -> "Connection[WorkerMessage, WorkerOrder] | None":
    """Return a connection to the driver, or None if nothing listens there (an old invitation)."""
    target: str | tuple[str, int]
    match invitation:
        case {"address": [str(host), int(port)], "key": str(key)}:
            target = host, port
        case {"address": str(target), "key": str(key)}:
            pass
        case _:
            return None
    with suppress(OSError, EOFError, AuthenticationError):
        return cast("Connection[WorkerMessage, WorkerOrder]", Client(target, authkey=bytes.fromhex(key)))
    return None


def main() -> int:
    """Read the driver's address from standard input, and serve it."""
    collect_garbage_rarely()
    connection = _connect(json.loads(sys.stdin.read()))
    threading.Thread(target=_end_with, args=(os.getppid(),), name="parent", daemon=True).start()
    if connection is None:
        print("the driver is gone", file=sys.stderr)  # noqa: T201 - read by the driver from our log
        return 1
    serve(connection)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
