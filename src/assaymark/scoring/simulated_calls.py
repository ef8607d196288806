"""Carry out a model's function calls on BFCL's state machines, in a sandbox.

The state machines (a file system, a trading account, a car ...) are BFCL's own, of its package `bfcl-eval`, which is
not part of this one: `find_machines` reads their source files where that package is installed, without importing it.
`Simulator` sends them to a process in the sandbox (`bfcl_simulator`), which carries out one conversation after the
other: calls are read there, and never evaluated; no job can see another's state, and each has limits.

Source: BFCL v4 (bfcl-eval 2026.3.23, Apache-2.0; constants/executable_backend_config.py has the classes' files).
"""

import contextlib
import json
import shlex
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import IO, NotRequired, TypedDict, cast

from assaymark.errors import PlanError
from assaymark.limits.bubblewrap import OpenedPaths, find_bubblewrap, limited
from assaymark.platforms import end_group
from assaymark.records import JsonValue, content_hash
from assaymark.scoring.metric import SIMULATED, ScoreValue, metric
from assaymark.scoring.run_code import Bubblewrap, Container, Limits, Sandbox

PROGRAM = Path(__file__).with_name("bfcl_simulator.py")
INSTALL = "pip install --no-deps bfcl-eval==2026.3.23 mpmath==1.3.0"
FAILED = "Error during execution: "  # BFCL's
OVER_LIMIT = f"{FAILED}over the limit of "  # the beginning of such a call's result
MOST_SHOWN, LONGEST_SHOWN = 10, 300  # of failed calls in a score's detail; characters of each
LIMITS = {"cpu_seconds": 5, "wall_seconds": 20, "memory_bytes": 1 << 30}  # of one conversation
ANSWER_SECONDS = 600.0  # after which the process is given up: each call of a job may use LIMITS
LONGEST_SECONDS = 86_400.0  # of a container
PROCESS_BYTES = 2 << 30  # memory of the process, which a child for each conversation has LIMITS of its own beside
CONTAINER_MB = PROCESS_BYTES >> 20
_PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_FILES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_STATELESS = ("MathAPI",)
_VARIABLES = {"PYTHONHASHSEED": "0", "TZ": "UTC0"}  # some results list a set, or have the local time of a moment


@dataclass(frozen=True, slots=True)
class StateMachines:
    """BFCL's classes as source texts.

    Attributes:
        own: name of each module of BFCL -> its source.
        others: the same of mpmath, which one of them imports.
    """

    own: Mapping[str, str]
    others: Mapping[str, str]

    @property
    def content_hash(self) -> str:
        """Identifies what calls return: the hash of BFCL's sources."""
        return content_hash(dict(self.own))


@lru_cache(maxsize=1)
def find_machines() -> StateMachines:
    """Return the installed state machines.

    Raises: PlanError with the command that installs what is missing.
    """
    folder = _folder_of("bfcl_eval").joinpath(*_PACKAGE.split(".")[1:])
    names = ("long_context", *_FILES.values())
    absent = [name for name in names if not (folder / f"{name}.py").is_file()]
    if absent:
        raise PlanError(f"bfcl-eval has no {folder / absent[0]}.py; install the version that is known: {INSTALL}")
    own = {f"{_PACKAGE}.{name}": (folder / f"{name}.py").read_text(encoding="utf-8") for name in names}
    return StateMachines(MappingProxyType(own), MappingProxyType(_sources_of("mpmath")))


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    if not places:
        raise PlanError(
            f"calls are carried out by BFCL's own functions, and its package is not installed here (no {package}); to "
            f"install it without the packages that only its other parts need: {INSTALL}"
        )
    return Path(places[0])


def _sources_of(package: str) -> dict[str, str]:
    """Return the modules of a package of pure Python, without its tests."""
    folder = _folder_of(package)
    sources: dict[str, str] = {}
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        if "tests" not in parts:
            sources[".".join((package, *parts))] = file.read_text(encoding="utf-8")
    return sources


