"""The driver's side of its workers: it starts or invites processes and exchanges messages with them.

Processes started by torchrun or accelerate find the driver through an invitation in a folder of this user; the others
are children that read the address from their standard input. A worker without its driver ends.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Literal, Protocol, cast

from assaymark.engine.generation import GenerationDefaults, GenerationPrompt
from assaymark.engine.options import EngineInfo, EngineSettings
from assaymark.engine.spans import IntArray
from assaymark.errors import ModelUnavailable
from assaymark.models.text.stops import StopTexts
from assaymark.models.text.tokenizer import TokenizerSource
from assaymark.models.token_engine import SpanResult, TextResult
from assaymark.models.workers.ranges import RangeReport
from assaymark.platforms import replace_file
from assaymark.settings import cache_folder, process_of, thread_count

POLL_SECONDS = 0.2
START_SECONDS = 600.0  # for all workers to load the model
GRACE_SECONDS = 1.0  # for a worker to end by itself: a busy one does not read the order to close


WorkerOrder = (
    tuple[Literal["load"], str, EngineSettings, TokenizerSource, int]
    | tuple[Literal["score"], IntArray, IntArray, IntArray]
    | tuple[Literal["generate"], list[GenerationPrompt], StopTexts]
    | tuple[Literal["close"]]
)
"""What the driver sends: a model to load, by its place, and the worker's number; tokens, offsets and scored tokens of
spans; prompts to continue; or that the worker is no longer needed."""

WorkerMessage = (
    tuple[Literal["ready"], EngineInfo, GenerationDefaults]
    | tuple[Literal["failed"], str]
    | tuple[Literal["results"], list[tuple[int, SpanResult | TextResult]], RangeReport, bool]
)
"""What a worker sends: the engine that it has loaded; why it failed; or results by their place in the range that it
was sent, its progress, and whether the range is finished."""


@dataclass(slots=True, eq=False)
class RemoteWorker(ABC):
    """One remote process, and the description of its engine once that is loaded."""

    info: EngineInfo | None = None  # None: still loading
    defaults: GenerationDefaults | None = None

    @abstractmethod
    def send(self, message: WorkerOrder) -> None:
        """Send a message; if the worker has ended, the next wait reports it."""

    def note_loaded(self, message: WorkerMessage) -> None:
        """Record the description of the engine from the worker's first message.

        Raises: ModelUnavailable if the message says that the model cannot be loaded.
        """
        if message[0] == "failed":
            raise ModelUnavailable(str(message[1]))
        if message[0] == "ready":
            _, self.info, self.defaults = message


class Links(Protocol):
    """The driver's side of workers, on this machine or a cluster."""

    n_workers: int

    @property
    def workers(self) -> Sequence[RemoteWorker]:
        """The workers that are left."""

    def messages(self) -> Iterator[tuple[WorkerMessage | None, RemoteWorker]]:
        """Yield messages that arrive within a moment; None from a worker that has ended."""

    def lost(self, what: str) -> ModelUnavailable:
        """Return the error `what`, with the last message of the workers."""

    def close(self) -> None:
        """End all workers."""


@dataclass(slots=True, eq=False, kw_only=True)
class _ConnectedWorker(RemoteWorker):
    """A process of this machine, reached through a connection."""

    connection: "Connection[WorkerOrder, WorkerMessage]"

    def send(self, message: WorkerOrder) -> None:
        """Send a message; if the worker has ended, the next wait reports it."""
        with suppress(OSError):
            self.connection.send(message)


