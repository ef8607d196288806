"""Targets that are Python functions: given as objects, or named as `FILE.py:NAME` or `module:name`."""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from assaymark.applications.arguments import TargetBinding, bind_target
from assaymark.applications.returned import Returned, read_returned
from assaymark.applications.rows import Row
from assaymark.applications.source import function_hash
from assaymark.applications.traces.spans import within_trace
from assaymark.errors import UnknownName, UsageError
from assaymark.limits.characters import exception_message
from assaymark.records import JsonValue
from assaymark.registry import nearest

_LOADED: dict[str, tuple[str, int]] = {}  # name of a file's module -> whose file it is, the process that loaded it
_leave = os._exit
_REFERENCE = re.compile(r"(.+\.py|[^\W\d]\w*(\.\w+)*):[^\W\d][\w.]*", re.DOTALL)


@dataclass(frozen=True)
class FunctionTarget:
    """A function, coroutine function or object with `__call__`; a class is constructed without arguments."""

    function: Callable[..., object]
    name: str

    kind = "function"
    options: tuple[tuple[str, JsonValue], ...] = ()

    @cached_property
    def called(self) -> Callable[..., object]:
        """The object that is called. Raises: UsageError for a class that cannot be constructed."""
        if not inspect.isclass(self.function):
            return self.function
        try:
            made = self.function()
        except Exception as error:
            raise UsageError(
                f"{self.name} is a class that needs arguments ({type(error).__name__}: {error}); "
                "give an object, or a function that makes one"
            ) from error
        if not callable(made):
            raise UsageError(f"{self.name} is a class without __call__; expected a function, or a class with it")
        return made

    @property
    def is_async(self) -> bool:
        """Whether its calls are awaited in an event loop."""
        called: object = self.called
        while isinstance(called, functools.partial):
            called = called.func
        method = type(called).__call__ if callable(called) else None
        return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(method)

    @cached_property
    def source_hash(self) -> str:
        """A hash of its source, and of the values that it holds."""
        return function_hash(self.function if inspect.isclass(self.function) else self.called, self.name)

    @property
    def base(self) -> Path | None:
        """The folder of its file, to which its prompt files are relative."""
        try:
            file = inspect.getsourcefile(inspect.unwrap(self.function))
        except TypeError:
            return None
        return None if file is None else Path(file).parent

    def bind(self, rows: Sequence[Row]) -> "BoundFunction":
        """Return the function with its parameters bound. Raises: UsageError naming a parameter that fits nothing."""
        if inspect.isgeneratorfunction(self.called) or inspect.isasyncgenfunction(self.called):
            raise UsageError(f"{self.name} is a generator; expected a function that returns its whole answer")
        return BoundFunction(self, bind_target(self.called, rows, self.name))


@dataclass(frozen=True, slots=True)
class BoundFunction:
    """A function with its parameters bound."""

    target: FunctionTarget
    binding: TargetBinding
    keeps_limit = False

    @property
    def is_async(self) -> bool:
        """Whether its calls are awaited in an event loop."""
        return self.target.is_async

    def text(self, row: Row) -> str:
        """Return its arguments as text."""
        return self.binding.text(row)

    def start(self, row: Row, repeat: int, timeout_s: float, trace_id: str) -> Callable[[], object]:  # noqa: ARG002
        """Return the call for a row."""
        arguments = self.binding.arguments(row, repeat, traceparent(trace_id))
        called = self.target.called

        def call() -> object:
            with within_trace(traceparent(trace_id)):
                value = called(*arguments.positional, **arguments.named)
            return _awaited_within(traceparent(trace_id), value) if inspect.isawaitable(value) else value

        return call

    def read(self, value: object) -> Returned:
        """Return its result. Raises: Permanent."""
        if self.binding.is_promptfoo and isinstance(value, dict) and not value.get("error") and "output" in value:
            read = read_returned(value)
            is_whole = read.value == value["output"]
            return read if is_whole else replace(read, value=read_returned(value["output"]).value)
        return read_returned(value)


async def _awaited_within(parent: str, value: Awaitable[object]) -> object:
    """Await a function's awaitable, as a part of the trace."""
    with within_trace(parent):
        return await value


def traceparent(trace_id: str) -> str:
    """Return W3C's header that makes spans of a call part of a trace."""
    return f"00-{trace_id}-{hashlib.sha256(trace_id.encode()).hexdigest()[:16]}-01"


def is_reference(text: str) -> bool:
    """Return whether a text has the form of `FILE.py:NAME` or `module:name`; neither need exist."""
    return _REFERENCE.fullmatch(text) is not None


def load_named(text: str, what: str = "target") -> tuple[Callable[..., object], str]:
    """Return the object that `FILE.py:NAME` or `module:name` names, and the name under which it is shown.

    Raises: UsageError where it cannot be imported; UnknownName, with the nearest, for a name that is not in it.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(
            f"{what} '{text}'; expected FILE.py:NAME, module:name, a URL, or exec:COMMAND"
            if what == "target"
            else f"{what} '{text}'; expected a scorer's name, FILE.py:NAME or module:name"
        )
    module = _module_of_file(Path(place).expanduser(), what) if place.endswith(".py") else _module(place, what)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            names = [each for each in vars(module) if not each.startswith("_")]
            own = [each for each in names if getattr(vars(module)[each], "__module__", None) == module.__name__]
            close = nearest(name, names)
            remedy = f"it has {', '.join(own[:8])}" if own and not close else None
            raise UnknownName(f"{what} in {place}", name, close, remedy)
        value = getattr(value, part)
    if what != "scorer" and not callable(value):  # a scorer may be an object with a method
        raise UsageError(f"{what} '{text}' is {value!r:.60}; expected a function")
    return value, f"{Path(place).name}:{name}" if place.endswith(".py") else text


def _module_of_file(path: Path, what: str) -> ModuleType:
    """Return a file as a module, loaded once; the modules beside it can be imported."""
    if not path.is_file():
        raise UsageError(f"{what}: no file '{path}'; expected FILE.py:NAME")
    file = path.resolve()
    content = file.read_bytes()
    name = f"{file.stem}_{hashlib.sha256(str(file).encode() + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{what}: '{path}' cannot be loaded; expected a Python file")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    importlib.invalidate_caches()
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    _LOADED[name], os._exit = (f"{what}: {path}", os.getpid()), _leave_saying
    try:
        # not the loader, whose bytecode cache compares seconds and size, and could run a file's former text
        exec(compile(content, str(file), "exec"), module.__dict__)  # noqa: S102 - it is the user's file, named to be run
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        raise UsageError(f"{what}: {path} cannot be imported: {_one_line(error)} ({where})") from error
    return module


def _leave_saying(status: int) -> NoReturn:
    """End the process, as `os._exit`; say so where a loaded file's code asks for it, which no `finally` sees.

    What another part of the process ends, and a process that the file's code forked, end as they would.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented
    while frame is not None:
        whose, process = _LOADED.get(str(frame.f_globals.get("__name__")), ("", 0))
        if process == os.getpid():
            said = f"error: {whose} ended the process with os._exit({status}); what was answered is stored"
            sys.stderr.write(f"{said}; raise an error instead\n")
            sys.stderr.flush()
            _leave(status or 1)
        frame = frame.f_back
    _leave(status)


def _module(name: str, what: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: module '{name}' cannot be imported: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {exception_message(error) or 'no message'}"[:300]
