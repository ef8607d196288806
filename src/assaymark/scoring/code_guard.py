"""The guard inside the sandbox, which limits and watches a program. This file is run there, never imported here.

`python -I -S -c <this file> <limits as JSON>` reads JSON from standard input (answer, tests, and the source of
`code_runner`) and prints one line of JSON, the verdict. The started process only watches: its child, with limits set
and all privileges dropped, becomes a new interpreter, which runs the program. A program has passed when the runner has
written the token at the end, and nothing else was written: exiting early with status 0 is not a pass. The program
cannot inspect the watcher or (in a namespace of its own) kill it, cannot start other programs, and no process is left
behind. Only Python's standard library is available here.
"""

# pathlib takes long to import, and every program would wait for it:
# ruff: noqa: PTH101, PTH108, PTH116, PTH118, PTH123, PTH208

import contextlib
import ctypes
import json
import marshal
import os
import resource
import select
import signal
import struct
import sys
import time

TICK_SECONDS = 0.05
FLAGS = frozenset({"built-in names", "equality", "other modules"})  # that the runner may report
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 36, 38
_PR_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NEW_USER_NAMESPACE = 0x10000000
# machine -> its number for seccomp, the refused system calls, clone, mmap. Refused are, in this order:
# unshare setns mount ptrace keyctl bpf userfaultfd perf_event_open io_uring_setup: namespaces, processes, the kernel
# kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal: kill(-1) ends all that a user runs
# process_vm_readv process_vm_writev pidfd_getfd: memory and files of other processes
# memfd_create memfd_secret shmget shmat msgget mq_open: memory that belongs to no process, so that no limit counts it
_CALLS = {
    "x86_64": (0xC000003E, (
        272, 308, 165, 101, 250, 321, 323, 298, 425, 62, 200, 234, 129, 297, 424, 310, 311, 438, 319, 447, 29, 30, 68,
        240,
    ), 56, 9),
    "aarch64": (0xC00000B7, (
        97, 268, 40, 117, 219, 280, 282, 241, 425, 129, 130, 131, 138, 240, 424, 270, 271, 438, 279, 447, 194, 196, 186,
        180,
    ), 220, 222),
}  # fmt: skip
_EXECVE = {"x86_64": (59, 322), "aarch64": (221, 281)}  # machine -> the numbers of execve and execveat
_CLONE3 = 435
_MAP_SHARED = 1  # also a bit of MAP_SHARED_VALIDATE, and none of MAP_PRIVATE


def prctl(option: int, value: int) -> None:
    """Set a property of this process where the system supports it (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def forbid_calls(magic: int) -> None:
    """Have the kernel refuse calls that escape the limits (namespaces, shared memory), signal or start programs.

    All shared mappings are refused: a process that maps one without touching it keeps its pages alive without adding
    to its own resident size, which `watch` sums.
    """
    machine, refused, clone, mmap = _CALLS[os.uname().machine]
    execve, execveat = _EXECVE[os.uname().machine]
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF: LD W ABS, JEQ, JGE, JSET, RET
    allow, no_permission, no_such_call = 0x7FFF0000, 0x00050001, 0x00050026
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (answer, 0, 0, no_permission), (load, 0, 0, 0)]
    steps += [(at_least, 0, 1, 0x40000000), (answer, 0, 0, no_permission)]
    for call in (*refused, execveat):
        steps += [(equal, 0, 1, call), (answer, 0, 0, no_permission)]
    steps += [
        (equal, 0, 1, _CLONE3),
        (answer, 0, 0, no_such_call),
    ]  # its flags cannot be inspected; libc falls back to clone
    # another program has no audit hook; execve is allowed with the secret in its sixth argument, which it ignores
    steps += [(equal, 0, 6, execve), (load, 0, 0, 16 + 8 * 5), (equal, 0, 3, magic & 0xFFFFFFFF)]
    steps += [
        (load, 0, 0, 20 + 8 * 5),
        (equal, 0, 1, magic >> 32),
        (answer, 0, 0, allow),
        (answer, 0, 0, no_permission),
    ]
    for call, argument, bit in ((clone, 0, _NEW_USER_NAMESPACE), (mmap, 3, _MAP_SHARED)):
        # the low half of an argument; both machines are little-endian
        steps += [(equal, 0, 4, call), (load, 0, 0, 16 + 8 * argument), (any_bit, 0, 1, bit)]
        steps += [(answer, 0, 0, no_permission), (answer, 0, 0, allow)]
    steps += [(answer, 0, 0, allow)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(steps), ctypes.addressof(held))
    if ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.create_string_buffer(program, len(program))):
        raise OSError("the kernel accepts no seccomp filter")


def give_up_rights(limits: dict[str, int], words: list[str], environment: dict[str, str]) -> None:
    """Set the limits irrevocably and become another program; where we are root, that gives up the user as well."""
    pairs = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["n_files"]),
        (resource.RLIMIT_NPROC, limits["n_processes"] + tasks_of_user(limits)),
    )
    for name, most in pairs:
        hard = resource.getrlimit(name)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (allowed, allowed))
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if sys.platform != "linux" or os.uname().machine not in _CALLS:
        os.execve(words[0], words, environment)  # noqa: S606 - our own runner
    magic = int.from_bytes(os.urandom(8), "little")
    forbid_calls(magic)
    become(words, environment, magic)


def become(words: list[str], environment: dict[str, str], magic: int) -> None:
    """Become another program by the one call of execve that the filter allows: it has a secret sixth argument.

    Raises: OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
    texts = (f"{name}={value}" for name, value in environment.items())
    variables = (ctypes.c_char_p * (len(environment) + 1))(*map(os.fsencode, texts), None)
    number, path = ctypes.c_long(_EXECVE[os.uname().machine][0]), ctypes.c_char_p(os.fsencode(words[0]))
    nothing = ctypes.c_long(0)
    libc.syscall(number, path, arguments, variables, nothing, nothing, ctypes.c_ulong(magic))
    raise OSError(ctypes.get_errno(), "the program cannot be started")


