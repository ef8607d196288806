"""Carries out calls on BFCL's state machines, inside the sandbox. This file is run there, never imported here.

`python -S -c <this file>` reads one line of JSON, `modules` (name -> source) and `limits`, and then one job a line,
and answers each with one line of JSON. A job is a conversation: the calls of each step of each of the user's turns. It
is carried out in a child of its own, which has limits, so that no job sees another's state and none can stop the next.

A call is the text `name(parameter=value, ...)`. It is never evaluated: its syntax tree is read, the name must be that
of a public method of a class of the job, and its arguments must be literals, or such calls. What a call returns or
raises becomes text as BFCL has it. A call that exceeds a limit ends its child; the job is carried out again without it.

With the right calls (`gold`) these are carried out beside the model's, turn by turn, in the same process as in BFCL,
whose classes share some tables, and states and results are compared as BFCL's `multi_turn_checker` does.

Only Python's standard library and the modules of the first line are available here.

Source: BFCL v4 (bfcl-eval 2026.3.23, eval_checker/multi_turn_eval: multi_turn_utils.execute_multi_turn_func_call,
    multi_turn_checker.py).
"""

import ast
import copy
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import resource
import select
import signal
import sys
import time

FAILED = "Error during execution: "  # BFCL's
OVER_LIMIT = f"{FAILED}over the limit of "
LONGEST_RESULT = 1_000_000  # characters
SHOWN = 200  # characters of a value in a message
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType
    from typing import NotRequired, TypedDict

    class Job(TypedDict):
        """A conversation to be carried out; gold: the right calls of each turn, None where they are not asked for."""

        classes: Mapping[str, str]
        stateless: Sequence[str]
        config: Mapping[str, object]
        is_long: bool
        gold: Sequence[Sequence[str]] | None
        turns: Sequence[Sequence[Sequence[str]]]
        refused: Mapping[str, str]

    class Answer(TypedDict):
        """The outcome of a job."""

        results: list[str]
        fault: object
        ended: str | None
        error: NotRequired[str]


# ------------------------------------------------------------------------------------------------------- modules


class SentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from the sources that were sent; a package that was not sent is empty."""

    def __init__(self, sources: "Mapping[str, str]") -> None:
        """Know the sources by the modules' full names; those of packages end with `.__init__`."""
        self._sources = sources
        self._packages = {
            ".".join(parts[:n]) for name in sources for parts in [name.split(".")] for n in range(1, len(parts))
        }

    def find_spec(
        self, fullname: str, path: "object" = None, target: "object" = None
    ) -> "importlib.machinery.ModuleSpec | None":
        """Return the specification of a module that was sent; None for others."""
        del path, target
        if fullname not in self._sources and fullname not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in self._packages)

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module's source."""
        name = module.__name__
        source = self._sources.get(f"{name}.__init__" if name in self._packages else name, "")
        exec(compile(source, f"<{name}>", "exec"), vars(module))  # noqa: S102 - BFCL's own code


# --------------------------------------------------------------------------------------------------------- calls


class RefusedCall(Exception):
    """A text that is no call of a function that may be called; the message says why."""


