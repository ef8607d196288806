"""Makes Python to this package's files what it is on Windows; loaded by every Python that has this folder on its path.

`AS_ON_WINDOWS` names a JSON file: the package's folder, the system (win32, or macOS's darwin), the modules that it
lacks, and the names that modules lack there, both from typeshed. Whether something is missing is decided by the file
that asks for it: libraries have code of their own for Windows, which cannot run here, and keep what they need.
`sys.platform` is the system. On Windows, for this package's files, also where they go through pathlib, shutil, tempfile
or os:

- a text file without an encoding is an error (it would be read as cp1252), and lines that are written end with CR LF;
- a file that this process has open is neither removed nor replaced, and renaming replaces nothing.
"""

import builtins
import io
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import psutil

_frame = sys._getframe
_FACTS = json.loads(Path(os.environ["AS_ON_WINDOWS"]).read_text(encoding="utf-8"))
_PACKAGE = _FACTS["package"]
_ABSENT = frozenset(_FACTS["absent"])
_VALUES = {("sys", "platform"): _FACTS["system"]}
if _FACTS["system"] == "win32":
    _VALUES[("os", "name")] = "nt"
    _VALUES[("socket", "SO_EXCLUSIVEADDRUSE")] = 2  # Windows' alone; here the number of SO_REUSEADDR
_BETWEEN = tuple(
    str(Path(os.__file__).with_name(name)) for name in ("pathlib", "shutil", "tempfile", "os.py", "contextlib")
)


def _asks(depth: int = 2) -> bool:
    """Return whether the caller's caller is a file of the package."""
    return _frame(depth).f_code.co_filename.startswith(_PACKAGE)


def _asks_through() -> bool:
    """Return the same where the standard library's modules of files may lie between."""
    frame = _frame(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(_PACKAGE)


def _take_names(module: ModuleType, names: frozenset[str]) -> None:
    called, get = module.__name__, ModuleType.__getattribute__

    class AsOnWindows(ModuleType):
        def __new__(cls, *facts: str) -> Any:  # the import system makes new modules by type(sys)
            return ModuleType(*facts)

        def __getattribute__(self, name: str) -> object:
            if name in names and _asks():
                if (called, name) in _VALUES:
                    return _VALUES[called, name]
                raise AttributeError(f"module '{called}' has no attribute '{name}' on Windows")
            return get(self, name)

    module.__class__ = AsOnWindows


def _take_modules() -> None:
    of_python: Any = builtins
    real = of_python.__import__

    def import_as_on_windows(name: str, names: Any = None, *facts: Any, **more: Any) -> ModuleType:
        if name.partition(".")[0] in _ABSENT and str((names or {}).get("__file__", "")).startswith(_PACKAGE):
            raise ModuleNotFoundError(f"No module named '{name}' on Windows", name=name)
        return cast("ModuleType", real(name, names, *facts, **more))

    of_python.__import__ = import_as_on_windows


_open: Any = io.open


def _open_as_on_windows(
    file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None,
    *more: Any, **named: Any,
) -> Any:  # fmt: skip
    if "b" not in mode and _asks_through():
        if encoding in {None, "locale"}:
            raise AssertionError(f"{file} is opened as text without an encoding")
        if newline is None and "r" not in mode:
            newline = "\r\n"
    return _open(file, mode, buffering, encoding, errors, newline, *more, **named)


def _refuse_open(path: Any) -> None:
    """Raise PermissionError if this process has the file open."""
    for opened in Path("/proc/self/fd").iterdir():
        is_same = False
        with suppress(OSError):  # a descriptor of the listing itself; a path that is not there
            is_same = opened.samefile(path) and not Path(path).is_symlink()
        if is_same:
            raise PermissionError(13, "a file that is open cannot be removed or replaced on Windows", str(path))


def _remove_as_on_windows(real: Any) -> Any:
    def remove(path: Any, **named: Any) -> None:
        if not named.get("dir_fd") and _asks_through():
            _refuse_open(path)
        real(path, **named)

    return remove


def _move_as_on_windows(real: Any, *, replaces: bool) -> Any:
    def move(source: Any, target: Any, **named: Any) -> None:
        if _asks_through():
            if not replaces and Path(target).exists():
                raise FileExistsError(17, "a file that exists is not renamed over on Windows", str(target))
            _refuse_open(source)
            _refuse_open(target)
        real(source, target, **named)

    return move


for _name, _names in _FACTS["names"].items():
    _take_names(__import__(_name), frozenset(_names) | {name for of, name in _VALUES if of == _name})
_take_modules()
if _FACTS["system"] == "win32":
    builtins.open = io.open = _open_as_on_windows
    os.unlink = os.remove = _remove_as_on_windows(os.unlink)
    os.rename = _move_as_on_windows(os.rename, replaces=False)
    os.replace = _move_as_on_windows(os.replace, replaces=True)
    _memory: Any = type(psutil.Process().memory_info())
    _memory.peak_wset = property(lambda memory: memory.rss)  # a field of Windows alone
    for _stream in (sys.stdout, sys.stderr):
        cast("io.TextIOWrapper", _stream).reconfigure(newline="\r\n")
