"""Declarations in a user's Python files: `@assaymark.metric`, `task`, `model`, `aggregation` and `filter_step`.

Files below an `--include_path`, and those beside a task file, are searched by their syntax trees, so that listing tasks
imports nothing. What is declared becomes a `FunctionRef`, as if a task file named it with `!function`: it is imported
when it is used, only from trusted folders, and the bytes of its file count into the hash of the tasks that use it.

The files are the user's own code, which may run. The declarations are checked here: names are texts, and the keys of a
task are literals, constants of the file or functions in it.
"""

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar, overload

from assaymark.errors import DataError
from assaymark.python_source import parse_python
from assaymark.tasks.task import FunctionRef

Kind = Literal["metrics", "tasks", "models", "aggregations", "filters"]
F = TypeVar("F", bound=Callable[..., object])

_KIND_OF: Mapping[str, Kind] = {
    "metric": "metrics",
    "task": "tasks",
    "model": "models",
    "aggregation": "aggregations",
    "filter_step": "filters",
}
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}
_MOST_FILES = 5_000  # that are searched below one folder
_MOST_BYTES = 2**20  # of a file that is searched


def task(**keys: object) -> Callable[[F], F]:
    """Declare a function of rows as a task, in a Python file below `--include_path`.

    The function returns the rows, a list of dicts, or a dict of such lists by split. The task has its name.

    Args:
        keys: those of a task file: doc_to_text, doc_to_target, output_type, metric_list and so on. A value is a
            literal, a constant of the file, or a function in it where a task file would have `!function`.
    """
    del keys  # they are read of the source, without importing the file

    def declare(function: F) -> F:
        return function

    return declare


@overload
def model(function: F) -> F: ...
@overload
def model(*, name: str | None = None) -> Callable[[F], F]: ...
def model(function: F | None = None, *, name: str | None = None) -> F | Callable[[F], F]:
    """Declare a function, or a class, of a mapping of arguments as a kind of `--model`.

    What it returns has the protocol `assaymark.models.model.Model`.

    Args:
        function: the function or class, where the decorator has no arguments.
        name: of the kind; default: the function's.
    """
    del name  # it is read of the source, without importing the file

    def declare(declared: F) -> F:
        return declared

    return declare if function is None else function


@dataclass(frozen=True, slots=True)
class Declaration:
    """One decorated function or class of a file."""

    kind: Kind
    name: str
    function: FunctionRef
    line: int  # of the decorator

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.function.file}, line {self.line}"


def declarations_below(folder: Path) -> tuple[Declaration, ...]:
    """Return the declarations in the Python files below a folder, in the order of their paths.

    A file that cannot be read as Python is left out; `refuse_broken` names it.

    Raises: DataError for a folder with too many Python files.
    """
    declared: list[Declaration] = []
    for file in _files_below(folder):
        try:
            declared += declarations_in(file)
        except DataError:
            continue
    return tuple(declared)


def refuse_broken(folders: Sequence[Path]) -> None:
    """Raise DataError, with file and line, for the first file below the folders that cannot be read as Python."""
    for folder in folders:
        for file in _files_below(folder):
            declarations_in(file)


def find_declaration(kind: Kind, name: str, folders: Sequence[Path]) -> Declaration | None:
    """Return the declaration of a name below the folders; None where there is none.

    Raises: DataError, with both places, where the first folder that has the name has it twice.
    """
    for folder in folders:
        matches = [each for each in declarations_below(folder) if (each.kind, each.name) == (kind, name)]
        if len(matches) > 1:
            raise DataError(f"{matches[1].where}: {name} is declared in {matches[0].where} too; rename one of them")
        if matches:
            return matches[0]
    return None


def _files_below(folder: Path) -> Iterator[Path]:
    n_files = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED and not name.startswith(".") and not Path(root, name, "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            if name.endswith(".py"):
                n_files += 1
                if n_files > _MOST_FILES:
                    raise DataError(f"{folder} has more than {_MOST_FILES:,} Python files; name a smaller folder")
                yield Path(root, name)


def declarations_in(file: Path) -> tuple[Declaration, ...]:
    """Return the declarations of a Python file, in order; none for a file that does not mention assaymark.

    Raises: DataError, with file and line, for a file that is not Python, or whose declarations cannot be read.
    """
    try:
        status = file.stat()
        return _declarations(file, status.st_mtime_ns) if status.st_size <= _MOST_BYTES else ()
    except OSError:
        return ()  # it vanished, or may not be read: as if it was not there


@lru_cache(maxsize=1024)
def _declarations(file: Path, _mtime_ns: int) -> tuple[Declaration, ...]:
    tree = _tree(file)
    if tree is None:
        return ()
    called = _names_of_decorators(tree)
    declared = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            kind = called.get(ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator))
            if kind is None:
                continue
            name: object = node.name
            for keyword in call.keywords if call is not None and kind != "tasks" else ():
                if keyword.arg == "name":
                    name = _value(keyword.value, tree, file)
            if not isinstance(name, str) or not name:
                raise DataError(f"{file}, line {decorator.lineno}: name is {name!r:.80}; expected a text")
            declared.append(
                Declaration(kind, name, FunctionRef(f"{file.stem}.{node.name}", file, name), decorator.lineno)
            )
    return tuple(declared)


