"""Differences between Linux, macOS and Windows: locks, processes, memory, file names, and unsupported features.

Everything else is written as if there were one system. A feature that the system does not support is refused with the
line of `not_here`, never with a traceback; docs/installation.md has the table.
"""

import atexit
import gc
import hashlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from assaymark.errors import UsageError
from assaymark.settings import home_folder

SYSTEM = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
_WSL = "install assaymark in WSL (`wsl --install`) and run this there, or in a container of Linux"
_CONTAINER = "install assaymark in a container of Linux (`docker run -it python:3.12 bash`) and run this there"


def not_here(what: str) -> UsageError:
    """Return the error for a feature that this system lacks. what: begins a sentence, as "the warm process"."""
    return UsageError(f"{what} needs Linux, and this is {SYSTEM}: {_WSL if sys.platform == 'win32' else _CONTAINER}")


# ------------------------------------------------------------------------------------------------------------ locks


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock of a file that is nothing else, made if there is none; yield whether it is held: by `wait` always.

    It ends with its process, however that ends; the file stays.

    Raises: OSError where the file cannot be made or its file system has no locks.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        yield False
        return
    except NotImplementedError as error:
        raise OSError(str(error)) from None
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def alone(name: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold what is named among all processes of this home folder; yield whether it is held: by `wait` always.

    Raises: OSError where it cannot be locked.
    """
    folder = home_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    with locked(folder / f"{key}.lock", wait=wait) as is_held:
        yield is_held


# -------------------------------------------------------------------------------------------------------- processes


def is_running(process_id: int) -> bool:
    """Return whether there is a process of this number; on Windows `os.kill(n, 0)` would send it Ctrl-C."""
    import psutil

    return psutil.pid_exists(process_id)


def wait_for_end(process_id: int) -> None:
    """Wait until a process has ended; it may have ended before."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        psutil.Process(process_id).wait()


def is_root() -> bool:
    """Return whether this process has the rights of root."""
    return sys.platform != "win32" and os.getuid() == 0


def end_with_pipes(process: "subprocess.Popen[bytes]") -> None:
    """End a process as `end_group` does, wait for its end, and close its pipes."""
    end_group(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that was started with `start_new_session` and what it started; one that has ended is no error.

    On Windows, which has no sessions, what it started is found only while it has not ended itself.
    """
    if sys.platform == "win32":
        import psutil

        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def split_command(command: str) -> list[str]:
    """Return the words of a command line; a backslash is an escape, and on Windows part of a path.

    Raises: ValueError for a quotation without an end.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    if sys.platform == "win32":
        lexer.escape = ""
    return list(lexer)


# ----------------------------------------------------------------------------------------------------------- memory


def total_memory_bytes() -> int:
    """Return the memory of this machine."""
    import psutil

    return int(psutil.virtual_memory().total)


def peak_memory_bytes() -> int:
    """Return the most memory that this process has had."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    else:  # noqa: RET505 - types are checked for each system
        from resource import RUSAGE_SELF, getrusage

        return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)  # Linux counts KiB


def collect_garbage_rarely() -> None:
    """Let this process, which ends when its work does, search few times for cycles, and not when it ends.

    At the default of 700 new objects the imports of torch and transformers, whose objects all stay, take a seventh of
    their time in collections; a search at the interpreter's end takes the better part of a second.
    """
    gc.set_threshold(200_000, 30, 30)
    atexit.register(gc.freeze)  # registered first, so called after all other functions


# ------------------------------------------------------------------------------------------------- files and sockets

_NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]+')
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³])\s*(\..*)?", re.IGNORECASE | re.DOTALL)
LONGEST_NAME = 200  # characters, with room for what is added, of the 255 that file systems allow


def portable_name(text: str) -> str:
    """Return a text as the name of a file that every system accepts; one that they all accept is not changed.

    What Windows reserves (characters, a device's name, a dot or space at the end) is replaced or added to, as lm-eval
    replaces it in models' names; a text that is too long ends with a hash of the whole.
    """
    name = _NOT_IN_NAMES.sub("__", text).rstrip(". ") or "_"
    name = f"_{name}" if _DEVICES.fullmatch(name) else name
    if len(name.encode("utf-8", "surrogatepass")) <= LONGEST_NAME:
        return name
    short = name.encode("utf-8", "surrogatepass")[: LONGEST_NAME - 17].decode("utf-8", "ignore")
    return f"{short}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def relative_path(path: Path, folder: Path) -> str:
    """Return a path as it is from a folder, with slashes on every system; whole where it is on another drive."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        return path.absolute().as_posix()


def replace_file(source: Path, target: Path) -> None:
    """Move a file to a path, over what is there, at once.

    Windows refuses while another program has the old file open, such as a virus scanner: it is waited for, a second.

    Raises: OSError.
    """
    for _ in range(20 if sys.platform == "win32" else 0):
        try:
            source.replace(target)
        except PermissionError:
            time.sleep(0.05)
        else:
            return
    source.replace(target)


def take_address(listener: socket.socket) -> None:
    """Let a server have the port of one that has just ended; never that of one which listens."""
    if sys.platform == "win32":  # there SO_REUSEADDR would give two servers one port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