def tasks_of_user(limits: dict[str, int]) -> int:
    """Return how many threads this user already has, since the limit counts them; 0 where the user is new."""
    if limits.get("user_id") and os.getuid() == 0:
        return 0
    n_tasks = 0
    for pid in processes():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                n_tasks += len(os.listdir(f"/proc/{pid}/task"))
    return n_tasks


def processes() -> list[int]:
    """Return the ids of all visible processes."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # no /proc: not Linux
        return []


def descendants() -> list[int]:
    """Return all descendants of this process; it is the reaper of orphans among them."""
    parents: dict[int, int] = {}
    for pid in processes():
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
            parents[pid] = int(file.read().rpartition(b")")[2].split()[1])
    below: list[int] = []
    above = {os.getpid()}
    while above:
        above = {pid for pid, parent in parents.items() if parent in above and pid != os.getpid()} - set(below)
        below += sorted(above)
    return below


def resident_bytes() -> int:
    """Return the resident memory of all descendants; shared pages are counted for each of them."""
    total = 0
    for pid in descendants():
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
            total += int(file.read().split()[1]) * _PAGE
    return total


def end_everything(child: int) -> None:
    """Kill all processes that the program left running."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        if os.getpid() == 1:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
        for pid in descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def start(job: dict[str, str], token: bytes, limits: dict[str, int]) -> tuple[int, int, int]:
    """Start the program in a child; return the child's id and the pipes of its output and its verdict.

    The child becomes a new interpreter (`code_runner`): this one has loaded ctypes, and holds the token.
    """
    folder = os.path.realpath(os.curdir)
    path = os.path.join(folder, "program.py")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(job["answer"])  # for tracebacks; the tests are in no file
    os.chmod(path, 0o444)
    message: dict[str, object] = {"path": path, "answer": job["answer"], "tests": job["tests"], "token": token}
    message["user_id"] = limits.get("user_id", 0)
    holder = os.path.join(folder, "job")
    job_in = os.open(holder, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(holder)
    with open(job_in, "wb", closefd=False) as file_of_job:
        file_of_job.write(marshal.dumps(message))
    os.lseek(job_in, 0, os.SEEK_SET)
    output, output_in = os.pipe()
    verdict, verdict_in = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            for target, source in ((0, job_in), (1, output_in), (2, output_in), (3, verdict_in)):
                os.dup2(source, target + 10)
            for target in range(4):
                os.dup2(target + 10, target)
            os.closerange(4, 1024)
            words = [sys.executable, "-I", "-S", "-c", job["runner"]]
            library = os.environ.get("LD_LIBRARY_PATH")
            environment = {"LD_LIBRARY_PATH": library} if library else {}
            give_up_rights(limits, words, environment)
        except BaseException as error:  # noqa: BLE001 - no program is run without its limits
            os.write(3, f"no limits: {error}".encode())
        os._exit(1)
    os.close(job_in)
    os.close(output_in)
    os.close(verdict_in)
    return child, output, verdict


def watch(child: int, output: int, limits: dict[str, int]) -> str | None:
    """Wait until the child has ended; return the limit it exceeded, or None."""
    deadline, n_bytes = time.monotonic() + limits["wall_seconds"], 0
    next_check = 0.0
    while True:
        if select.select([output], [], [], TICK_SECONDS / 5)[0]:
            piece = os.read(output, 1 << 16)
            n_bytes += len(piece)
            if not piece:
                time.sleep(0.002)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                name = signal.Signals(os.WTERMSIG(status)).name
                return "cpu time" if name in {"SIGXCPU", "SIGKILL"} and cpu_spent(limits) else f"killed by {name}"
            return None
        if n_bytes > limits["output_bytes"]:
            return "output"
        now = time.monotonic()
        if now > deadline:
            return "time"
        if now > next_check:
            next_check = now + TICK_SECONDS
            if resident_bytes() > limits["memory_bytes"]:
                return "memory"


def cpu_spent(limits: dict[str, int]) -> bool:
    """Return whether the ended children used up the processor time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # the kernel's limit counts whole ticks, the usage is exact: on a busy machine they differ by a tenth of a second
    return used.ru_utime + used.ru_stime >= limits["cpu_seconds"] - 0.3


def main() -> None:
    """Run the program on standard input and print the verdict."""
    limits = json.loads(sys.argv[1])
    prctl(_PR_SET_DUMPABLE, 0)  # only root can open this process's files or memory
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    token = os.urandom(16).hex().encode()  # the module secrets takes longer to import
    child, output, verdict = start(json.loads(sys.stdin.buffer.read()), token, limits)
    broken = watch(child, output, limits)
    end_everything(child)
    os.set_blocking(verdict, False)
    result = b""
    with contextlib.suppress(OSError):
        result = os.read(verdict, 4096)
    flags, _, end = result.rpartition(b"\n")
    answer: dict[str, object] = {"passed": False, "flags": []}
    if broken is not None:
        answer["reason"] = f"limit: {broken}"
    elif end == token and set(flags.decode("utf-8", "replace").split(",")) <= {"", *FLAGS}:
        answer = {"passed": True, "reason": None, "flags": [flag for flag in flags.decode().split(",") if flag]}
    elif end == token:  # whatever else was written is not the runner's
        answer["reason"] = "it wrote a verdict of its own"
    else:
        answer["reason"] = result.decode("utf-8", "replace") or "it exited before its end"
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
