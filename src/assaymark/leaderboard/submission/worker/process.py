"""Starting the process of a step, listening to it, and ending it with everything it started.

The process reads its job from standard input and reports progress on standard output, which `messages` parses. Its
standard error is the log, the end of which is kept in memory. So process and worker share no file.

In its sandbox there are only the system's programs, this Python with its packages, the model, the data and the board's
task files, read-only; one folder of the job can be written. There is no network, no home, none of the host's variables
and no rights. Without bubblewrap the evaluation runs as a plain process, still without the host's variables.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from typing import IO

import assaymark
from assaymark.leaderboard.submission.worker.messages import (
    MOST_LINE,
    BadMessage,
    Failed,
    Message,
    Stage,
    Started,
    read_message,
)
from assaymark.limits.bubblewrap import LIBRARIES, SYSTEM, OpenedPaths, WorkingBubblewrap
from assaymark.limits.resources import Cgroup, Resources, Watch
from assaymark.platforms import end_with_pipes, not_here

if sys.platform == "win32":
    raise not_here("evaluating submissions")

POLL_SECONDS = 0.2
LONGEST_LOG = 200_000  # bytes of its end
PIECE = 1 << 16
_OPENCL = ("OpenCL",)
_SSL = ("ssl/certs", "ssl/openssl.cnf", "ca-certificates")  # of /etc/ssl no more: it holds private keys
_DEVICES = ("nvidia*", "dri", "kfd")
# -I: neither the working directory, nor variables, nor the home's packages decide which modules are imported. This very
# package is, also where it lies in no folder of installed packages.
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import assaymark.leaderboard.submission.worker; del sys.path[0]; "
    "sys.path += [each for each in sys.argv[2:] if each not in sys.path]; "
    "from assaymark.leaderboard.submission.worker.child import main; sys.exit(main())"
)


@dataclass(frozen=True, slots=True)
class StepPlace:
    """The place where a step runs, with its limits."""

    folder: Path  # may be written; has the empty working directory `cwd`
    environment: Mapping[str, str]  # all variables of the process
    limits: Resources
    seconds: float  # after which it is ended
    sandbox: WorkingBubblewrap | None = None  # None: a plain process, with the network
    readable: Sequence[Path] = ()  # what the sandbox may read


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended.

    made: its last message, None where it failed.
    fault: infrastructure | submission | killed. It is killed if it exceeded a limit of memory, processes or disk, ended
        without a result, or claims itself that the submission is not at fault, which proves nothing.
    """

    made: Message | None
    fault: str = "infrastructure"
    reason: str = ""
    log: str = ""


def run_step(spec: Mapping[str, object], place: StepPlace, heard: Callable[[Stage | None], None]) -> StepEnd:
    """Run a step in a process of its own; return how it ended.

    Args:
        heard: called several times a second with the latest progress, None if there is nothing new; an error that it
            raises ends the process and is raised again.
    """
    working = place.folder / "cwd"
    package = Path(assaymark.__file__).resolve().parent
    command = [sys.executable, "-I", "-c", START, str(package.parent), *_package_folders()]
    if place.sandbox is not None:
        command = job_command(place.sandbox, command, place.folder, place.readable, place.environment, place.limits)
    group = Cgroup.create(place.limits)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # ends with this process, however that ends
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=working,
        env=dict(place.environment),
        start_new_session=True,
    )
    try:
        if group is not None:
            group.add(process.pid)
        line = json.dumps({**spec, "limits": asdict(place.limits)}).encode() + b"\n"
        Thread(target=_send, args=(process, line), daemon=True).start()  # it may be longer than a pipe holds
        listening = _Listening(process, str(spec["step"]), place)
        listening.until_it_ends(heard)
    finally:
        end_with_pipes(process)
        if group is not None:
            group.remove()
    return listening.outcome()


