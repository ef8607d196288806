"""The sandbox of an evaluation: no network, no home, none of the host's variables, no rights, and few of its files.

Only the system's programs, this Python with its packages, the model, the data and the board's task files are there,
read-only; one folder of the job can be written. Without bubblewrap the evaluation runs as a plain process, still
without the host's variables.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assaymark.leaderboard.submission.worker.resources import Resources
from assaymark.limits.system_folders import SYSTEM, system_mounts

__all__ = ["JobSandbox", "find_sandbox", "package_folders"]

_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "OpenCL")
_SSL = ("ssl/certs", "ssl/openssl.cnf", "ca-certificates")  # of /etc/ssl no more: it holds private keys
_DEVICES = ("nvidia*", "dri", "kfd")
# A user namespace of its own, so that root outside has no rights inside. Where the system refuses one, root gives up
# its capabilities, and others rely on a bubblewrap that was installed setuid, which gives them none.
_OWN_USERS = ("--unshare-user", "--uid", "1000", "--gid", "1000")
_AS_ROOT, _AS_USER = (_OWN_USERS, ("--cap-drop", "ALL")), (_OWN_USERS, ())


@dataclass(frozen=True, slots=True)
class JobSandbox:
    """A bubblewrap that works here."""

    executable: str
    rights: tuple[str, ...]

    def command(
        self,
        command: Sequence[str],
        folder: Path,
        readable: Sequence[Path],
        environment: Mapping[str, str],
        limits: Resources,
    ) -> list[str]:
        """Return a command that runs another one in the sandbox.

        Args:
            command: what to run.
            folder: may be written; its folder `cwd` is the working directory.
            readable: files and folders that may be read, beside Python and the system.
            environment: all its variables.
            limits: of what is written into memory.
        """
        scratch = ["--perms", "1777", "--size", str(limits.scratch_size), "--tmpfs"]
        words = [self.executable, "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
        words += ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += [*self.rights, *system_mounts(SYSTEM, (*_ETC, *_SSL)), "--proc", "/proc", "--dev", "/dev"]
        words += [*scratch, "/tmp", *scratch, "/dev/shm", "--ro-bind-try", "/sys", "/sys"]  # noqa: S108 - its own
        for pattern in _DEVICES:
            for device in sorted(Path("/dev").glob(pattern)):
                words += ["--dev-bind-try", str(device), str(device)]
        for path in _without_nested([*_python(), *_libraries(environment), *readable]):
            words += ["--ro-bind-try", str(path), str(path)]
        words += ["--bind", str(folder), str(folder), "--chdir", str(folder / "cwd")]
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]
        for name, value in environment.items():
            words += ["--setenv", name, value]
        return [*words, "--", *command]


@cache
def find_sandbox() -> JobSandbox | None:
    """Return the sandbox if one can be started here, else None."""
    executable = shutil.which("bwrap")
    if executable is None:
        return None
    for rights in _AS_ROOT if os.getuid() == 0 else _AS_USER:
        words = [executable, *rights, "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/"]
        words += ["--proc", "/proc", "--dev", "/dev", "true"]
        try:
            done = subprocess.run(words, capture_output=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return JobSandbox(executable, rights)
    return None


def package_folders() -> list[str]:
    """Return this process's folders of installed packages; its working directory is none of them."""
    return [each for each in sys.path if Path(each).name in {"site-packages", "dist-packages"} and Path(each).is_dir()]


def _python() -> list[Path]:
    """Return the folders of this Python, its packages and this package."""
    import assaymark

    package = Path(assaymark.__file__).resolve().parent
    return [*map(Path, (sys.prefix, sys.base_prefix, *package_folders())), package]


def _libraries(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of libraries below /opt that the host's own variables name; nothing else of it is shown."""
    named = [*environment.get("LD_LIBRARY_PATH", "").split(":"), environment.get("CUDA_HOME", "")]
    places = [Path(each) for each in named if each]
    return [place for place in places if place.is_relative_to("/opt") and place.is_dir() and place != Path("/opt")]


def _without_nested(paths: Sequence[Path]) -> list[Path]:
    """Return the paths that are in no other and in no folder of the system, outermost first."""
    kept: list[Path] = []
    covered = [Path("/", name) for name in SYSTEM]
    for path in sorted({each.absolute() for each in paths}, key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(other) for other in [*covered, *kept]):
            kept.append(path)
    return kept
