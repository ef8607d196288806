"""Run generated code in a sandbox: no network, a read-only system, no home, an empty environment, hard limits.

It is never run in our own process, but by bubblewrap, by a container runtime that the setting ASSAYMARK_CODE_CONTAINER
names, or, only where the user allowed it, by a plain process with limits. In all three, `code_guard` sets the limits
and reports how the program ended, and `code_runner` runs it and then its tests in an interpreter of its own. The tests
run in the answer's process, so an answer can cheat them; the tricks that are known are caught, or noted as
`Outcome.flags` for people to look at (the table is in docs/how_scores_are_computed.md).
"""

import contextlib
import json
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from assaymark import settings
from assaymark.errors import PlanError
from assaymark.limits.bubblewrap import system_mounts
from assaymark.platforms import end_with_pipes, is_root, not_here

GUARD = Path(__file__).with_name("code_guard.py")
RUNNER = Path(__file__).with_name("code_runner.py")
_AS_ROOT = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_KILL")
_GRACE_SECONDS = 5.0  # for starting the sandbox and for the guard's cleanup, beyond the program's own time
_FIRST_USER = 1_500_000_000  # unused user ids; a new one for each program, so that its processes can be counted
REMEDY = (
    "apt-get install bubblewrap (or dnf, pacman ...), or name a container with "
    "ASSAYMARK_CODE_CONTAINER='docker run --rm -i --network none --read-only --tmpfs /tmp -w /tmp --cap-drop ALL "
    "--user 65534 --memory {memory_mb}m --pids-limit {n_processes} python:3.11-slim'"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that one program may use. The processor time is that of Hugging Face evaluate's code_eval."""

    cpu_seconds: int = 3
    wall_seconds: float = 10.0  # more than the processor time: the machine may be busy, the program may sleep
    memory_bytes: int = 1 << 30
    output_bytes: int = 1 << 20
    file_bytes: int = 1 << 24
    disk_bytes: int = 1 << 26
    n_processes: int = 16  # threads count
    n_files: int = 64


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one program ended."""

    passed: bool
    reason: str | None = None  # why it did not pass: its error, or the limit it broke
    flags: tuple[str, ...] = ()  # of an answer that could have passed by other means than being right: see `flags_of`


_FLAGS = {  # what an answer mentions -> words that no answer to a programming problem needs, and cheating does
    "frames": r"_getframe|f_back|f_locals|f_globals|currentframe|tb_frame|gi_frame|cr_frame|settrace|setprofile",
    "the collector": r"\bgc\b",
    "/proc": r"/proc\b",
    "the exit": r"\batexit\b|\b_exit\b|\bexecv|SystemExit|\b(?:sys\s*\.\s*exit|quit|exit)\s*\(",
    "equality": r"__(?:eq|ne|bool|lt|le|gt|ge|contains|instancecheck|subclasscheck)__",
    "built-in names": r"\bbuiltins\b|__builtins__|AssertionError|\bassert[A-Z]\w*\s*=",
    "memory": r"\bctypes\b|\b_ctypes\b",
    "other modules": r"\b(?:math|unittest|sys|os|random|time)\.\w+(?:\.\w+)*\s*=(?!=)|\bsetattr\s*\(|\bsys\.modules\b",
}
_FLAG_PATTERNS = {name: re.compile(pattern) for name, pattern in _FLAGS.items()}
LONGEST_LOOKED_AT = 1 << 20  # characters


def flags_of(answer: str) -> tuple[str, ...]:
    """List what an answer mentions that may decide its tests without solving the problem; its text is only searched.

    A flagged answer keeps its score: a class may well define `__eq__`. A text made while the program runs is not found.
    """
    return tuple(name for name, pattern in _FLAG_PATTERNS.items() if pattern.search(answer[:LONGEST_LOOKED_AT]))


class Sandbox(Protocol):
    """Runs programs."""

    @property
    def name(self) -> str:
        """The name stored in a run's plan."""
        ...

    def run(self, program: str, limits: Limits | None = None, *, tests: str = "") -> Outcome:
        """Run the program and its tests; this returns within the limits, whatever the program does."""
        ...


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Separate namespaces for files, processes, network and users, created by bwrap."""

    executable: str
    name: str = "bubblewrap"

    def run(self, program: str, limits: Limits | None = None, *, tests: str = "") -> Outcome:
        """Run the program."""
        limits = limits or Limits()
        python, binds = _interpreter()
        as_root = is_root()
        words = [self.executable, "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
        words += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        # root needs no user namespace: each program gets a user of its own, without which processes are not counted
        words += _AS_ROOT if as_root else ["--unshare-user", "--disable-userns"]
        words += ["--hostname", "sandbox", *system_mounts(), *binds, "--proc", "/proc", "--dev", "/dev"]
        words += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", "/tmp", "--chdir", "/tmp"]  # noqa: S108 - its own
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return _run([*words, "--", *_guarded(python, limits, as_root=as_root)], program, limits, tests=tests)


@dataclass(frozen=True, slots=True)
class Container:
    """A container runtime: the user's command, to which the guard's is appended."""

    template: str

    @property
    def name(self) -> str:
        """The command, because it decides which Python runs the programs."""
        return f"container: {self.template}"

    def run(self, program: str, limits: Limits | None = None, *, tests: str = "") -> Outcome:
        """Run the program."""
        limits = limits or Limits()
        words = [*self._words(limits), *_guarded("python3", limits)]
        return _run(words, program, limits, tests=tests, environment=None)

    def _words(self, limits: Limits) -> list[str]:
        try:
            known = {**asdict(limits), "memory_mb": limits.memory_bytes >> 20}
            return [word.format(**known) for word in shlex.split(self.template)]
        except (ValueError, KeyError, IndexError) as error:
            raise PlanError(
                f"ASSAYMARK_CODE_CONTAINER is '{self.template}', which cannot be parsed ({error}); expected a command "
                "with {memory_mb}, {n_processes}, {wall_seconds} where it needs them"
            ) from None


@dataclass(frozen=True, slots=True)
class Unprotected:
    """A separate process with limits but no sandbox: the program can read what the user can read."""

    name: str = "no sandbox (--unsafe-code)"

    def run(self, program: str, limits: Limits | None = None, *, tests: str = "") -> Outcome:
        """Run the program in an empty folder that is removed afterwards; where we are root, as an unprivileged user."""
        limits = limits or Limits()
        python = Path(sys.executable).resolve()
        drop = is_root()
        with tempfile.TemporaryDirectory(prefix="assaymark-code-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o777 if drop else 0o700)
            return _run(_guarded(str(python), limits, as_root=drop), program, limits, tests=tests, cwd=folder)


@lru_cache(maxsize=4)
def _probe(template: str | None, executable: str | None) -> tuple[Sandbox | None, str]:
    """Return the sandbox that works here, or None and the reason."""
    if template:
        sandbox: Sandbox = Container(template)
    elif executable:
        sandbox = Bubblewrap(executable)
    else:
        return None, "bwrap is not installed"
    tried = sandbox.run("assert 1 + 1 == 2\n", Limits(wall_seconds=60.0))
    return (sandbox, "") if tried.passed else (None, f"{sandbox.name} cannot run a program here: {tried.reason}")


def find_sandbox() -> tuple[Sandbox | None, str]:
    """Return the sandbox that works here (the container if one is configured), or None and the reason."""
    return _probe(settings.read("ASSAYMARK_CODE_CONTAINER"), shutil.which("bwrap"))


def choose_sandbox(wanted_for: str, *, unsafe: bool = False) -> Sandbox:
    """Return the sandbox to use; where there is none, a plain process if the user allowed that.

    Raises: PlanError with the command that would provide a sandbox.
    """
    sandbox, why = find_sandbox()
    if sandbox is not None:
        return sandbox
    if sys.platform == "win32":
        wsl = not_here(f"{wanted_for} runs generated code in a sandbox, which")
        named = settings.read("ASSAYMARK_CODE_CONTAINER")
        raise PlanError(f"{wsl}; {why if named else 'or name a container with ASSAYMARK_CODE_CONTAINER'}")
    if unsafe and is_root() and not _is_open_to_all(Path(sys.base_prefix)):
        raise PlanError(
            f"{wanted_for} runs generated code; there is no sandbox here ({why}), and as root it would be run "
            f"without privileges, by a Python in {sys.base_prefix} that only root can read. Run as another user, or "
            f"install a sandbox: {REMEDY}"
        )
    if unsafe:
        return Unprotected()
    raise PlanError(
        f"{wanted_for} runs generated code, and there is no sandbox here: {why}. To install one: {REMEDY}. "
        "To run the code without one, with your privileges: --unsafe-code"
    )


@dataclass(slots=True)
class _Runs:
    """The current sandbox and the outcomes of programs; the same program is not run twice."""

    sandbox: Sandbox
    outcomes: dict[str, Outcome]


_current: ContextVar[_Runs | None] = ContextVar("assaymark_sandbox", default=None)


@contextlib.contextmanager
def running_in(sandbox: Sandbox) -> Iterator[Mapping[str, Outcome]]:
    """Make `run_programs` use this sandbox; yields the programs it ran, with their outcomes, in order."""
    runs = _Runs(sandbox, {})
    token = _current.set(runs)
    try:
        yield runs.outcomes
    finally:
        _current.reset(token)


def run_programs(answers: Sequence[str], limits: Limits | None = None, *, tests: str = "") -> list[Outcome]:
    """Run answers, each followed by the tests, one after another in the sandbox set by `running_in`.

    Without one it is the sandbox that `choose_sandbox` finds. What the answers mention is noted in `Outcome.flags`.

    Raises: PlanError where there is none.
    """
    runs = _current.get() or _Runs(choose_sandbox("this metric"), {})
    programs = [f"{answer}\n{tests}" if tests else answer for answer in answers]
    for answer, program in zip(answers, programs, strict=True):
        if program not in runs.outcomes:
            outcome = runs.sandbox.run(answer, limits, tests=tests)
            flags = {*flags_of(answer), *outcome.flags}
            runs.outcomes[program] = replace(outcome, flags=tuple(name for name in _FLAGS if name in flags))
    return [runs.outcomes[program] for program in programs]


def _guarded(python: str, limits: Limits, *, as_root: bool = False) -> list[str]:
    settings_of_guard = asdict(limits)
    if as_root:
        settings_of_guard["user_id"] = _FIRST_USER + secrets.randbelow(500_000_000)
    return [python, "-I", "-S", "-c", GUARD.read_text(encoding="utf-8"), json.dumps(settings_of_guard)]


def _interpreter() -> tuple[str, list[str]]:
    """Return our Python's path inside the sandbox and the mounts it needs, without installed packages."""
    real, prefix = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    if prefix.is_relative_to("/usr") or not real.is_relative_to(prefix):
        return str(real), []
    binds = ["--ro-bind", str(prefix), "/python", "--setenv", "LD_LIBRARY_PATH", "/python/lib"]
    return str(Path("/python") / real.relative_to(prefix)), binds


def _is_open_to_all(folder: Path) -> bool:
    """Return whether an unprivileged user can enter this folder."""
    try:
        return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))
    except OSError:
        return False


def _run(
    words: Sequence[str],
    program: str,
    limits: Limits,
    *,
    tests: str = "",
    cwd: str | None = None,
    environment: Mapping[str, str] | None = MappingProxyType({}),  # None: ours, which a container's client needs
) -> Outcome:
    """Run the guard and return its verdict; kill it, and all it started, on a timeout."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return Outcome(False, f"{words[0]} cannot be started: {error.strerror or error}")
    job = {"answer": _encodable(program), "tests": _encodable(tests), "runner": RUNNER.read_text(encoding="utf-8")}
    try:
        output, errors = process.communicate(json.dumps(job).encode(), limits.wall_seconds + _GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        end_with_pipes(process)
        return Outcome(False, "limit: time")
    finally:
        end_with_pipes(process)
    status = process.returncode
    try:
        verdict = json.loads(output.decode("utf-8").strip().splitlines()[-1])
        return Outcome(bool(verdict["passed"]), verdict["reason"], tuple(verdict.get("flags", ())))
    except (ValueError, IndexError, KeyError, TypeError):
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"status {status}"]
        return Outcome(False, f"the sandbox ended without a verdict: {last[0][:300]}")


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