@dataclass(frozen=True, slots=True)
class CallHistory:
    """A conversation's world, and the calls in it.

    Attributes:
        classes: names of BFCL's classes whose functions may be called.
        config: class -> its state at the beginning.
        is_long: whether BFCL's long texts are added to it.
        turns: the model's calls, `name(parameter=value)`, of each step of each of the user's turns.
        known: number of a call -> its result, where that is known and the call is not to be carried out.
    """

    classes: Sequence[str]
    config: Mapping[str, JsonValue]
    is_long: bool
    turns: Sequence[Sequence[Sequence[str]]]
    known: Mapping[int, str]


class _Fault(TypedDict):
    """The first turn that is wrong."""

    reason: str  # empty_turn, wrong_state, missing_result or over_limit
    turn: int
    message: str


class _JobAnswer(TypedDict):
    """A job's answer, as `bfcl_simulator` writes it."""

    results: list[str]  # of each call, in order
    fault: _Fault | None
    ended: str | None  # the limit over which the job went
    error: NotRequired[str | None]


@dataclass(frozen=True, slots=True)
class Simulated:
    """The results of a conversation's calls, and the first turn that is wrong.

    Attributes:
        results: of each call, in order, as text.
        fault: the first turn that is wrong; None where none is.
    """

    results: tuple[str, ...]
    fault: _Fault | None


@dataclass(frozen=True, slots=True)
class ConversationAnswer:
    """A whole conversation, as metrics score it.

    Attributes:
        calls: all of the model's, in order, as source text.
        results: what each returned; none where the conversation was given up.
        fault: as in `Simulated`, or too_many_steps.
    """

    calls: Sequence[str]
    results: Sequence[str]
    fault: Mapping[str, JsonValue] | None


@metric(
    of=SIMULATED,
    formula="1 if states and results after each turn of the user are those of the right calls, else 0",
    scale="right or wrong",
)
def state_match(answer: ConversationAnswer) -> ScoreValue:
    """Return whether a conversation is right; the detail says in which turn it is not, and which calls failed.

    Source: BFCL v4, multi_turn_checker.
    """
    detail: dict[str, JsonValue] = {"n_calls": len(answer.calls)}
    if (fault := answer.fault) is not None:
        detail |= {"reason": fault["reason"], "message": f"turn {int(str(fault['turn'])) + 1}: {fault['message']}"}
    failed: list[JsonValue] = [
        f"{call}: {result.removeprefix(FAILED)}"[:LONGEST_SHOWN]
        for call, result in zip(answer.calls, answer.results, strict=False)
        if result.startswith(FAILED)
    ]
    if failed:
        detail |= {"n_failed_calls": len(failed), "failed_calls": failed[:MOST_SHOWN]}
    return ScoreValue(float(fault is None), detail=detail)