def _send(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    if process.stdin is not None:
        with suppress(OSError, ValueError):  # the process has ended; how is seen elsewhere
            process.stdin.write(line)
            process.stdin.flush()


class _Listening:
    """Listens to the messages and the log of a process until it ends or breaks a rule."""

    def __init__(self, process: "subprocess.Popen[bytes]", step: str, place: StepPlace) -> None:
        self._process, self._step, self._place = process, step, place
        self._line = b""
        self._log = b""
        self._has_started = False
        self._stage: Stage | None = None
        self._last: Message | None = None
        self._broken: tuple[str, str] | None = None  # whose fault, and why it was ended

    def until_it_ends(self, heard: Callable[[Stage | None], None]) -> None:
        """Listen until the process has ended, or must be ended."""
        deadline = time.monotonic() + self._place.seconds
        watch = Watch(self._process.pid, self._place.limits, self._place.folder)
        with selectors.DefaultSelector() as selector:
            selector.register(_pipe(self._process.stdout), selectors.EVENT_READ, self._take_said)
            selector.register(_pipe(self._process.stderr), selectors.EVENT_READ, self._take_log)
            while self._broken is None:
                has_ended = self._process.poll() is not None
                ready = selector.select(0 if has_ended else POLL_SECONDS)
                for key, _ in ready:
                    piece = os.read(key.fd, PIECE)
                    if not piece:
                        selector.unregister(key.fileobj)
                    key.data(piece)
                if has_ended and not ready:
                    return
                heard(self._stage)
                self._stage = None
                if time.monotonic() > deadline:
                    hours = self._place.seconds / 3600
                    self._broken = ("submission", f"it took longer than the {hours:.1f} h that a job may take")
                elif (limit := watch.broken()) is not None:
                    self._broken = ("killed", limit)

    def _take_log(self, piece: bytes) -> None:
        self._log = (self._log + piece)[-LONGEST_LOG:]

    def _take_said(self, piece: bytes) -> None:
        *lines, self._line = (self._line + piece).split(b"\n")
        try:
            if len(self._line) > MOST_LINE:
                raise BadMessage(f"a message of more than {MOST_LINE:,} bytes")  # noqa: TRY301
            for line in lines:
                message = read_message(line, self._step)
                if self._last is not None:
                    raise BadMessage("a message after its last one")  # noqa: TRY301
                if isinstance(message, Started):
                    self._has_started = True
                elif isinstance(message, Stage):
                    self._stage = message
                else:
                    self._last = message
        except BadMessage as error:
            fault = "submission" if self._step == "evaluate" else "infrastructure"  # other steps run only our own code
            self._broken = (fault, f"the process of the step '{self._step}' sent {error}")

    def outcome(self) -> StepEnd:
        """Return how the step ended."""
        log, status, last = self._log.decode("utf-8", "replace"), self._process.returncode, self._last
        if self._broken is not None:
            return StepEnd(None, *self._broken, log)
        if isinstance(last, Failed):
            is_believed = self._step != "evaluate" or last.fault != "infrastructure"
            return StepEnd(None, last.fault if is_believed else "killed", last.reason, log)
        if status == 0 and last is not None:
            return StepEnd(last, log=log)
        number = -status if status < 0 else status - 128  # bubblewrap ends with 128 and the signal's number
        if number in {int(each) for each in signal.Signals}:
            name = signal.Signals(number).name
            return StepEnd(None, "killed", f"the process was ended by {name} (out of memory, or a crash)", log)
        # A process that never started points to the sandbox or Python; one that did start may have ended itself.
        fault = "killed" if self._has_started else "infrastructure"
        return StepEnd(None, fault, f"the process ended with status {status} and without a result", log)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 - the process was started with pipes
    os.set_blocking(stream.fileno(), False)
    return stream


def job_command(
    sandbox: WorkingBubblewrap,
    command: Sequence[str],
    folder: Path,
    readable: Sequence[Path],
    environment: Mapping[str, str],
    limits: Resources,
) -> list[str]:
    """Return a command that runs a job's in the sandbox.

    Args:
        folder: may be written; its folder `cwd` is the working directory.
        readable: files and folders that may be read, beside Python and the system.
        environment: all its variables.
        limits: of what is written into memory.
    """
    mounts = ["--ro-bind-try", "/sys", "/sys"]
    for pattern in _DEVICES:
        for device in sorted(Path("/dev").glob(pattern)):
            mounts += ["--dev-bind-try", str(device), str(device)]
    for path in _without_nested([*_python(), *_libraries(environment), *readable]):
        mounts += ["--ro-bind-try", str(path), str(path)]
    mounts += ["--bind", str(folder), str(folder)]
    opened = OpenedPaths(mounts, (*LIBRARIES, *_OPENCL, *_SSL), scratch_bytes=limits.scratch_size)
    return sandbox.command(command, opened, environment, str(folder / "cwd"))


def _package_folders() -> list[str]:
    """Return this process's folders of installed packages; its working directory is none of them."""
    return [each for each in sys.path if Path(each).name in {"site-packages", "dist-packages"} and Path(each).is_dir()]


def _python() -> list[Path]:
    """Return the folders of this Python, its packages and this package."""
    import assaymark

    package = Path(assaymark.__file__).resolve().parent
    return [*map(Path, (sys.prefix, sys.base_prefix, *_package_folders())), package]


def _libraries(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of libraries below /opt that the host's own variables name; nothing else of it is shown."""
    named = [*environment.get("LD_LIBRARY_PATH", "").split(":"), environment.get("CUDA_HOME", "")]
    places = [Path(each) for each in named if each]
    return [place for place in places if place.is_relative_to("/opt") and place.is_dir() and place != Path("/opt")]


def _without_nested(paths: Sequence[Path]) -> list[Path]:
    """Return the paths that are neither inside another one nor in a folder of the system, outermost first."""
    kept: list[Path] = []
    covered = [Path("/", name) for name in SYSTEM]
    for path in sorted({each.absolute() for each in paths}, key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(other) for other in [*covered, *kept]):
            kept.append(path)
    return kept
