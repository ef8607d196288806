"""Commands on a copy of a repository, in bubblewrap or a container: no network, no home, read-only programs, limits.

Only the copy, and memory as /tmp, can be written. Without either nothing is run at all: patches are untrusted code.
"""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from assaymark.drafts import draft_folder
from assaymark.errors import PlanError
from assaymark.limits.bubblewrap import LIBRARIES, OpenedPaths, WorkingBubblewrap, find_bubblewrap, limited
from assaymark.limits.resources import Cgroup, Resources, Watch
from assaymark.platforms import end_group, not_here
from assaymark.stopping import raise_if_requested
from assaymark.swe.containers import ContainerEngine, container_name, find_engine, host_variables

if sys.platform == "win32":
    raise not_here("a sandbox of a patch")

POLL_SECONDS = 0.1
PIECE = 1 << 16
_MIME = ("mime.types",)
REPORTS_DESCRIPTOR = 9
"""Under which a command in a container has the pipe of its reports."""
_OUTPUT, _REPORTS = "/assaymark-swe/output", "/assaymark-swe/reports"
# podman may lose the end of what a container prints (its issue 9096), so a pipe of our own takes that
_IN_CONTAINER = (
    f'exec >{_OUTPUT} 2>&1; ulimit -c 0; ulimit -f "$1"; ulimit -d "$2"; seconds="$3"; shift 3; '
    f'if [ -p {_REPORTS} ]; then exec {REPORTS_DESCRIPTOR}>{_REPORTS}; fi; exec timeout -s KILL "$seconds" "$@"'
)
GRACE_SECONDS = 60.0  # in which a container ends by itself, where whoever started it was killed
_VARIABLES = {
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_AUTHOR_NAME": "nobody",
    "GIT_AUTHOR_EMAIL": "nobody@localhost",
    "GIT_COMMITTER_NAME": "nobody",
    "GIT_COMMITTER_EMAIL": "nobody@localhost",
}


@dataclass(frozen=True, slots=True)
class SweLimits:
    """The limits of one command."""

    seconds: float = 1800.0  # SWE-bench's
    memory_bytes: int = 4 << 30
    n_processes: int = 512  # threads count
    output_bytes: int = 32 << 20
    disk_bytes: int = 4 << 30

    @property
    def resources(self) -> Resources:
        """The limits as the watch of processes and the kernel's control groups take them."""
        return Resources(
            self.memory_bytes, self.n_processes, file_bytes=self.disk_bytes // 2, disk_bytes=self.disk_bytes
        )


