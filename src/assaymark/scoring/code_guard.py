"""The guard inside the sandbox, which limits and watches a program. This file is run there, never imported here.

`python -I -S -c <this file> <limits as JSON>` reads the program from standard input and prints one line of JSON, the
verdict. The started process only watches: its child, with rlimits set and all privileges dropped, runs the program. A
program has passed when it ran to its end, so exiting early with status 0 is no pass. The program cannot inspect the
watcher or (in a namespace of its own) kill it, and no process is left behind. A program that looks for the token of a
pass, in frames or among the collector's objects, is ended (`end_on_inspection`).
Only Python's standard library is available here.
"""

# pathlib takes long to import, and every program would wait for it:
# ruff: noqa: PTH101, PTH116, PTH118, PTH123, PTH208

import _thread
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import struct
import sys
import time
import types

TICK_SECONDS = 0.05
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 36, 38
_PR_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NEW_USER_NAMESPACE = 0x10000000
# machine -> its number for seccomp, the refused system calls, clone, mmap. Refused are, in this order:
# unshare setns mount ptrace keyctl bpf userfaultfd perf_event_open io_uring_setup: namespaces, processes, the kernel
# kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal: kill(-1) ends all that a user runs
# memfd_create memfd_secret shmget shmat msgget mq_open: memory that belongs to no process, so that no limit counts it
_CALLS = {
    "x86_64": (
        0xC000003E,
        (272, 308, 165, 101, 250, 321, 323, 298, 425, 62, 200, 234, 129, 297, 424, 319, 447, 29, 30, 68, 240),
        56,
        9,
    ),
    "aarch64": (
        0xC00000B7,
        (97, 268, 40, 117, 219, 280, 282, 241, 425, 129, 130, 131, 138, 240, 424, 279, 447, 194, 196, 186, 180),
        220,
        222,
    ),
}
_CLONE3 = 435
_MAP_SHARED = 1  # also a bit of MAP_SHARED_VALIDATE, and none of MAP_PRIVATE