class Simulator:
    """Carries out conversations in one process in a sandbox, which is started when it is needed."""

    def __init__(self, sandbox: Sandbox, machines: StateMachines) -> None:
        self._sandbox, self._machines = sandbox, machines
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def carry_out(self, history: CallHistory, gold: Sequence[Sequence[str]] | None = None) -> Simulated:
        """Carry out a conversation's calls, and, beside them, the right ones of each turn, where they are given.

        Raises: PlanError for an unknown class, or where the process does not answer.
        """
        unknown = [name for name in history.classes if name not in _FILES]
        if unknown:
            raise PlanError(f"BFCL's class {unknown[0]!r} is not known; known: {', '.join(_FILES)}")
        job = {
            "classes": {name: f"{_PACKAGE}.{_FILES[name]}" for name in history.classes},
            "stateless": _STATELESS,
            "config": history.config,
            "is_long": history.is_long,
            "turns": history.turns,
            "gold": gold,
            "refused": history.known,
        }
        with self._lock:
            answer = self._answer_to(json.dumps(job).encode() + b"\n")
        fault = answer["fault"]
        if answer.get("error") is not None or answer["ended"] is not None:
            why = answer.get("error") or f"over the limit of {answer['ended']}"
            if gold is None:
                raise PlanError(f"BFCL's functions cannot carry out this conversation: {why}")
            message = f"the state cannot be compared: {why}"  # the model's calls have made it too large
            fault = {"reason": "over_limit", "turn": len(history.turns) - 1, "message": message}
        return Simulated(tuple(answer["results"]), fault)

    def _answer_to(self, line: bytes) -> _JobAnswer:
        """Return the process's answer to a job; it is started again where it has ended since the last one."""
        why = ""
        for _ in range(2):
            process = self._started()
            timer = threading.Timer(ANSWER_SECONDS, process.kill)
            timer.start()
            try:
                inward, outward = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
                inward.write(line)
                inward.flush()
                answer = outward.readline()
                if answer.endswith(b"\n"):
                    return cast("_JobAnswer", json.loads(answer))
            except OSError:
                pass
            finally:
                timer.cancel()
            why = self._ended()
        raise PlanError(f"the sandbox of BFCL's functions ({self._sandbox.name}) ended without an answer: {why}")

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            of_client = isinstance(self._sandbox, Container)  # of a container, which needs our variables
            self._process = process = subprocess.Popen(
                _command(self._sandbox),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if of_client else _VARIABLES,
                cwd="/",
                start_new_session=True,
            )
            modules = {**self._machines.own, **self._machines.others}
            first = {"modules": modules, "loaded": list(self._machines.own), "limits": LIMITS}
            with contextlib.suppress(OSError):  # where it could not start, `_answer_to` says so
                cast("IO[bytes]", process.stdin).write(json.dumps(first).encode() + b"\n")
            weakref.finalize(self, _end, process)
        return self._process

    def _ended(self) -> str:
        """End the process; return the last line of its errors."""
        process, self._process = self._process, None
        if process is None:
            return "it was not started"
        errors = _end(process).decode("utf-8", "replace").strip().splitlines()
        return errors[-1][:300] if errors else f"status {process.returncode}"

    def close(self) -> None:
        """End the process."""
        with self._lock:
            if self._process is not None:
                self._ended()


def _end(process: "subprocess.Popen[bytes]") -> bytes:
    """End a process; return its error output."""
    end_group(process)
    with contextlib.suppress(OSError, ValueError):  # what was not written yet, and pipes that are closed
        return process.communicate()[1]
    return b""


def _command(sandbox: Sandbox) -> list[str]:
    """Return the command that starts the program in a sandbox."""
    program = ["-s", "-S", "-W", "ignore", "-c", PROGRAM.read_text(encoding="utf-8")]
    if isinstance(sandbox, Container):
        settings = [f"{name}={value}" for name, value in _VARIABLES.items()]
        filled = {**asdict(Limits(wall_seconds=LONGEST_SECONDS)), "memory_mb": CONTAINER_MB}
        return [
            *(word.format(**filled) for word in shlex.split(sandbox.template)),
            "env",
            *settings,
            "python3",
            *program,
        ]
    python, prefix = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    if not isinstance(sandbox, Bubblewrap):
        return [str(python), *program]
    working = find_bubblewrap()
    if working is None:  # it worked when the run began
        raise PlanError("bubblewrap, in which BFCL's functions are carried out, does not work here any more")
    variables, mounts = dict(_VARIABLES), list[str]()
    if not prefix.is_relative_to("/usr") and python.is_relative_to(prefix):
        mounts, variables["LD_LIBRARY_PATH"] = ["--ro-bind", str(prefix), "/python"], "/python/lib"
        python = Path("/python") / python.relative_to(prefix)
    words = limited([str(python), *program], PROCESS_BYTES, file_bytes=0)
    return working.command(words, OpenedPaths(mounts), variables, "/tmp")  # noqa: S108 - the sandbox's own
