"""Limits of a step's processes: memory, number of processes, files, disk.

Three means, of which the later ones cover what the earlier do not: limits that each process inherits and cannot raise
(`limit_this_process`), a look at all of them together several times a second (`Watch`), and a control group of the
kernel where this worker may make one (`Cgroup`), which alone counts memory that belongs to no process.
"""

import mmap
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assaymark.platforms import not_here, total_memory_bytes

if sys.platform == "win32":
    raise not_here("a sandbox with limits")

WATCH_SECONDS = 0.2
LOWER_PRIORITY = 5  # of a job, than of the worker that watches it
DISK_SECONDS = 2.0
MOST_DEPTH = 64  # of folders
MOST_ENTRIES = 500_000  # files and folders
SHARE_OF_MEMORY = 0.8  # the rest is the worker's and the system's


def memory_here() -> int:
    """Return the bytes of memory that jobs may use by default: a share of this machine's, or of its container's."""
    whole = total_memory_bytes()
    with suppress(OSError, ValueError):  # the file contains "max" where there is no limit
        whole = min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return int(SHARE_OF_MEMORY * whole)


@dataclass(frozen=True, slots=True)
class Resources:
    """The limits of one step."""

    memory_bytes: int  # of all its processes; of each, without what is only mapped from files
    n_processes: int = 2048  # threads count
    n_files: int = 4096  # open at a time
    file_bytes: int = 64 << 30  # of one file
    disk_bytes: int = 128 << 30  # of all files that it writes
    scratch_bytes: int = 4 << 30  # at most, of each of /tmp and /dev/shm, which lie in memory

    @property
    def scratch_size(self) -> int:
        """Bytes of each of /tmp and /dev/shm in a sandbox; both together fit well within the memory."""
        return min(self.scratch_bytes, self.memory_bytes // 4)


def limit_this_process(limits: Resources) -> None:
    """Limit this process and all that it starts; the limits cannot be raised again. The kernel ends it first of all.

    Its priority is lowered, so that what watches it has its turn among thousands of processes: the kernel exempts those
    of root from RLIMIT_NPROC.
    """
    import resource

    with suppress(OSError):
        os.nice(LOWER_PRIORITY)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits.memory_bytes,  # not RLIMIT_AS: GPU drivers reserve far more than they use
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.n_files,
        resource.RLIMIT_NPROC: limits.n_processes + _n_tasks_of_user(),
    }
    for name, most in wanted.items():
        hard = resource.getrlimit(name)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (allowed, allowed))


def _n_tasks_of_user() -> int:
    """Return how many threads this user has already, since RLIMIT_NPROC counts them."""
    n_tasks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                n_tasks += len(os.listdir(folder / "task"))  # noqa: PTH208 - names suffice
    return n_tasks


