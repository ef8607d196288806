"""Hostile programs fail within their limits and leave the machine unchanged."""

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from assaymark.errors import PlanError
from assaymark.scoring import run_code
from assaymark.scoring.run_code import (
    Bubblewrap,
    Container,
    Limits,
    Outcome,
    Sandbox,
    Unprotected,
    choose_sandbox,
    find_sandbox,
    run_programs,
    running_in,
)

MARK = f"guard-of-test-{uuid.uuid4().hex}"
QUICK = Limits(cpu_seconds=1, wall_seconds=2.0)
# a program checks this before it does what would harm the machine if the sandbox were broken
INSIDE = """
import os
inside = [name for name in os.listdir("/proc") if name.isdigit()]
if len(inside) > 20 or os.getppid() != 1:
    raise SystemExit("not in a sandbox")
"""


@pytest.fixture
def sandbox() -> Sandbox:
    """Return bubblewrap, or skip where it cannot work."""
    result, why = find_sandbox()
    if not isinstance(result, Bubblewrap):
        pytest.skip(f"no bubblewrap here: {why}")
    return result


def strays(mark: str) -> list[str]:
    """Return the processes whose command line or environment contains a mark."""
    results = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in text and int(folder.name) != os.getpid():
            results.append(folder.name)
    return results


@pytest.fixture(autouse=True)
def marked_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark this session's guards and runners, to distinguish them from others on the machine."""
    for name in ("GUARD", "RUNNER"):
        marked = tmp_path / f"{name}.py"
        marked.write_text(getattr(run_code, name).read_text(encoding="utf-8") + f"# {MARK}\n", encoding="utf-8")
        monkeypatch.setattr(run_code, name, marked)


@pytest.fixture
def unwatched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs without the audit hook, so that the kernel's refusals are seen."""
    runner = tmp_path / "unwatched.py"
    text = run_code.RUNNER.read_text(encoding="utf-8")
    assert "    end_on_inspection(path)\n" in text
    runner.write_text(text.replace("    end_on_inspection(path)\n", ""), encoding="utf-8")
    monkeypatch.setattr(run_code, "RUNNER", runner)


def guards() -> list[str]:
    """Return the processes that still run a guard's program, of this session."""
    return strays(MARK)


def failed(sandbox: Sandbox, program: str, *, within: float = 20.0, limits: Limits | None = None) -> str:
    """Run a program that must fail in time and leave nothing running; return why it failed."""
    started = time.monotonic()
    outcome = sandbox.run(program, limits or QUICK)
    assert not outcome.passed
    assert time.monotonic() - started < within
    assert guards() == []
    assert outcome.reason is not None
    return outcome.reason


def test_a_right_program_passes(sandbox: Sandbox) -> None:
    """A program that runs to its end has passed, and the standard library is there."""
    assert sandbox.run("import math, re, collections, dataclasses, typing\nassert math.prod([2, 3]) == 6\n").passed


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("assert 1 == 2, 'no'", "AssertionError: no"),
        ("def f(:", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import os; os._exit(0)", "before its end"),
        ("input()", "EOFError"),
        ("\x00", "null bytes"),
        ("'\ud800'.encode()", ""),
        ("import os\nif os.fork(): os._exit(0)", "before its end"),
    ],
)
def test_only_the_end_is_a_pass(sandbox: Sandbox, program: str, reason: str) -> None:
    """Exiting early is not a pass, whatever the status; the reason is the program's own error."""
    outcome = sandbox.run(program)
    if reason:
        assert not outcome.passed
        assert reason in (outcome.reason or "")


def test_a_fork_bomb_is_limited_and_killed(sandbox: Sandbox) -> None:
    """Processes that multiply reach the limit, then all are killed."""
    bomb = INSIDE + "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    assert failed(sandbox, bomb) in {"limit: time", "limit: cpu time"}


def test_ten_gigabytes_are_refused(sandbox: Sandbox) -> None:
    """An allocation beyond the limit fails in the program."""
    assert failed(sandbox, "x = bytearray(10 * 2**30)") == "MemoryError"