def prctl(option: int, value: int) -> None:
    """Set a property of this process where the system supports it (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def forbid_calls() -> None:
    """Have the kernel refuse calls that escape the limits (namespaces, shared memory) or signal other processes.

    All shared mappings are refused: a process that maps one without touching it keeps its pages alive without adding
    to its own resident size, which `watch` sums.
    """
    if sys.platform != "linux" or os.uname().machine not in _CALLS:
        return
    machine, refused, clone, mmap = _CALLS[os.uname().machine]
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF: LD W ABS, JEQ, JGE, JSET, RET
    allow, no_permission, no_such_call = 0x7FFF0000, 0x00050001, 0x00050026
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (answer, 0, 0, no_permission), (load, 0, 0, 0)]
    steps += [(at_least, 0, 1, 0x40000000), (answer, 0, 0, no_permission)]
    for call in refused:
        steps += [(equal, 0, 1, call), (answer, 0, 0, no_permission)]
    steps += [
        (equal, 0, 1, _CLONE3),
        (answer, 0, 0, no_such_call),
    ]  # its flags cannot be inspected; libc falls back to clone
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


def give_up_rights(limits: dict[str, int]) -> None:
    """Set the limits irrevocably; where the sandbox started us as root, become a user who owns nothing."""
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
    if limits.get("user_id") and os.getuid() == 0:
        os.setgroups([])
        os.setresgid(*[limits["user_id"]] * 3)
        os.setresuid(*[limits["user_id"]] * 3)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    forbid_calls()


def tasks_of_user(limits: dict[str, int]) -> int:
    """Return how many threads this user already has, since the limit counts them; 0 where the user is new."""
    if limits.get("user_id") and os.getuid() == 0:
        return 0
    found = 0
    for pid in processes():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                found += len(os.listdir(f"/proc/{pid}/task"))
    return found


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
    found: list[int] = []
    above = {os.getpid()}
    while above:
        above = {pid for pid, parent in parents.items() if parent in above and pid != os.getpid()} - set(found)
        found += sorted(above)
    return found


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


# events of `sys.addaudithook` that no answer to a programming problem needs, and that lead to every object
INSPECTING = frozenset({
    "gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys._current_exceptions",
    "sys.settrace", "sys.setprofile", "sys.addaudithook", "sys.monitoring.register_callback", "ctypes.string_at",
    "ctypes.wstring_at", "ctypes.cdata", "ctypes.PyObj_FromPtr",
})  # fmt: skip
FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
NAMING = ("/collections/__init__.py", "/typing.py", "/enum.py")  # they read a caller's name and return no frame


def end_on_inspection(program: str, verdict: int) -> None:
    """End this process, with the reason as its verdict, when the program gets hold of a frame or of foreign objects.

    The standard library may use frames (tracebacks, logging, unittest) as long as it does not hand them to the program:
    neither the function that gets the frame nor the one that called it may be the program's.
    """
    write, leave, frame_of, ident = os.write, os._exit, sys._getframe, _thread.get_ident  # noqa: SLF001 - documented
    in_hook: set[int] = set()

    def is_programs(frame: types.FrameType) -> bool:
        file = frame.f_code.co_filename
        return file == program or (file.startswith("<") and not file.startswith("<frozen"))

    def gets_frame(frame: types.FrameType) -> bool:
        if is_programs(frame) or frame.f_code.co_filename.endswith("/inspect.py"):
            return True
        above = frame.f_back
        return not frame.f_code.co_filename.endswith(NAMING) and above is not None and is_programs(above)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        is_source = event == "sys._getframe" or (event == "object.__getattr__" and arguments[1] in FRAMES)
        is_inspecting = event in INSPECTING or (
            event == "ctypes.dlsym" and str(arguments[1]).startswith(("Py", "_Py"))  # the interpreter's own functions
        )
        if not is_source and not is_inspecting:
            return
        thread = ident()
        if thread in in_hook:  # this function's own look at frames
            return
        in_hook.add(thread)
        try:
            caught = is_inspecting or gets_frame(frame_of(1))
        finally:
            in_hook.discard(thread)
        if caught:
            name = arguments[1] if event == "object.__getattr__" else event
            write(verdict, f"it inspects its interpreter ({name})".encode())
            leave(1)

    sys.addaudithook(hook)


def run_program(path: str, token: bytes, verdict: int) -> None:
    """Run the program in this process, write to `verdict` how it ended, and exit.

    Functions of modules are looked up before, since the program may replace them; handlers of `atexit` are not run.
    """
    result, here = b"", os.getpid()
    write, leave, process_id = os.write, os._exit, os.getpid
    names: dict[str, object] = {"__name__": "<run_path>", "__file__": path, "__doc__": None}
    with open(path, "rb") as file:
        source = file.read()
    end_on_inspection(path, verdict)
    try:
        exec(compile(source, path, "exec"), names)  # noqa: S102 - what this process is for
        result = token
    except MemoryError:
        result = b"MemoryError"
    except BaseException as error:  # noqa: BLE001 - whatever a program raises, SystemExit too, is its failure
        result = f"{type(error).__name__}: {error}"[:300].encode("utf-8", "replace")
    if process_id() == here:  # not in a fork of the program
        with contextlib.suppress(OSError):
            write(verdict, result)
    leave(0)


def start(program: bytes, token: bytes, limits: dict[str, int]) -> tuple[int, int, int]:
    """Start the program in a child; return the child's id and the pipes of its output and its verdict."""
    folder = os.path.realpath(os.curdir)
    path = os.path.join(folder, "program.py")
    with open(path, "wb") as file:
        file.write(program)
    os.chmod(path, 0o444)
    output, output_in = os.pipe()
    verdict, verdict_in = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for target, source in ((0, nothing), (1, output_in), (2, output_in), (3, verdict_in)):
                os.dup2(source, target + 10)
            for target in range(4):
                os.dup2(target + 10, target)
            os.closerange(4, 1024)
            os.environ.clear()
            give_up_rights(limits)
        except BaseException as error:  # noqa: BLE001 - no program is run without its limits
            os.write(3, f"no limits: {error}".encode())
            os._exit(1)
        run_program(path, token, 3)
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
    return used.ru_utime + used.ru_stime >= limits["cpu_seconds"] - 0.1


def main() -> None:
    """Run the program on standard input and print the verdict."""
    limits = json.loads(sys.argv[1])
    prctl(_PR_SET_DUMPABLE, 0)  # only root can open this process's files or memory
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    token = os.urandom(16).hex().encode()  # the module secrets takes longer to import
    child, output, verdict = start(sys.stdin.buffer.read(), token, limits)
    broken = watch(child, output, limits)
    end_everything(child)
    os.set_blocking(verdict, False)
    result = b""
    with contextlib.suppress(OSError):
        result = os.read(verdict, 4096)
    if broken is None and result == token:
        answer: dict[str, bool | str | None] = {"passed": True, "reason": None}
    else:
        error = result.decode("utf-8", "replace") if result and result != token else "it exited before its end"
        answer = {"passed": False, "reason": f"limit: {broken}" if broken else error}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
