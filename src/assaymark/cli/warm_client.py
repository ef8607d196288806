"""Handing a command over to the warm process, and the facts on which both sides must agree.

The warm process (`assaymark warm start`, `assaymark.warm.server`) has imported what a run needs and forks itself for
each command. The client stays in the foreground: it hands over words, environment, working folder and its open standard
streams, passes signals on, and ends as the command does. Without a socket of the user's in the data folder nothing here
has an effect.

The socket carries: from the client a line of JSON with four descriptors (standard input, output, error, and the
working folder), then one byte for each signal; to the client a line of JSON, `{"refused": REASON}` or
`{"process_id": N}`, and a line `{"exit_code": N}` at the end, where -N stands for signal N.
"""

import json
import os
import re
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType

from assaymark.errors import StoreError
from assaymark.platforms import not_here
from assaymark.settings import VERSION, home_folder

if sys.platform != "linux":
    raise not_here("the warm process")

SERVED = frozenset({"run", "eval", "race", "reproduce", "demo"})  # commands that load a model, answer and end
SECONDS = 20.0  # for an answer to the hand-over: the process may be starting another command
LINE = 16 * 2**20  # bytes, more than Linux lets a command line and an environment have
# Read by libraries while they are imported, or when their threads start: a process that has imported them keeps what
# was set then. Any other variable may differ and is handed over.
READ_AT_IMPORT = (
    *("PYTHON", "LD_", "LC_", "LANG", "TZ", "HOME", "XDG_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_"),
    *("VECLIB_", "NUMEXPR_", "GOTO_", "ATEN_", "DNNL_", "ONEDNN_", "CUDA_", "CUBLAS_", "NVIDIA_", "NCCL_", "ROCR_"),
    *("HIP_", "HSA_", "TORCH", "PYTORCH_", "TRITON_", "TRANSFORMERS_", "TOKENIZERS_", "HF_", "HUGGINGFACE_", "USE_"),
    *("SAFETENSORS_", "ACCELERATE_", "ARROW_", "MIMALLOC_", "JE_", "MALLOC_", "GLIBC_", "OPENSSL_", "SSL_", "RUST_LOG"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SCIPY_", "NPY_", "PROTOCOL_BUFFERS_"),
)
# what the terminal or a command sends; those of the first group reach the whole process group from a terminal
TO_GROUP = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGWINCH")
TO_PROCESS = ("SIGTERM", "SIGUSR1", "SIGUSR2")
_OF_PROCESS = re.compile(
    r"/dev/fd/(?![012](?!\d))\d+|/proc/(?:self|thread-self)\b(?!/fd/[012](?!\d))"
)  # of this one alone
_CONFINED_BY = frozenset({"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"})


class WarmProcessLost(StoreError):
    """The warm process ended before the command that it ran."""

    exit_code = 1


def socket_folder() -> Path:
    """Return the folder of the warm process's files; only its user may enter it."""
    return home_folder() / "warm"


def socket_name() -> str:
    """Return the socket's file name: home folders are shared by machines, processes are not."""
    return f"{socket.gethostname()}.socket"


def process_facts() -> dict[str, object]:
    """Return the facts a command inherits from the process that started it and that are fixed when that starts.

    A warm process runs a command only where its own are equal.
    """
    import resource

    limits = {name: list(resource.getrlimit(getattr(resource, name)))
              for name in dir(resource) if name.startswith("RLIMIT_")}  # fmt: skip
    environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith(READ_AT_IMPORT)}
    return {
        "version": VERSION,
        "package": str(Path(__file__).resolve().parents[1]),
        "Python": f"{sys.executable} {sys.version}",
        "flags of Python": [list(sys.flags), sys.warnoptions, {k: str(v) for k, v in sys._xoptions.items()}],  # noqa: SLF001 - its only place
        "user": [os.getuid(), os.geteuid(), os.getgid(), os.getegid(), sorted(os.getgroups())],
        "processors": sorted(os.sched_getaffinity(0)),
        "priority": [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)],
        "limits": limits,
        "file system": os.stat("/").st_ino,  # noqa: PTH116 - of this process
        **{f"namespace {path.name}": os.readlink(path) for path in sorted(Path("/proc/self/ns").iterdir())},  # noqa: PTH115
        "privileges": _privileges(),
        **{f"variable {name}": value for name, value in environment.items()},
    }