def _tree(file: Path) -> ast.Module | None:
    """Return a file's syntax tree; None for one that does not mention assaymark."""
    source = file.read_bytes()
    if b"assaymark" not in source:
        return None
    try:
        tree: ast.Module = parse_python(source)
    except SyntaxError as error:
        raise DataError(f"{file}, line {error.lineno}: {error.msg}; expected Python source") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{file} cannot be read as Python: {type(error).__name__}: {error}") from None
    return tree


def _names_of_decorators(tree: ast.Module) -> dict[str, Kind]:
    """Return the names that a file has for our decorators: `assaymark.metric`, or what it imports them as."""
    names: dict[str, Kind] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "assaymark":
                    names |= {f"{alias.asname or alias.name}.{name}": kind for name, kind in _KIND_OF.items()}
        elif isinstance(node, ast.ImportFrom) and node.module == "assaymark" and not node.level:
            names |= {
                alias.asname or alias.name: _KIND_OF[alias.name] for alias in node.names if alias.name in _KIND_OF
            }
    return names


def read_task(file: Path, name: str) -> dict[str, object]:
    """Return the content of the task file that a task declared in Python stands for.

    Raises: DataError, with file and line, for a key that cannot be read.
    """
    declaration = next((each for each in declarations_in(file) if (each.kind, each.name) == ("tasks", name)), None)
    tree = _tree(file)
    if declaration is None or tree is None:
        raise DataError(f"{file} declares no task '{name}'; expected a function with @assaymark.task(...)")
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    call = next(each for each in function.decorator_list if each.lineno == declaration.line)
    spec: dict[str, object] = {}
    for keyword in call.keywords if isinstance(call, ast.Call) else ():
        if keyword.arg is None:
            raise DataError(f"{file}, line {keyword.value.lineno}: **{ast.unparse(keyword.value)} is not read; "
                            "write each key of the task")  # fmt: skip
        if keyword.arg in {"task", "custom_dataset", "dataset_path", "include", "class"}:
            raise DataError(
                f"{file}, line {keyword.value.lineno}: {keyword.arg} is not a key of @assaymark.task, "
                "whose function has the task's name and returns its rows"
            )
        spec[keyword.arg] = _value(keyword.value, tree, file)
    if not {"test_split", "validation_split"} & spec.keys():
        spec["test_split"] = "test"
    return {"task": name, "custom_dataset": declaration.function, "dataset_path": name, **spec}


def _value(node: ast.expr, tree: ast.Module, file: Path) -> object:
    """Return the value of an expression: a literal, a constant of the file, or a function in it."""
    match node:
        case ast.Name(id=name):
            for statement in reversed(tree.body):  # the last assignment counts
                if isinstance(statement, ast.FunctionDef | ast.ClassDef) and statement.name == name:
                    return FunctionRef(f"{file.stem}.{name}", file)
                if isinstance(statement, ast.Assign) and [ast.unparse(each) for each in statement.targets] == [name]:
                    others = ast.Module([each for each in tree.body if each is not statement], [])
                    return _value(statement.value, others, file)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, tree, file) for item in items]
        case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
            named = [key for key in keys if key is not None]
            return {
                _value(key, tree, file): _value(value, tree, file) for key, value in zip(named, values, strict=True)
            }
        case _:
            try:
                return ast.literal_eval(node)
            except (ValueError, TypeError, MemoryError, RecursionError):
                pass
    raise DataError(
        f"{file}, line {node.lineno}: {ast.unparse(node)!r:.80} is not known without running the file; "
        "expected a literal, or the name of a constant or a function of this file"
    )


def with_line(error: DataError, file: Path, name: str) -> DataError:
    """Return an error about the keys of a task that a Python file declares, which names the line too."""
    line = next((each.line for each in declarations_in(file) if (each.kind, each.name) == ("tasks", name)), None)
    prefix = f"{file}: "
    text = str(error)
    return DataError(f"{file}, line {line}: {text.removeprefix(prefix)}") if text.startswith(prefix) else error