class World:
    """The instances of a job's classes, and the functions that may be called on them."""

    def __init__(
        self, classes: "Mapping[str, str]", stateless: "Sequence[str]", config: "Mapping[str, object]", is_long: bool
    ) -> None:
        """Create the instances.

        Args:
            classes: class -> the module that has it, in the order in which their functions are found: the last counts.
            stateless: those of them that have no state to load.
            config: class -> its state at the beginning.
            is_long: whether BFCL's long texts are added.
        """
        self.instances: dict[str, object] = {}
        self._methods: dict[str, Callable[..., object]] = {}
        for name, module in classes.items():
            instance = getattr(importlib.import_module(module), name)()
            if name not in stateless:
                instance._load_scenario(copy.deepcopy(config.get(name, {})), long_context=is_long)  # noqa: SLF001
            self.instances[name] = instance
            for method, function in inspect.getmembers(instance, predicate=inspect.ismethod):
                if not method.startswith("_"):
                    self._methods[method] = function

    def result_of(self, call: str) -> str:
        """Return a call's result, or that it failed and why, as BFCL tells the model."""
        try:
            tree = ast.parse(call, "<string>", "eval")
            made = self._value(tree.body, is_call=True)
            if isinstance(made, str):
                text = made
            elif isinstance(made, dict):
                text = _json_or_text(made)
            else:
                text = str(made)
        except Exception as error:  # noqa: BLE001 - whatever a function raises is what the model is told
            text = f"{FAILED}{error}"
        if len(text) > LONGEST_RESULT:
            return f"{OVER_LIMIT}{LONGEST_RESULT:,} characters of a result"
        return text

    def _value(self, node: ast.AST, *, is_call: bool = False) -> object:
        """Return the value of a literal, or of a call of one of the functions."""
        if isinstance(node, ast.Call):
            function = self._function(node.func)
            if any(isinstance(each, ast.Starred) for each in node.args) or any(
                each.arg is None for each in node.keywords
            ):
                raise RefusedCall("* and ** are not allowed in a call")
            arguments = [self._value(each) for each in node.args]
            return function(
                *arguments, **{each.arg: self._value(each.value) for each in node.keywords if each.arg is not None}
            )
        if is_call:
            raise RefusedCall(f"{_source(node)} is not a call")
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List):
            return [self._value(each) for each in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(self._value(each) for each in node.elts)
        if isinstance(node, ast.Dict) and None not in node.keys:
            keys = [self._value(each) for each in node.keys if each is not None]
            return dict(zip(keys, [self._value(each) for each in node.values]))  # noqa: B905 - from Python 3.10 on
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            number = node.operand.value
            if not isinstance(number, (int, float, complex)):
                raise TypeError(f"bad operand type for unary -: '{type(number).__name__}'")
            return -number
        raise _unknown(node, node, "a literal")

    def _function(self, node: ast.AST) -> "Callable[..., object]":
        """Return the function of a call."""
        if isinstance(node, ast.Name) and node.id in self._methods:
            return self._methods[node.id]
        first = node
        while isinstance(first, ast.Attribute):
            first = first.value
        raise _unknown(node, first, "a function that may be called")


def _unknown(node: ast.AST, first: ast.AST, wanted: str) -> Exception:
    """Return Python's error for an unknown first name, else an error that the text is not what is wanted."""
    if isinstance(first, ast.Name):
        return NameError(f"name '{first.id}' is not defined")
    return RefusedCall(f"{_source(node)} is not {wanted}")


def _json_or_text(made: object) -> str:
    try:
        return json.dumps(made)
    except Exception:  # noqa: BLE001 - as BFCL: some functions return objects
        return str(made)


def _source(node: ast.AST) -> str:
    return shortened(ast.unparse(node))


def shortened(text: str) -> str:
    """Return a text with at most SHOWN characters."""
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


# ------------------------------------------------------------------------------------------------------ comparing


def state_fault(world: World, gold: World) -> "str | None":
    """Return the first public attribute of an instance that is not as after the right calls; None where all are."""
    for name, right in gold.instances.items():
        own = world.instances[name]
        for attribute, expected in vars(right).items():
            if not attribute.startswith("_") and getattr(own, attribute) != expected:
                seen = shortened(repr(getattr(own, attribute)))
                return f"{name}.{attribute} is {seen}; expected {shortened(repr(expected))}"
    return None


def missing_result(results: "Sequence[str]", expected: "Sequence[str]") -> "str | None":
    """Return the first expected result that is not among the results so far, each of which counts once."""
    left = list(results)
    for each in expected:
        if each not in left:
            return each
        left.remove(each)
    return None


def carried_out(job: "Job", refused: "Mapping[int, str]") -> "Iterator[tuple[str, object]]":
    """Carry out a job; yield ("result", text) after each of the model's calls, and ("fault", fault or None) last.

    The fault is that of the first turn that is not right, {"reason", "turn", "message"}; nothing is carried out after
    it. refused: number of a call of the model -> its result, without carrying it out.
    """
    classes, stateless, config = job["classes"], job["stateless"], job["config"]
    world = World(classes, stateless, config, job["is_long"])
    right = job["gold"]
    gold = None if right is None else World(classes, stateless, config, job["is_long"])
    results: list[str] = []
    for turn, steps in enumerate(job["turns"]):
        for call in (call for step in steps for call in step):
            number = len(results)
            results.append(refused[number] if number in refused else world.result_of(call))
            yield "result", results[-1]
        if gold is None or right is None:
            continue
        right_calls = right[turn]
        expected = [gold.result_of(call) for call in right_calls]
        if not right_calls:
            continue
        fault = None
        if not steps:
            fault = "empty_turn", f"no function was called; expected {shortened(', '.join(right_calls))}"
        elif (differing := state_fault(world, gold)) is not None:
            fault = "wrong_state", differing
        elif (missing := missing_result(results, expected)) is not None:
            fault = "missing_result", f"no call so far returned {shortened(missing)}"
        if fault is not None:
            yield "fault", {"reason": fault[0], "turn": turn, "message": fault[1]}
            return
    yield "fault", None


# ------------------------------------------------------------------------------------------------- the process


def in_child(job: "Job", refused: "Mapping[int, str]", limits: "Mapping[str, int]") -> "Answer":
    """Carry out a job in a child; return its results and its fault, and in `ended` why the child did not finish."""
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(inward)
            for name, most in (
                (resource.RLIMIT_CORE, 0),
                (resource.RLIMIT_CPU, limits["cpu_seconds"]),
                (resource.RLIMIT_AS, limits["memory_bytes"]),
                (resource.RLIMIT_FSIZE, 0),
            ):
                resource.setrlimit(name, (most, most))
            for each in carried_out(job, refused):
                write_all(outward, json.dumps(each).encode() + b"\n")
        except BaseException as error:  # noqa: BLE001 - of our own code: a call's errors are results
            write_all(outward, json.dumps(("error", f"{type(error).__name__}: {error}")).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(outward)
    received, is_late = received_from(inward, time.monotonic() + limits["wall_seconds"])
    if is_late:
        os.kill(child, signal.SIGKILL)
    os.close(inward)
    status = os.waitpid(child, 0)[1]
    answer: Answer = {"results": [], "fault": None, "ended": None}
    lines = [json.loads(line) for line in received.split(b"\n")[:-1]]
    for kind, value in lines:
        if kind == "result":
            answer["results"].append(value)
        elif kind == "fault":
            answer["fault"] = value
        else:
            answer["error"] = value
    if not lines or lines[-1][0] == "result":
        answer["ended"] = f"{limits['wall_seconds']} s" if is_late else _limit_of(status, limits)
    return answer


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of the data."""
    while data:
        data = data[os.write(descriptor, data) :]


def received_from(descriptor: int, deadline: float) -> "tuple[bytes, bool]":
    """Return the bytes written until the other end is closed, and whether the deadline passed first."""
    pieces: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                return b"".join(pieces), False
            pieces.append(piece)
    return b"".join(pieces), True


def _limit_of(status: int, limits: "Mapping[str, int]") -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return f"{limits['cpu_seconds']} s of processor time"
    return f"{limits['memory_bytes'] >> 20} MiB of memory"


def answered(job: "Job", limits: "Mapping[str, int]") -> "Answer":
    """Carry out a job, again without the call that exceeded a limit until none does."""
    refused = {int(number): text for number, text in job["refused"].items()}
    n_calls = sum(len(step) for steps in job["turns"] for step in steps)
    while True:
        answer = in_child(job, refused, limits)
        number = len(answer["results"])
        if answer["ended"] is None or number >= n_calls or number in refused:
            return answer
        refused[number] = f"{OVER_LIMIT}{answer['ended']}"


def main() -> None:
    """Answer jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a function prints is no answer
    first = json.loads(sys.stdin.buffer.readline())
    sys.meta_path.insert(0, SentModules(first["modules"]))
    for name in first["loaded"]:
        importlib.import_module(name)  # once, before all jobs
    while line := sys.stdin.buffer.readline():
        answer = json.dumps(answered(json.loads(line), first["limits"]))
        answers.write(answer + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