def descendants(process_id: int) -> list[int]:
    """Return the ids of all processes below this one; those of a sandbox stay below it whatever becomes of parents."""
    children: dict[int, list[int]] = {}
    with os.scandir("/proc") as entries:
        for name in (entry.name for entry in entries if entry.name.isdigit()):
            with suppress(OSError, ValueError, IndexError):
                parent = int(Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    below: list[int] = []
    waiting = [process_id]
    while waiting:
        next_ones = children.pop(waiting.pop(), [])
        below += next_ones
        waiting += next_ones
    return below


class Watch:
    """Looks at all processes of a step together."""

    def __init__(self, process_id: int, limits: Resources, folder: Path) -> None:
        """Args: process_id: the outermost process; folder: the one that it may write."""
        self._id, self._limits, self._folder = process_id, limits, folder
        self._next = self._next_disk = 0.0

    def broken(self) -> str | None:
        """Return the limit that is exceeded now, in words; None while none is, or where it is too early to look."""
        now, limits = time.monotonic(), self._limits
        if now < self._next:
            return None
        self._next = now + WATCH_SECONDS
        too_many = f"it started more than the {limits.n_processes:,} processes and threads that a job may have"
        n_tasks = n_bytes = 0
        processes = descendants(self._id)
        if len(processes) > limits.n_processes:  # at once: to read what each of them uses takes longer than to fork
            return too_many
        n_bytes += _n_bytes_in_memory_files(processes)
        for process_id in processes:
            with suppress(OSError, ValueError, IndexError):
                n_tasks += int(Path(f"/proc/{process_id}/stat").read_bytes().rpartition(b")")[2].split()[17])
                n_bytes += int(Path(f"/proc/{process_id}/statm").read_bytes().split()[1]) * mmap.PAGESIZE
        if n_tasks > limits.n_processes:
            return too_many
        if n_bytes > limits.memory_bytes:
            return f"it used more than the {limits.memory_bytes / 2**30:.1f} GiB of memory that a job may use"
        if now >= self._next_disk:
            self._next_disk = now + DISK_SECONDS
            return _exceeded(self._folder, limits.disk_bytes)
        return None


def _n_bytes_in_memory_files(processes: Sequence[int]) -> int:
    """Return the bytes of the files in a sandbox's own /tmp and /dev/shm, as seen through one of its processes.

    They are memory that belongs to no process. 0 without a sandbox, whose folders are the machine's.
    """
    for process_id in processes:
        n_bytes = 0
        try:
            for folder in ("tmp", "dev/shm"):
                place = Path(f"/proc/{process_id}/root", folder)
                if place.stat().st_dev == Path("/", folder).stat().st_dev:
                    break
                state = os.statvfs(place)
                n_bytes += (state.f_blocks - state.f_bfree) * state.f_frsize
            else:
                return n_bytes
        except OSError:  # it has just ended
            continue
    return 0


def _exceeded(folder: Path, most_bytes: int) -> str | None:
    """Return which limit of size, number or depth a folder's files exceed, in words; None where they exceed none."""
    n_bytes = n_entries = 0
    waiting = [(str(folder), 0)]
    while waiting:
        place, depth = waiting.pop()
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                n_entries += 1
                if n_entries > MOST_ENTRIES:
                    return f"it made more than the {MOST_ENTRIES:,} files and folders that a job may make"
                if depth > MOST_DEPTH:
                    return f"it made folders in each other, more than the {MOST_DEPTH} levels that a job may make"
                with suppress(OSError):
                    n_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
    if n_bytes > most_bytes:
        return f"it wrote more than the {most_bytes / 2**30:.1f} GiB that a job may write"
    return None


class Cgroup:
    """A control group of the kernel (version 2) for one step."""

    LEAF = "assaymark-worker"  # where this process goes: a group with limits for groups below may have no processes

    def __init__(self, folder: Path) -> None:
        """Args: folder: of the group."""
        self._folder = folder

    @classmethod
    def create(cls, limits: Resources, root: Path = Path("/sys/fs/cgroup")) -> "Cgroup | None":
        """Return a new group with these limits; None where none may be made (systemd: Delegate=memory pids)."""
        try:
            lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
            own = next(line for line in lines if line.startswith("0::"))
            above = root / own.removeprefix("0::").strip("/")
            above = above.parent if above.name == cls.LEAF else above
            if not {"memory", "pids"} <= set((above / "cgroup.controllers").read_text(encoding="ascii").split()):
                return None
            (above / cls.LEAF).mkdir(exist_ok=True)
            _write(above / cls.LEAF / "cgroup.procs", str(os.getpid()))
            _write(above / "cgroup.subtree_control", "+memory +pids")
            folder = above / f"assaymark-job-{os.getpid()}-{time.monotonic_ns()}"
            folder.mkdir()
            _write(folder / "memory.max", str(limits.memory_bytes))
            _write(folder / "pids.max", str(limits.n_processes))
            with suppress(OSError):  # without swap or with an older kernel these files do not exist
                _write(folder / "memory.swap.max", "0")
                _write(folder / "memory.oom.group", "1")
        except (OSError, StopIteration):
            return None
        return cls(folder)

    def add(self, process_id: int) -> None:
        """Move a process and all below it into the group, before they read anything that a submitter sent."""
        for each in (process_id, *descendants(process_id)):
            with suppress(OSError):  # it has just ended
                _write(self._folder / "cgroup.procs", str(each))

    def remove(self) -> None:
        """End the remaining processes of the group, and remove it."""
        for _ in range(50):
            with suppress(OSError):
                _write(self._folder / "cgroup.kill", "1")
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)
            else:
                return


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii")