def test_several_processes_share_one_memory_limit(sandbox: Sandbox) -> None:
    """Five processes together may not use more memory than one."""
    program = INSIDE + "import time\nfor _ in range(4):\n    os.fork()\nx = b'x' * (20 * 2**20)\ntime.sleep(60)\n"
    limits = Limits(cpu_seconds=10, wall_seconds=20.0, memory_bytes=100 * 2**20)
    assert failed(sandbox, program, limits=limits, within=40.0) in {"limit: memory", "MemoryError"}


BEYOND = 200  # MB, beside a limit of 100
UNCOUNTED = {
    "memfd_create": f"""
import os
fd = os.memfd_create("held")
for _ in range({BEYOND}):
    os.write(fd, b"x" * 2**20)
""",
    "memory files of several MB each": f"""
import os
held = [os.memfd_create("held") for _ in range({BEYOND} // 10)]
for fd in held:
    os.write(fd, b"x" * 10 * 2**20)
""",
    "System V shared memory": f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
for _ in range({BEYOND} // 10):
    segment = libc.shmget(0, 10 * 2**20, 0o1600)
    assert segment >= 0, ctypes.get_errno()
    place = libc.shmat(segment, None, 0)
    ctypes.memset(place, 1, 10 * 2**20)
    libc.shmdt(ctypes.c_void_p(place))
""",
    "a System V queue": """
import ctypes
assert ctypes.CDLL(None).msgget(0, 0o1600) >= 0
""",
    "a POSIX queue": """
import ctypes
assert ctypes.CDLL("librt.so.1").mq_open(b"/held", 0o102, 0o600, None) >= 0
""",
    "pages that a sleeping child maps": """
import mmap
mmap.mmap(-1, 2**20)
""",
    "/dev/shm": f"""
import os
for number in range({BEYOND} // 10):
    with open(f"/dev/shm/{{number}}", "wb") as file:
        file.write(b"x" * 10 * 2**20)
""",
    "/dev/zero": """
import mmap
with open("/dev/zero", "r+b") as file:
    mmap.mmap(file.fileno(), 2**20)
""",
}


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("kind", UNCOUNTED)
def test_memory_outside_processes_is_refused(sandbox: Sandbox, kind: str) -> None:
    """Memory that is in no process's own size cannot be allocated, so the memory limit covers all of it."""
    limits = Limits(cpu_seconds=5, wall_seconds=10.0, memory_bytes=100 * 2**20)
    reason = failed(sandbox, INSIDE + UNCOUNTED[kind], limits=limits)
    assert not reason.startswith(("limit: time", "limit: cpu", "limit: output"))


def test_private_mappings_stay_allowed(sandbox: Sandbox) -> None:
    """A program may still map memory of its own, and read files through a private mapping."""
    program = (
        "import mmap\nmmap.mmap(-1, 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)[0] = 1\n"
        "with open('f', 'wb') as file:\n    file.write(b'x' * 5000)\n"
        "with open('f', 'rb') as file:\n"
        "    assert mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)[0] == 120\n"
    )
    outcome = sandbox.run(program)
    assert outcome.passed, outcome.reason


def test_endless_output_is_stopped(sandbox: Sandbox) -> None:
    """Output beyond its limit ends the program; none of it is stored."""
    assert failed(sandbox, "while True: print('x' * 1000)", limits=Limits()) == "limit: output"


def test_sleeping_and_computing_for_ever_end_in_time(sandbox: Sandbox) -> None:
    """A program that waits ends by the clock, one that computes by its processor time."""
    assert failed(sandbox, "import time; time.sleep(1000)", limits=Limits(wall_seconds=0.5)) == "limit: time"
    assert failed(sandbox, "while True: pass", limits=Limits(cpu_seconds=1, wall_seconds=30.0)) == "limit: cpu time"


def test_the_system_and_the_home_cannot_be_written(sandbox: Sandbox, tmp_path: Path) -> None:
    """Neither home, nor repository, nor system folders can be changed or even seen; files are unchanged."""
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    home = Path.home() / ".assaymark-test-of-the-sandbox"
    for place in (kept, home, Path(__file__), Path("/usr/assaymark-test"), Path("/etc/assaymark-test")):
        reason = failed(sandbox, f"open({str(place)!r}, 'w').write('changed')")
        assert "No such file" in reason or "Read-only" in reason or "denied" in reason
    assert kept.read_text() == "kept"
    assert not home.exists()
    assert not Path("/usr/assaymark-test").exists()
    assert not Path("/etc/assaymark-test").exists()
    assert Path(__file__).stat().st_size > 1000


def test_deleting_everything_deletes_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    """A program that removes all it can reach removes none of the machine's files."""
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    program = INSIDE + f"import shutil\nshutil.rmtree('/', ignore_errors=True)\nos.remove({str(kept)!r})"
    # it walks through all of /usr, which took a slow machine more than 5 s; no limit is the subject here
    limits = Limits(cpu_seconds=60, wall_seconds=90.0)
    assert "No such file" in failed(sandbox, program, limits=limits, within=100.0)
    assert kept.read_text() == "kept"
    assert Path(sys.executable).exists()


def test_the_environment_is_empty(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither tokens nor anything else of our environment is visible, nor in any visible process."""
    monkeypatch.setenv("HF_TOKEN", "secret-of-the-test")
    program = """
import os
seen = str(dict(os.environ))
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            seen += open(f"/proc/{name}/environ").read() + open(f"/proc/{name}/cmdline").read()
        except OSError:
            pass
assert not os.environ, os.environ
assert "secret-of-the-test" not in seen
"""
    assert sandbox.run(program) == Outcome(True)


def test_there_is_no_network(sandbox: Sandbox) -> None:
    """Neither a server on this machine nor an outside address can be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        for address in (("127.0.0.1", port), ("192.0.2.1", 80)):
            reason = failed(sandbox, f"import socket\nsocket.create_connection({address!r}, 1)")
            assert "refused" in reason or "unreachable" in reason
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("target", ["os.getppid()", "1", "-1", "-os.getpgid(os.getppid())"])
def test_killing_the_parent_ends_nothing(sandbox: Sandbox, target: str) -> None:
    """Signals to the guard, to everything and to groups are refused; a process of ours outside survives."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as bystander:
        reason = failed(sandbox, INSIDE + f"import signal\nos.kill({target}, signal.SIGKILL)")
        assert "not permitted" in reason
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("call", ["execv", "execve"])
def test_no_other_program_is_started(sandbox: Sandbox, call: str) -> None:
    """The kernel refuses every start of a program but the guard's own, through the interpreter and through libc."""
    rest = ", {}" if call == "execve" else ""
    assert "not permitted" in failed(sandbox, f"import os\nos.{call}('/bin/true', ['true']{rest})")
    program = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
words = (ctypes.c_char_p * 2)(b"true", None)
assert libc.{call}(b"/bin/true", words, words) == 0, os.strerror(ctypes.get_errno())
"""
    assert "not permitted" in failed(sandbox, program)


@pytest.mark.usefixtures("unwatched")
def test_the_runners_memory_is_closed(sandbox: Sandbox) -> None:
    """Where programs get a user of their own, a program cannot open its own memory, hook or not."""
    if os.getuid() != 0:
        pytest.skip("programs share our user here; the audit hook alone refuses")
    assert "denied" in failed(sandbox, "open('/proc/self/mem', 'rb')")


def test_links_lead_nowhere(sandbox: Sandbox, tmp_path: Path) -> None:
    """Symbolic links, the guard's descriptors and parent folders lead to none of the machine's files."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    links = f"import os\nos.symlink({str(secret)!r}, '/tmp/link')\nopen('/tmp/link').read()"
    assert "No such file" in failed(sandbox, links)
    climbing = f"open('/proc/1/root{secret}').read()"
    assert "denied" in failed(sandbox, climbing) or "No such file" in failed(sandbox, climbing)
    verdict = """open('/proc/1/fd/1', 'w').write('{"passed": true, "reason": null}\\n')\nassert 0"""
    assert "denied" in failed(sandbox, verdict)


def test_files_have_limits(sandbox: Sandbox) -> None:
    """Neither one file nor many together may be large, and no other folder is writable."""
    assert "File too large" in failed(sandbox, "open('/tmp/a', 'wb').write(bytes(2**26))", limits=Limits())
    many = "for i in range(100):\n    open(f'/tmp/{i}', 'wb').write(bytes(2**20))\n"
    assert "No space" in failed(sandbox, many, limits=Limits())
    assert "Read-only" in failed(sandbox, "open('/dev/shm/a', 'wb')")


@pytest.mark.usefixtures("unwatched")
def test_no_namespace_of_its_own(sandbox: Sandbox) -> None:
    """A program cannot become root of a new namespace, where limits on disk would not apply."""
    program = "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0, 'refused'"
    assert "refused" in failed(sandbox, program)


def test_processes_left_running_are_killed(sandbox: Sandbox) -> None:
    """A daemon in a session of its own is gone when the verdict is returned."""
    program = "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        import time\n"
    assert sandbox.run(program + "        time.sleep(100)\n    os._exit(0)\n").passed
    assert guards() == []


# ------------------------------------------------------------------------------------- where there is no sandbox


def without_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make bwrap and containers disappear."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("ASSAYMARK_CODE_CONTAINER", raising=False)


def test_without_a_sandbox_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the command that installs a sandbox, and the option to run without one."""
    without_sandbox(monkeypatch)
    with pytest.raises(PlanError, match=r"task x runs generated code.* apt-get install bubblewrap .*--unsafe-code"):
        choose_sandbox("task x")
    with pytest.raises(PlanError):
        run_programs(["pass"])


def test_without_a_sandbox_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where running without one is allowed, a plain process is chosen, but never with root's privileges."""
    without_sandbox(monkeypatch)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert choose_sandbox("task x", unsafe=True) == Unprotected()
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(run_code, "_is_open_to_all", lambda folder: False)
    with pytest.raises(PlanError, match="only root can read"):
        choose_sandbox("task x", unsafe=True)


def test_a_plain_process_has_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a sandbox a program still runs elsewhere, with limits, and its folder is removed."""
    if os.getuid() == 0 and not run_code._is_open_to_all(Path(sys.base_prefix)):
        other = shutil.which("python3", path="/usr/bin")
        if other is None:
            pytest.skip("we are root, and there is no Python that others may run")
        monkeypatch.setattr(sys, "executable", other)
        monkeypatch.setattr(sys, "base_prefix", "/usr")
    plain = Unprotected()
    assert plain.run("import os, math\nassert not os.environ\nassert os.getuid() != 0\n").passed
    assert failed(plain, "x = bytearray(10 * 2**30)") == "MemoryError"
    assert failed(plain, "import time; time.sleep(1000)", limits=Limits(wall_seconds=0.5)) == "limit: time"
    assert failed(plain, "while True: print('x' * 1000)", limits=Limits()) == "limit: output"
    assert "before its end" in failed(plain, "import os; os._exit(0)")
    if sys.platform == "linux":
        harmless = "import os\nos.kill(os.getpid(), 0)"  # signal 0 ends nothing, and is refused like all others
        assert "not permitted" in failed(plain, harmless)
    left = "import os\nif os.fork() == 0:\n    os.setsid()\n    import time\n    time.sleep(100)\n"
    assert plain.run(left).passed
    assert guards() == []


def test_a_container_is_the_command_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ASSAYMARK_CODE_CONTAINER wins over bubblewrap; its limits are filled in, and the guard is appended."""
    runtime = tmp_path / "runtime"
    runtime.write_text(
        f'#!/bin/sh\necho "$@" | head -n 1 > {tmp_path}/asked\nshift 2\necho \'{{"passed": true, "reason": null}}\'\n'
    )
    runtime.chmod(0o755)
    template = f"{runtime} --memory {{memory_mb}}m image"
    monkeypatch.setenv("ASSAYMARK_CODE_CONTAINER", template)
    result, why = find_sandbox()
    assert result == Container(template), why
    assert (tmp_path / "asked").read_text().startswith("--memory 1024m image python3 -I -S -c")
    assert result.name == f"container: {template}"
    with pytest.raises(PlanError, match="cannot be parsed"):
        Container("docker {no_such_limit}").run("pass")
    assert "cannot be started" in (Container("/no/such/runtime").run("pass").reason or "")


def test_outcomes_are_collected(sandbox: Sandbox) -> None:
    """`running_in` sets the sandbox and collects outcomes; the same program is run once."""
    with running_in(sandbox) as outcomes:
        assert [outcome.passed for outcome in run_programs(["pass", "assert 0", "pass"])] == [True, False, True]
        first = outcomes["pass"]
        assert run_programs(["pass"])[0] is first
    assert [outcome.passed for outcome in outcomes.values()] == [True, False]