@dataclass(frozen=True, slots=True)
class Workplace:
    """A copy of a repository and what else a command sees.

    Attributes:
        copy: the folder on this machine, which the command may change.
        folder: its path in the sandbox.
        readable: path in the sandbox -> file or folder on this machine, read-only.
        variables: further variables of the command.
        scratch: folder on this machine that is /tmp, so that commands find what earlier ones left; None: memory.
        writable: path in the sandbox -> folder on this machine, which the command may change.
        image: of a container, or a folder with a root file system; empty: bubblewrap, with this machine's programs.
        engine: that runs the container: docker, podman, or auto.
    """

    copy: Path
    folder: str
    readable: Mapping[str, Path] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    scratch: Path | None = None
    writable: Mapping[str, Path] = field(default_factory=dict)
    image: str = ""
    engine: str = "auto"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. limit: that it exceeded, in words; status: of the command, 128 and more for a signal."""

    status: int
    output: str
    reports: bytes  # from its pipe, if it had one
    seconds: float
    limit: str = ""
    is_late: bool = False  # the limit is that of time


def working_sandbox() -> WorkingBubblewrap:
    """Return bubblewrap. Raises: PlanError where it does not work here."""
    sandbox = find_bubblewrap()
    if sandbox is None:
        raise PlanError(
            "bubblewrap does not work here, and patches are run in nothing else; install it (apt-get install "
            "bubblewrap) and allow user namespaces, then check with `assaymark doctor`"
        )
    return sandbox


def run_sandboxed(
    command: Sequence[str],
    place: Workplace,
    limits: SweLimits,
    *,
    given: bytes = b"",
    pipe: tuple[int, int] | None = None,
) -> Ended:
    """Run a command; return how it ended. It and all that it started have ended then.

    Args:
        command: what to run, in the copy.
        given: its standard input.
        pipe: ends for reading and writing of a pipe that the command inherits; both are closed.

    Raises: PlanError without a sandbox.
    """
    if place.image:
        with draft_folder() as folder:
            return _run_in_container(command, place, limits, given, pipe, folder)
    words = working_sandbox().command(
        limited(command, limits.memory_bytes, limits.disk_bytes), _opened(place, limits),
        {**_VARIABLES, **place.variables}, place.folder,
    )  # fmt: skip
    return _listen(words, place, limits, given, pipe, group=Cgroup.create(limits.resources))


def _run_in_container(
    command: Sequence[str],
    place: Workplace,
    limits: SweLimits,
    given: bytes,
    pipe: tuple[int, int] | None,
    folder: Path,
) -> Ended:
    engine, name = find_engine(place.engine, place.image), container_name()
    mounts = [(place.copy, place.folder, True), *((path, inside, True) for inside, path in place.writable.items())]
    mounts += [(place.scratch, "/tmp", True)] if place.scratch else []  # noqa: S108 - the container's own
    readable = sorted(place.readable.items(), key=lambda each: len(Path(each[0]).parts))
    mounts += [(path, inside, False) for inside, path in readable]
    pipes = {"output": _OUTPUT} | ({} if pipe is None else {"reports": _REPORTS})
    mounts += [(folder / each, inside, True) for each, inside in pipes.items()]
    words = engine.run_command(
        name, place.image, mounts, {**_VARIABLES, **place.variables}, place.folder, limits.memory_bytes,
        limits.n_processes, limits.resources.scratch_size,
    )  # fmt: skip
    kib = str(limits.disk_bytes // 1024), str(limits.memory_bytes // 1024), str(int(limits.seconds + GRACE_SECONDS))
    words += ["/bin/sh", "-c", _IN_CONTAINER, "sh", *kib, *command]
    output = _named_pipe(folder / "output")
    if pipe is not None:
        for number in pipe:
            os.close(number)
        pipe = _named_pipe(folder / "reports"), os.open(os.devnull, os.O_WRONLY)
    return _listen(words, place, limits, given, pipe, container=_Container(engine, name, output))


@dataclass(frozen=True, slots=True)
class _Container:
    engine: ContainerEngine
    name: str
    output: int  # the pipe of what its command prints; what the engine prints comes beside it


def _named_pipe(path: Path) -> int:
    """Make a pipe; return its descriptor for reading and writing, so that it has no end before a command opens it."""
    os.mkfifo(path)
    path.chmod(0o666)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


def _listen(
    words: Sequence[str],
    place: Workplace,
    limits: SweLimits,
    given: bytes,
    pipe: tuple[int, int] | None,
    *,
    group: Cgroup | None = None,
    container: _Container | None = None,
) -> Ended:
    """Start a command and collect its output and reports, until it ends or exceeds a limit."""
    started = time.monotonic()
    has_ended = False
    with ExitStack() as held:
        for number in (*(pipe[:1] if pipe else ()), *((container.output,) if container else ())):
            held.callback(os.close, number)
        if group is not None:
            held.callback(group.remove)
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=host_variables() if container else {},
                pass_fds=(pipe[1],) if pipe and not container else (),
                start_new_session=True,
            )
        finally:
            if pipe is not None:
                os.close(pipe[1])
        try:
            if group is not None:
                group.add(process.pid)
            Thread(target=_send, args=(process, given), daemon=True).start()
            outputs = [
                *([process.stdout.fileno()] if process.stdout else []), *([container.output] if container else [])
            ]  # fmt: skip
            listening = _Reading(process, outputs, pipe[0] if pipe else None, limits, place.copy)
            listening.until_it_ends(started + limits.seconds)
            has_ended = not listening.limit
        finally:
            if container is not None and not has_ended:  # its processes are not below ours
                container.engine.remove(container.name)
            end_group(process)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    output = listening.output.decode("utf-8", "replace").replace("\x00", "\ufffd")
    seconds = time.monotonic() - started
    return Ended(status, output, listening.reports, seconds, listening.limit, listening.is_late)


def _opened(place: Workplace, limits: SweLimits) -> OpenedPaths:
    mounts = ["--bind", str(place.copy), place.folder]
    for inside, path in sorted(place.readable.items(), key=lambda each: len(Path(each[0]).parts)):
        mounts += ["--ro-bind", str(path), inside]
    for inside, path in place.writable.items():
        mounts += ["--bind", str(path), inside]
    return OpenedPaths(mounts, (*LIBRARIES, *_MIME), place.scratch, limits.resources.scratch_size)


def _send(process: "subprocess.Popen[bytes]", content: bytes) -> None:
    if process.stdin is not None:
        with suppress(OSError, ValueError):  # it has ended
            process.stdin.write(content)
            process.stdin.close()


class _Reading:
    """Reads a command's output and reports until it ends or exceeds a limit."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        outputs: Sequence[int],
        reports: int | None,
        limits: SweLimits,
        folder: Path,
    ) -> None:
        self._process, self._limits = process, limits
        self._kinds = dict.fromkeys(outputs, "output") | ({} if reports is None else {reports: "reports"})
        self._watch = Watch(process.pid, limits.resources, folder)
        self._pieces: dict[str, list[bytes]] = {"output": [], "reports": []}
        self._n_bytes = 0
        self.limit = ""
        self.is_late = False

    @property
    def output(self) -> bytes:
        """The command's output, errors included."""
        return b"".join(self._pieces["output"])

    @property
    def reports(self) -> bytes:
        """The bytes that came through its pipe."""
        return b"".join(self._pieces["reports"])

    def until_it_ends(self, deadline: float) -> None:
        """Listen until the outermost process has ended, or a limit is exceeded."""
        with selectors.DefaultSelector() as selector:
            for number, kind in self._kinds.items():
                os.set_blocking(number, False)
                selector.register(number, selectors.EVENT_READ, kind)
            while not self.limit:
                has_ended = self._process.poll() is not None
                ready = selector.select(0 if has_ended else POLL_SECONDS) if selector.get_map() else []
                if not selector.get_map() and not has_ended:  # it closed all, and runs on
                    time.sleep(POLL_SECONDS)
                for key, _ in ready:
                    piece = os.read(key.fd, PIECE)
                    if not piece:
                        selector.unregister(key.fileobj)
                    self._pieces[key.data].append(piece)
                    self._n_bytes += len(piece)
                if has_ended and not ready:
                    return
                self._check(deadline)

    def _check(self, deadline: float) -> None:
        raise_if_requested()  # a requested end does not wait for tests, which can be run again
        if self._n_bytes > self._limits.output_bytes:
            self.limit = f"it printed more than the {self._limits.output_bytes >> 20} MiB that it may print"
        elif time.monotonic() > deadline:
            self.limit = f"it took longer than the {self._limits.seconds:,.0f} s that it may take"
            self.is_late = True
        elif (broken := self._watch.broken()) is not None:
            self.limit = broken
