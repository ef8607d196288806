"""The warm process: it has imported the modules of a run, and forks itself for each command.

A forked process is a process of its own: its working folder, environment, standard streams, random generators and
memory are its command's, and nothing that a command does reaches the next one. The warm process itself only imports. It
computes nothing and loads no model, since threads of a library's pool and a GPU's context do not survive a fork.

A command that its client would not run in the same way is refused, with the reason: see `process_facts`, and
`changed_file` for code that changed since it was imported. The kernel ends the commands when this process is killed,
and this process kills the command whose client was killed.
"""

import ctypes
import io
import json
import os
import random
import selectors
import signal
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

from assaymark.cli.main import main
from assaymark.cli.warm_client import LINE, TO_GROUP, TO_PROCESS, peer_user, read_line, socket_name
from assaymark.platforms import not_here
from assaymark.records import JsonValue

if sys.platform != "linux":  # elsewhere libraries do not survive a fork
    raise not_here("the warm process")

KILL_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
SECONDS = 5.0  # in which a client that has connected must have sent its command, and must read a reply
MOST_PENDING = 64  # clients that have connected and not yet sent their command
PASSED_ON = frozenset(int(getattr(signal, name)) for name in (*TO_GROUP, *TO_PROCESS, "SIGSTOP", "SIGCONT"))
OWN_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl


def modules_of_run(models: Sequence[str]) -> list[str]:
    """Return the modules that a small run of each model imports, of the installation and of this package alone.

    Each runs in a forked process with a store of its own, so that this process imports and keeps no more than that.

    models: values of `--model_args`.

    Raises: RuntimeError with the exit code of a run that failed; what it printed is in the log.
    """
    roots = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    roots.append(str(Path(__file__).resolve().parents[1]))
    names: dict[str, None] = {}
    for arguments in models:
        reader, writer = os.pipe()
        sys.stdout.flush()
        if not (child := os.fork()):
            os.close(reader)  # so that writing fails where this process's parent is gone
            with tempfile.TemporaryDirectory() as folder:
                os.environ |= {"ASSAYMARK_HOME": folder, "ASSAYMARK_CACHE": f"{folder}/cache"}
                os.environ.pop("ASSAYMARK_STORE", None)
                words = ["run", "--model_args", arguments, "--tasks", "demo_facts", "--limit", "1"]
                code = main(words)
                main(["race", "fake:accuracy=1", "fake:accuracy=0,seed=2", "--tasks", "demo_facts", "--budget", "2"])
            with open(writer, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                json.dump({"code": code, "modules": _importable(roots)}, file)
            os._exit(0)
        os.close(writer)
        with open(reader, encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            text = file.read()
        os.waitpid(child, 0)
        result = json.loads(text) if text else {"code": "none", "modules": []}
        if result["code"] != 0:
            raise RuntimeError(f"a run of the model {arguments} ended with exit code {result['code']}")
        names |= dict.fromkeys(result["modules"])
    return list(names)


def _importable(roots: Sequence[str]) -> list[str]:
    """Return the loaded modules that importing by name finds below the roots, in the order of loading."""
    return [
        name for name, module in list(sys.modules.items())
        if (spec := getattr(module, "__spec__", None)) is not None and spec.name == name and spec.origin
        and any(spec.origin.startswith(f"{root}{os.sep}") for root in roots)
    ]  # fmt: skip


def import_for(names: Iterable[str]) -> None:
    """Import modules; one that cannot be imported on its own is left to the commands."""
    for name in names:
        with suppress(Exception):
            import_module(name)


def loaded_files() -> dict[str, tuple[int, int]]:
    """Return file -> (time of change in ns, size) of the loaded modules."""
    files = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())} - {""}
    return {path: _stamp(path) for path in files}


def _stamp(path: str) -> tuple[int, int]:
    try:
        facts = os.stat(path)  # noqa: PTH116 - thousands, at each command
    except OSError:
        return 0, 0
    return facts.st_mtime_ns, facts.st_size