def _privileges() -> list[str]:
    """Return the confinement of this process: capabilities, seccomp, and the profile of a security module."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    found = [" ".join(line.split()) for line in lines if line.partition(":")[0] in _CONFINED_BY]
    with suppress(OSError):  # no such module
        found.append(Path("/proc/self/attr/current").read_text(encoding="ascii", errors="replace").strip("\0\n"))
    return found


def own_descriptors(words: Sequence[str]) -> str | None:
    """Return why a command needs the descriptors of this process, which are not handed over; None if it does not.

    Those above 2 that it inherited (`-C <(...)`, `3< file`) are open here alone, and a path to one names another
    process's file there. What this interpreter opened itself is not inherited.
    """
    for word in words:
        if named := _OF_PROCESS.search(word):
            return f"{named[0]} is of this process"
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names
        with suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                return f"the command inherited the descriptor {name}"
    return None


def connect(folder: Path) -> socket.socket | None:
    """Connect to the warm process of this user and machine; None where none was started.

    Raises: ConnectionError if there is a socket that nobody answers, or that another user's process answers.
    """
    try:
        directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return None
    try:  # a path of any length, which an address of a socket may not have
        address = f"/proc/self/fd/{directory}/{socket_name()}"
        if not Path(address).is_socket():
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(SECONDS)
            connection.connect(address)
            if peer_user(connection) != os.getuid():
                raise ConnectionError("it belongs to another user")
        except OSError as error:
            connection.close()
            raise ConnectionError(error.strerror or str(error)) from None
        return connection
    finally:
        os.close(directory)


def peer_user(connection: socket.socket) -> int:
    """Return the user id of the process at the other end, as the kernel knows it."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    user: int = struct.unpack("3i", credentials)[1]
    return user


def read_line(connection: socket.socket) -> dict[str, object]:
    """Read one line of JSON. Raises: ConnectionError if the other end closes before it is whole, or writes another."""
    line = bytearray()
    while not line.endswith(b"\n"):  # byte by byte: what follows the line is not read
        if not (byte := connection.recv(1)) or len(line) > LINE:
            raise ConnectionError("the connection was closed")
        line += byte
    try:
        message = json.loads(line)
    except ValueError:
        raise ConnectionError("it does not write JSON") from None
    if not isinstance(message, dict):
        raise ConnectionError("it does not write an object of JSON")
    return message


def run_warm(words: Sequence[str], note: Callable[[str], object]) -> int | None:
    """Let the warm process run a command; return its exit code, or None where this process has to run it itself.

    words: as typed, with the command first. note: prints why a warm process that exists is not used.

    Raises: WarmProcessLost if it ended before the command did.
    """
    if not words or words[0] not in SERVED:
        return None
    remedy = "`assaymark warm status` says more, and --no-warm omits this line"
    try:
        connection = connect(socket_folder())
        if connection is None:
            return None
        with closing(connection):
            if reason := own_descriptors(words):
                note(f"note: the warm process is not used: {reason}; {remedy}")
                return None
            reply = _handed_over(connection)
            if "refused" not in reply:
                connection.settimeout(None)
                return _followed(connection)
            note(f"note: the warm process is not used: {reply['refused']}; {remedy}")
    except ConnectionError as error:
        note(f"note: the warm process is not used: {error.strerror or error}; {remedy}")
    return None


def _handed_over(connection: socket.socket) -> Mapping[str, object]:
    """Send this command with its descriptors; return the reply. Raises: ConnectionError."""
    ignored = [number for number in _numbers(TO_GROUP + TO_PROCESS) if signal.getsignal(number) is signal.SIG_IGN]
    mask = os.umask(0)
    os.umask(mask)
    streams = [[getattr(stream, name) for name in ("encoding", "errors", "line_buffering", "write_through")]
               for stream in (sys.stdin, sys.stdout, sys.stderr)]  # fmt: skip
    request = {"argv": sys.argv, "path": sys.path, "environment": dict(os.environ), "umask": mask,
               "ignored": ignored, "streams": streams, "facts": process_facts()}  # fmt: skip
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise ConnectionError(f"the working folder cannot be opened ({error.strerror})") from None
    try:
        line = json.dumps(request).encode() + b"\n"
        n_sent = socket.send_fds(connection, [line], [0, 1, 2, folder])
        if n_sent < len(line):
            connection.sendall(line[n_sent:])
        return read_line(connection)
    except TimeoutError:
        raise ConnectionError(f"it has not replied for {SECONDS:.0f} s") from None
    finally:
        os.close(folder)


def _numbers(names: Sequence[str]) -> list[int]:
    return [int(getattr(signal, name)) for name in names]


def _followed(connection: socket.socket) -> int:
    """Pass signals on until the command has ended; return its exit code, or end by the signal that ended it.

    Raises: WarmProcessLost.
    """

    def passed_on(number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            connection.send(bytes([number]))

    def suspended(_number: int, _frame: FrameType | None) -> None:  # Ctrl-Z, and `fg` after it
        with suppress(OSError):
            connection.send(bytes([signal.SIGSTOP]))
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(OSError):
            connection.send(bytes([signal.SIGCONT]))

    for number in _numbers(TO_GROUP + TO_PROCESS):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, passed_on)
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, suspended)
    try:
        code = read_line(connection)["exit_code"]
    except (ConnectionError, KeyError):
        raise WarmProcessLost(
            "the warm process ended before the command did (was it killed?); responses received so far are stored: "
            "run the same command again, with --no-warm or after `assaymark warm start`"
        ) from None
    if not isinstance(code, int):
        raise WarmProcessLost(f"the warm process reports the exit code {code!r}; expected a whole number")
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code
