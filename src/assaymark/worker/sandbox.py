"""The sandbox of an evaluation: no network, no home, none of the host's variables, and few of its files.

Only the system's programs, this Python with its packages, the model, the data and the board's task files are there,
read-only; the job's own folder can be written. Without bubblewrap the evaluation runs as a plain process, still without
the host's variables.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from assaymark.limits.system_folders import SYSTEM, system_mounts

__all__ = ["command_in_sandbox", "find_bubblewrap"]

_SYSTEM = (*SYSTEM, "opt")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "ssl", "ca-certificates", "OpenCL")
_DEVICES = ("nvidia*", "dri", "kfd")


@cache
def find_bubblewrap() -> str | None:
    """Return bubblewrap's path if it can start a process here, else None."""
    found = shutil.which("bwrap")
    if found is None:
        return None
    words = [found, "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found if done.returncode == 0 else None


def command_in_sandbox(
    bubblewrap: str,
    command: Sequence[str],
    folder: Path,
    readable: Sequence[Path],
    environment: Mapping[str, str],
) -> list[str]:
    """Return a command that runs another one in the sandbox.

    Args:
        bubblewrap: from `find_bubblewrap`.
        command: what to run.
        folder: may be written; its working directory and home.
        readable: files and folders that may be read, beside Python and the system.
        environment: all its variables.
    """
    words = [bubblewrap, "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    words += ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += system_mounts(_SYSTEM, _ETC)
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind-try", "/sys", "/sys"]  # noqa: S108 - its own
    for pattern in _DEVICES:
        for device in sorted(Path("/dev").glob(pattern)):
            words += ["--dev-bind-try", str(device), str(device)]
    for path in _without_nested([*_python(), *readable]):
        words += ["--ro-bind-try", str(path), str(path)]
    words += ["--bind", str(folder), str(folder), "--chdir", str(folder)]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    return [*words, "--", *command]


def _python() -> list[Path]:
    """Return the folders of this Python, its packages and this package."""
    import assaymark

    package = Path(assaymark.__file__).resolve().parent
    named = [sys.prefix, sys.base_prefix, *(one for one in sys.path if one), str(package)]
    return [Path(one) for one in named if Path(one).exists()]


def _without_nested(paths: Sequence[Path]) -> list[Path]:
    """Return the paths that are in no other and in no folder of the system, outermost first."""
    found: list[Path] = []
    covered = [Path("/", name) for name in _SYSTEM]
    for path in sorted({one.absolute() for one in paths}, key=lambda one: len(one.parts)):
        if not any(path.is_relative_to(other) for other in [*covered, *found]):
            found.append(path)
    return found