def changed_file(files: Mapping[str, tuple[int, int]]) -> str | None:
    """Return a file that is not as it was, None if all are."""
    return next((path for path, stamp in files.items() if _stamp(path) != stamp), None)


@dataclass(slots=True)
class Command:
    """A command in progress: its client's connection, and a descriptor that becomes readable when it ends."""

    process_id: int
    connection: socket.socket
    handle: int


@dataclass(slots=True)
class Pending:
    """A connected client, and the bytes that it has sent so far."""

    connection: socket.socket
    deadline: float  # of time.monotonic
    line: bytearray = field(default_factory=bytearray)
    descriptors: list[int] = field(default_factory=list)

    def read(self) -> dict[str, Any] | None:
        """Read the available bytes; return the command once it is complete. Raises: OSError, ValueError."""
        part, more, _, _ = socket.recv_fds(self.connection, 1 << 16, 8)
        self.descriptors.extend(more)
        self.line += part
        if not part:
            raise ConnectionError("closed before the command was complete")
        if len(self.line) > LINE or len(self.descriptors) > 8:
            raise ConnectionError("its command is too long")
        if not self.line.endswith(b"\n"):
            return None
        request = json.loads(self.line)
        if not isinstance(request, dict):
            raise ConnectionError("it sent no object of JSON")
        return request

    def close(self) -> None:
        """Close the connection and the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()
        self.connection.close()


@dataclass(slots=True)
class Accepted:
    """A command to run in this process, which was forked for it; descriptors: 0, 1, 2 and the working folder."""

    request: Mapping[str, Any]  # JSON of `cli.warm_client`
    descriptors: Sequence[int]


@dataclass(slots=True)
class WarmServer:
    """Accepts commands until it is stopped or has had none for a while.

    Attributes:
        path: of the socket.
        idle_seconds: without a command, after which it ends.
        facts: of this process when it started; imports add variables to its environment.
        report: prints a line in the log.
        files: of the loaded modules, with their stamps.
        commands: process id -> command in progress.
        pending: descriptor -> client whose command is not yet whole; it holds nobody up.
    """

    path: Path
    idle_seconds: float
    facts: Mapping[str, object]
    report: Callable[[str], object] = print
    files: Mapping[str, tuple[int, int]] = field(default_factory=loaded_files)
    commands: dict[int, Command] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)
    n_run: int = 0
    started: float = field(default_factory=time.time)
    _is_stopping: bool = False
    _listener: socket.socket = field(init=False)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def open(self) -> None:
        """Listen; the socket appears under its name only when it answers. Raises: OSError."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        draft = f"{socket_name()}.{os.getpid()}"
        directory = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY)
        mask = os.umask(0o177)
        try:
            self._listener.bind(f"/proc/self/fd/{directory}/{draft}")
            self._listener.listen(64)
            os.replace(self.path.parent / draft, self.path)  # noqa: PTH105 - beside the bind
        finally:
            os.umask(mask)
            os.close(directory)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def serve(self) -> Accepted | None:
        """Run commands, each in a fork; returns None at the end, and in each forked process its command."""
        for number in OWN_SIGNALS:
            signal.signal(number, self._stop)
        last = time.monotonic()
        while not (self._is_stopping and not self.commands):
            for key, _ in self._selector.select(1.0):
                last = time.monotonic()
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, Pending):
                    if (accepted := self._read(key.data)) is not None:
                        return accepted
                elif key.data is not None and key.fd == key.data.handle:
                    self._ended(key.data)
                elif key.data is not None:
                    self._signalled(key.data)
            for each in [each for each in self.pending.values() if time.monotonic() > each.deadline]:
                self.report(f"a connection ended early: no command within {SECONDS:g} s")
                self._leave(each)
            if self.commands:
                last = time.monotonic()
            elif time.monotonic() - last > self.idle_seconds:
                self.report(f"no command for {self.idle_seconds / 60:g} minutes")
                self._is_stopping = True
        with suppress(OSError):
            self.path.unlink()
        return None

    def close(self) -> None:
        """Close the listening socket."""
        self._selector.close()
        self._listener.close()

    def _stop(self, *_signal: object) -> None:
        """Accept no further command, and end after those in progress."""
        self._is_stopping = True

    def _accept(self) -> None:
        """Accept a connection, whose command is read as it comes."""
        connection, _ = self._listener.accept()
        if peer_user(connection) != os.getuid() or len(self.pending) >= MOST_PENDING:
            self.report("a connection ended early: another user, or too many that have sent no command")
            connection.close()
            return
        connection.setblocking(False)
        self.pending[connection.fileno()] = pending = Pending(connection, time.monotonic() + SECONDS)
        self._selector.register(connection, selectors.EVENT_READ, pending)

    def _leave(self, pending: Pending) -> None:
        self._forget(pending)
        pending.close()

    def _forget(self, pending: Pending) -> None:
        self._selector.unregister(pending.connection)
        del self.pending[pending.connection.fileno()]

    def _read(self, pending: Pending) -> Accepted | None:
        """Read what a client has sent; returns only in a forked process what it has to run."""
        connection = pending.connection
        try:
            if (request := pending.read()) is None:
                return None
            connection.settimeout(SECONDS)
            if "ask" in request:
                self._answer(connection, str(request["ask"]))
            elif reason := self._reason_against(request, pending.descriptors):
                connection.sendall(json.dumps({"refused": reason}).encode() + b"\n")
            else:
                self._forget(pending)
                return self._fork(connection, request, pending.descriptors)
        except BlockingIOError:
            return None
        except (OSError, ValueError) as error:
            self.report(f"a connection ended early: {error}")
        self._leave(pending)
        return None

    def _answer(self, connection: socket.socket, ask: str) -> None:
        """Answer `assaymark warm status` and `stop`."""
        if ask == "stop":
            self._stop()
        facts: WarmFacts = {"process_id": os.getpid(), "started": self.started, "n_run": self.n_run, "in_progress":
                 sorted(self.commands), "changed": changed_file(self.files), "facts": self.facts}  # fmt: skip
        connection.sendall(json.dumps(facts).encode() + b"\n")

    def _reason_against(self, request: Mapping[str, JsonValue], descriptors: Sequence[int]) -> str | None:
        """Return why a command is refused, None if it is run."""
        if self._is_stopping:
            return "it is being stopped"
        if len(descriptors) != 4:
            return f"it received {len(descriptors)} descriptors instead of 4"
        lacking = {"facts", "argv", "path", "environment", "umask", "streams", "ignored"} - request.keys()
        if lacking or not isinstance(facts := request["facts"], dict):
            return f"its command has no {', '.join(sorted(lacking or {'facts'}))}"
        if different := difference(self.facts, facts):
            return different
        if changed := changed_file(self.files):
            return f"{changed} changed since it was started; restart it with `assaymark warm restart`"
        return None

    def _fork(
        self, connection: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int]
    ) -> Accepted | None:
        """Fork for a command; returns in the forked process what it has to run."""
        numbers = PASSED_ON | OWN_SIGNALS
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # until the forked process has its own handlers
        own = os.getpid()
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            _PRCTL(KILL_WITH_PARENT, signal.SIGKILL)
            if os.getppid() != own:
                os._exit(1)
            self.close()
            for each in (connection, *(command.connection for command in self.commands.values())):
                each.close()
            for command in self.commands.values():
                os.close(command.handle)
            for pending in self.pending.values():
                pending.close()
            return Accepted(request, descriptors)
        with suppress(OSError):  # the child may have done it, and ended
            os.setpgid(child, child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        for descriptor in descriptors:
            os.close(descriptor)
        command = Command(child, connection, os.pidfd_open(child))
        self.commands[child] = command
        self.n_run += 1
        self._selector.register(command.handle, selectors.EVENT_READ, command)
        self._selector.register(connection, selectors.EVENT_READ, command)
        with suppress(OSError):
            connection.sendall(json.dumps({"process_id": child}).encode() + b"\n")
        return None

    def _signalled(self, command: Command) -> None:
        """Pass a client's signals on; a client that has gone was killed, and so is its command."""
        try:
            numbers = command.connection.recv(64)
        except OSError:
            numbers = b""
        if not numbers:
            self._selector.unregister(command.connection)
            numbers = bytes([signal.SIGKILL])
        to_group = {getattr(signal, name) for name in TO_GROUP} | {signal.SIGSTOP, signal.SIGCONT}
        for number in numbers:
            if number == signal.SIGKILL or number in PASSED_ON:
                with suppress(ProcessLookupError):
                    (os.killpg if number in to_group else os.kill)(command.process_id, number)

    def _ended(self, command: Command) -> None:
        """Tell the client how its command ended."""
        _, status = os.waitpid(command.process_id, 0)
        code = os.waitstatus_to_exitcode(status)
        with suppress(OSError):
            command.connection.sendall(json.dumps({"exit_code": code}).encode() + b"\n")
        self._selector.unregister(command.handle)
        with suppress(KeyError, ValueError):
            self._selector.unregister(command.connection)
        os.close(command.handle)
        command.connection.close()
        del self.commands[command.process_id]


def difference(own: Mapping[str, object], other: Mapping[str, object]) -> str | None:
    """Return the first fact in which two processes differ, as a clause; None if they are equal."""
    for name in [*own, *(name for name in other if name not in own)]:
        if own.get(name) != other.get(name):
            if name.startswith("variable "):
                values = [repr(facts[name]) if name in facts else "unset" for facts in (own, other)]
                return f"the {name} was {values[0]} when it was started, and is {values[1]} here"
            ours, theirs = own.get(name), other.get(name)
            if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
                return difference(ours, theirs)
            return f"its {name} is {own.get(name)}, and here it is {other.get(name)}"
    return None


def become(accepted: Accepted, set_by_imports: Mapping[str, str]) -> None:
    """Give this forked process the command's streams, folder, environment, arguments and signals.

    set_by_imports: variables that libraries set while they were imported, and would set in the command too.
    """
    request = accepted.request
    *streams, folder = accepted.descriptors
    sys.stdout.flush()
    sys.stderr.flush()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    os.fchdir(folder)
    os.close(folder)
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update({**set_by_imports, **request["environment"]})
    sys.argv, sys.path[:] = list(request["argv"]), list(request["path"])
    tempfile.tempdir = None  # of the command's own TMPDIR
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:  # its global generator was made before the fork
        numpy.random.seed()
    time.tzset()
    _open_streams(request["streams"])
    for number in PASSED_ON | OWN_SIGNALS:
        if number not in {signal.SIGSTOP, signal.SIGKILL}:
            is_ignored = number in request["ignored"]
            signal.signal(number, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    if signal.SIGINT not in request["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON | OWN_SIGNALS)


def _open_streams(settings: Sequence[tuple[str, str, bool, bool]]) -> None:
    """Open the standard streams; settings: encoding, errors, line buffering and writing through of the client's."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        encoding, errors, line_buffering, write_through = settings[number]
        raw = io.FileIO(number, "rb" if name == "stdin" else "wb", closefd=False)
        buffered = io.BufferedReader(raw) if name == "stdin" else io.BufferedWriter(raw)
        stream = io.TextIOWrapper(
            buffered, encoding, errors, None if name == "stdin" else "\n", line_buffering, write_through
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class WarmFacts(TypedDict):
    """Facts that the warm process reports about itself."""

    process_id: int
    started: float  # seconds since 1970
    n_run: int
    in_progress: list[int]  # processes of commands
    changed: str | None  # a file of the package that changed since
    facts: Mapping[str, JsonValue]  # in which a command must not differ


def ask(connection: socket.socket, what: str) -> WarmFacts:
    """Ask the warm process for its facts, or to stop; returns them. Raises: ConnectionError."""
    with closing(connection):
        connection.sendall(json.dumps({"ask": what}).encode() + b"\n")
        facts: Any = read_line(connection)
    answer: WarmFacts = facts
    return answer