class WorkerLinks:
    """Starts workers on this machine, waits until each has loaded the model, and transports messages."""

    def __init__(self, source: str, settings: EngineSettings, n_workers: int, tokenizer: TokenizerSource) -> None:
        self.n_workers = n_workers
        self._name = source
        threads = settings.n_threads or max(1, thread_count() // n_workers)
        self._load = (source, replace(settings, n_threads=threads), tokenizer)
        self._n_welcomed = 0
        self._is_closing = False
        self.workers: list[_ConnectedWorker] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._arrived: list[Connection[WorkerOrder, WorkerMessage]] = []
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._key = secrets.token_bytes(32)
        self._listener = Listener(authkey=self._key, backlog=64)
        threading.Thread(target=self._accept, name="workers", daemon=True).start()
        n_joined = max(0, process_of()[1] - 1)
        for _ in range(max(1, n_workers - n_joined)):
            self._start()
        self._invitation = invite(self._listener.address, self._key) if n_joined else None
        try:
            self._wait_for_all()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        """Start one process; address and key go through its standard input, which no one else can read."""
        command = [sys.executable, "-m", "assaymark.models.workers.process"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._log)
        self.processes.append(process)
        if process.stdin is not None:
            with process.stdin:
                process.stdin.write(json.dumps({"address": self._listener.address, "key": self._key.hex()}).encode())

    def _accept(self) -> None:
        """Accept connections until all is closed; those without the key are rejected."""
        while not self._is_closing:
            try:
                self._arrived.append(cast("Connection[WorkerOrder, WorkerMessage]", self._listener.accept()))
            except (OSError, EOFError, AuthenticationError):
                continue

    def _welcome(self) -> None:
        """Send newly connected workers the order to load the model."""
        while self._arrived:
            worker = _ConnectedWorker(connection=self._arrived.pop())
            self.workers.append(worker)
            worker.send(("load", *self._load, self._n_welcomed))
            self._n_welcomed += 1

    def _wait_for_all(self) -> None:
        """Return once every worker is ready.

        Raises: ModelUnavailable if a worker cannot load the model, ends, or does not connect in time.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._welcome()
            for message, worker in self.messages():
                if message is None:
                    raise self.lost("a worker ended while it loaded the model")
                worker.note_loaded(message)
            n_ready = sum(worker.info is not None for worker in self.workers)
            if n_ready == self.n_workers:
                return
            died = [process for process in self.processes if process.poll() is not None]
            if died or time.monotonic() > deadline:
                raise self.lost(f"{n_ready} of {self.n_workers} workers became ready")

    def lost(self, what: str) -> ModelUnavailable:
        """Return the error `what`, with the last line of the workers' log."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        details = f"; last line of its log: {lines[-1]}" if lines else ""
        return ModelUnavailable(f"{what} (model '{self._name}'){details}; run with fewer --workers, or more memory")

    def messages(self) -> Iterator[tuple[WorkerMessage | None, RemoteWorker]]:
        """Yield messages that arrive within a moment; None from a worker that has ended."""
        by_connection = {worker.connection: worker for worker in self.workers}
        for ready in wait(list(by_connection), timeout=POLL_SECONDS) if by_connection else ():
            worker = by_connection[ready]  # type: ignore[index]
            try:
                yield worker.connection.recv(), worker
            except (EOFError, OSError):
                self.workers.remove(worker)
                yield None, worker
        if not by_connection:
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """End all workers."""
        if self._invitation is not None:
            self._invitation.unlink(missing_ok=True)
        for worker in self.workers:
            worker.send(("close",))
            worker.connection.close()
        self.workers.clear()
        self._is_closing = True
        with suppress(OSError, EOFError, AuthenticationError):
            Client(self._listener.address, authkey=self._key).close()  # wakes the thread that waits for connections
        self._listener.close()
        for process in self.processes:
            try:
                process.wait(timeout=GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()


def folder_of_launch() -> Path:
    """Return the folder shared by processes of one launcher: they have the same parent, and it is this user's."""
    return cache_folder() / "launched" / str(os.getppid())


def invite(address: object, key: bytes) -> Path:
    """Write the driver's address and key to a file that only this user can read, and return its path."""
    path = folder_of_launch() / "invitation.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        json.dump({"address": address, "key": key.hex()}, file)
    replace_file(draft, path)
    return path
