"""Bubblewrap's command line, for all that runs other people's code here: submissions, patches and simulated calls.

No network, no processes but its own, none of the host's variables, no rights, and of its files only the system's
programs and what is named, read-only but for what is named as writable. (Programs that a model wrote for a metric run
under a guard with rules of its own, in `scoring.run_code`, whose text is part of what their scores are stored under.)
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assaymark.platforms import is_root

SYSTEM = ("usr", "lib", "lib64", "lib32", "bin", "sbin")


def system_mounts(folders: Sequence[str] = SYSTEM, in_etc: Sequence[str] = ("ld.so.cache",)) -> list[str]:
    """Return bubblewrap's options for folders below `/`, links as links, and for files of `/etc` where they are."""
    words: list[str] = []
    for path in (Path("/", name) for name in folders):
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in in_etc:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


LIBRARIES = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
"""Files of /etc that programs need."""
# A user namespace of its own, so that root outside has no rights inside. Where the system refuses one, root gives up
# its capabilities, and others rely on a bubblewrap that was installed setuid, which gives them none.
_OWN_USERS = ("--unshare-user", "--uid", "1000", "--gid", "1000")
_AS_ROOT, _AS_USER = (_OWN_USERS, ("--cap-drop", "ALL")), (_OWN_USERS, ())
_LIMITED = 'ulimit -c 0; ulimit -n "$1"; ulimit -f "$2"; ulimit -d "$3"; shift 3; exec "$@"'


@dataclass(frozen=True, slots=True)
class OpenedPaths:
    """The files that a sandbox shows beside the system.

    Attributes:
        mounts: bubblewrap's options for files and folders (`--ro-bind HERE THERE`); those inside of others later.
        in_etc: files of /etc.
        scratch: folder of this machine that is /tmp; None: memory.
        scratch_bytes: of memory as /tmp and as /dev/shm, each.
    """

    mounts: Sequence[str] = ()
    in_etc: Sequence[str] = LIBRARIES
    scratch: Path | None = None
    scratch_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class WorkingBubblewrap:
    """A bubblewrap that works here; rights: the options that remove the rights of processes in it."""

    executable: str
    rights: tuple[str, ...]

    def command(
        self, command: Sequence[str], opened: OpenedPaths, variables: Mapping[str, str], folder: str
    ) -> list[str]:
        """Return a command that runs another one in the sandbox.

        Args:
            opened: what it sees beside the system.
            variables: all that it has.
            folder: path in the sandbox in which it starts.
        """
        memory = ["--perms", "1777", "--size", str(opened.scratch_bytes), "--tmpfs"]
        words = [self.executable, "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
        words += ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += [*self.rights, *system_mounts(SYSTEM, opened.in_etc), "--proc", "/proc", "--dev", "/dev"]
        words += ["--bind", str(opened.scratch), "/tmp"] if opened.scratch else [*memory, "/tmp"]  # noqa: S108 - its own
        words += [*memory, "/dev/shm", *opened.mounts, "--chdir", folder]  # noqa: S108 - its own
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]
        for name, value in variables.items():
            words += ["--setenv", name, value]
        return [*words, "--", *command]


def limited(command: Sequence[str], memory_bytes: int, file_bytes: int, n_files: int = 1024) -> list[str]:
    """Return a command that runs another one with limits of each of its processes, which none can raise.

    Args:
        memory_bytes: of data.
        file_bytes: of a file that is written, in the shell's blocks of 1,024 or 512 bytes.
        n_files: open at a time.
    """
    blocks = str(file_bytes // 1024), str(memory_bytes // 1024)
    return ["/bin/sh", "-c", _LIMITED, "sh", str(n_files), *blocks, *command]


@cache
def find_bubblewrap() -> WorkingBubblewrap | None:
    """Return bubblewrap if a sandbox can be started here, else None."""
    executable = shutil.which("bwrap")
    if executable is None:
        return None
    for rights in _AS_ROOT if is_root() else _AS_USER:
        words = [executable, *rights, "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/"]
        words += ["--proc", "/proc", "--dev", "/dev", "true"]
        try:
            done = subprocess.run(words, capture_output=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return WorkingBubblewrap(executable, rights)
    return None
