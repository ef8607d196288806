"""Hashes of a function's source, as far as it can be read without running it.

The hash decides whether stored answers are still this function's, so it covers too much rather than too little: all
statements of the file outside functions and classes, the functions and classes that the named one mentions (directly
or through others), the user's own modules that it imports, and the text files that it names (prompts). Other functions
of the file, for example its scorers, do not count. Data from elsewhere (a database, a service, the environment) is not
seen: a target's `version` is for that.
"""

import ast
import functools
import hashlib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from assaymark.errors import UsageError
from assaymark.python_source import parse_python, source_of_object
from assaymark.records import JsonValue, content_hash

PROMPT_SUFFIXES = frozenset(
    {".txt", ".md", ".prompt", ".j2", ".jinja", ".jinja2", ".mustache", ".yaml", ".yml", ".json", ".toml"}
)
_LARGEST = 4 * 2**20  # bytes of a file that counts as a prompt
_CHANGING = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "put",
        "remove",
        "setdefault",
        "update",
    }
)  # fmt: skip - methods of containers
_DEEPEST = 6  # levels of values that are looked into


def function_hash(function: Callable[..., object], name: str) -> str:
    """Return a hash of a function's source and of the values that it holds. name: how it was named, for messages.

    Raises: UsageError where its source cannot be read.
    """
    return content_hash(_value(function, name, 0))


def files_hash(files: Iterable[str | Path], base: Path | None = None) -> list[list[str]]:
    """Return name and digest of each file. Raises: UsageError for one that does not exist."""
    return [[str(file), _digest(_existing(Path(file).expanduser(), base))] for file in files]


def name_of_function(function: Callable[..., object]) -> str:
    """Return the name under which a function's results are shown."""
    if isinstance(function, functools.partial):
        return name_of_function(function.func)
    return str(getattr(function, "__name__", type(function).__name__))


def _existing(path: Path, base: Path | None) -> Path:
    places = [path] if base is None else [path, base / path]
    for place in places:
        if place.is_file():
            return place
    raise UsageError(f"no file '{path}', which the target's answers are said to depend on; expected an existing file")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _value(value: object, name: str, depth: int) -> JsonValue:
    """Return the stand-in for a function, or for a value that one holds, in a hash."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if depth > _DEEPEST:
        return type(value).__qualname__
    if isinstance(value, list | tuple):
        return [_value(each, name, depth + 1) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(content_hash(_value(each, name, depth + 1)) for each in value)
    if isinstance(value, Mapping):
        return {str(key): _value(each, name, depth + 1) for key, each in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, functools.partial):
        parts = [value.func, list(value.args), dict(value.keywords)]
        return {"partial": [_value(each, name, depth + 1) for each in parts]}
    if isinstance(value, ModuleType):
        return value.__name__
    if inspect.ismethod(value):
        return {"method": value.__name__, "of": _value(value.__self__, name, depth + 1)}
    if inspect.isfunction(value):
        return _function(value, name, depth)
    if inspect.isclass(value):
        return _class(value, name, depth)
    if _is_own(type(value)):
        changed = _changed_by(type(value))
        held = {key: each for key, each in getattr(value, "__dict__", {}).items() if key not in changed}
        return {"class": _class(type(value), name, depth), "holds": _value(held, name, depth + 1)}
    if depth == 0:  # a builtin, or an object of a library that is itself the target
        raise _no_source(name)
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _no_source(name: str) -> UsageError:
    return UsageError(
        f"the source of {name} cannot be read, so a change of it would not be noticed; expected a function from a "
        "file, or give a version"
    )


def _function(function: Any, name: str, depth: int) -> JsonValue:
    function = inspect.unwrap(function)
    if not _is_own(function):
        if depth == 0:
            return {"source": _source(function, name)}
        return f"{function.__module__}.{function.__qualname__}"
    file = _file_of(function)
    if file is not None and "<" not in function.__qualname__:
        return {"name": function.__qualname__, **_sliced(file, {function.__qualname__.split(".")[0]})}
    source = _source(function, name)  # nested in another function, a lambda, or typed in a notebook
    held: dict[str, JsonValue] = {}
    changed = _changed_in(source)
    variables = inspect.getclosurevars(function)
    for key, value in {**variables.nonlocals, **variables.globals}.items():
        if value is not function and key not in changed:
            held[key] = _value(value, key, depth + 1) if not _is_sliced(value, file) else "in the file"
    in_file = {key for key, value in variables.globals.items() if _is_sliced(value, file)}
    if function.__name__ == "<lambda>":  # of several in a line, the source is that of the line
        held["<code>"] = [function.__code__.co_code.hex(), *map(str, function.__code__.co_names)]
        held["<constants>"] = [_value(each, name, depth + 1) for each in function.__code__.co_consts]
    return {
        "source": source,
        "holds": held,
        **({"file": _sliced(file, in_file)} if file is not None and in_file else {}),
    }


def _changed_by(kind: type) -> set[str]:
    """Return the attributes that methods of a class change, which are an object's state and not its source."""
    try:
        return _changed_in(textwrap.dedent(source_of_object(kind)))
    except (OSError, TypeError):
        return set()


def _changed_in(source: str) -> set[str]:
    """Return the names and attributes that code changes while it runs: counters, caches, lists of calls."""
    try:
        tree = _parsed(Path("<source>"), source.encode())
    except UsageError:  # a lambda's line is not a statement
        return set()
    changed: set[str] = set()
    construction = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in construction:
            continue
        if isinstance(node, ast.Global | ast.Nonlocal):
            changed |= set(node.names)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed |= _last_name(node if isinstance(node, ast.Attribute) else node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            changed |= _last_name(node.func.value)
    return changed


def _last_name(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Attribute):
        return {node.attr}
    return {node.id} if isinstance(node, ast.Name) else set()


def _is_sliced(value: object, file: Path | None) -> bool:
    """Return whether a global is a function or class of the same file, of which the part of that file is hashed."""
    return file is not None and (inspect.isfunction(value) or inspect.isclass(value)) and _file_of(value) == file


def _class(kind: type, name: str, depth: int) -> JsonValue:
    if not _is_own(kind):
        return f"{kind.__module__}.{kind.__qualname__}"
    file = _file_of(kind)
    if file is not None and "<" not in kind.__qualname__:
        return {"name": kind.__qualname__, **_sliced(file, {kind.__qualname__.split(".")[0]})}
    bases = [_class(base, name, depth + 1) for base in kind.__bases__ if base is not object]
    return {"source": _source(kind, name), "bases": bases}


def _source(thing: object, name: str) -> str:
    try:
        linecache.checkcache()
        return textwrap.dedent(source_of_object(thing))
    except (OSError, TypeError):
        raise _no_source(name) from None


def _is_own(thing: Any) -> bool:
    """Return whether code is the user's own, and not a library's: those have versions and do not change by editing."""
    name = (getattr(thing, "__module__", None) or "").partition(".")[0]
    if name in sys.stdlib_module_names and name != "__main__":
        return False
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:  # of no file: builtin, or typed at a prompt
        return name == "__main__"
    return file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _file_of(thing: Any) -> Path | None:
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:
        return None
    return Path(file).resolve() if file is not None and Path(file).is_file() else None


# ------------------------------------------------------------------------------------- the part of a file that counts


def _sliced(file: Path, names: set[str]) -> dict[str, JsonValue]:
    """Return the part of a file that functions or classes of it depend on."""
    return {
        # the statements that count, as text without comments and layout, in the file's order
        "parts": [ast.unparse(node) for node in _counted(_parsed(file, file.read_bytes()), names)],
        "imports": _own_imports(file),
        "files": _named_files(file, names),
    }


@functools.lru_cache(maxsize=256)
def _parsed(file: Path, content: bytes) -> ast.Module:
    try:
        tree: ast.Module = parse_python(content)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not valid Python: {error}") from None
    return tree


def _counted(tree: ast.Module, names: set[str]) -> list[ast.stmt]:
    """Return all statements but the functions and classes that nothing else, from these names on, mentions."""
    definitions: dict[str, list[ast.stmt]] = {}
    counted: list[ast.stmt] = []
    for node in tree.body:
        # a decorator may register what it decorates, so that it is used without being mentioned
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.decorator_list:
            definitions.setdefault(node.name, []).append(node)
        elif not _is_script(node):
            counted.append(node)
    waiting, reached = [*names, *(word for node in counted for word in _mentioned(node))], set[str]()
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in reached:
            reached.add(name)
            waiting += [word for node in definitions[name] for word in _mentioned(node)]
    chosen = {id(node) for name in reached for node in definitions[name]} | {id(node) for node in counted}
    return [node for node in tree.body if id(node) in chosen]


def _is_script(node: ast.stmt) -> bool:
    """Return whether it is `if __name__ == "__main__"`, which does not run where a file is imported."""
    return (
        isinstance(node, ast.If)
        and "__name__" in set(_mentioned(node.test))
        and "__main__" in set(_mentioned(node.test))
    )


def _mentioned(node: ast.AST) -> Iterator[str]:
    """Yield every name and text in a statement: a function may be looked up by a text too."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _own_imports(file: Path) -> list[list[str]]:
    """Return name and digest of the modules beside a file that it imports, directly or through each other."""
    root = file.parent
    digests: dict[str, str] = {}
    waiting = [file]
    while waiting:
        for imported in _imported(waiting.pop(), root):
            key = imported.relative_to(root).as_posix()
            if key not in digests and imported != file:
                digests[key] = _digest(imported)
                waiting.append(imported)
    return [[name, digest] for name, digest in sorted(digests.items())]


def _imported(file: Path, root: Path) -> Iterator[Path]:
    """Yield the files under a folder that a module's imports name."""
    for node in ast.walk(_parsed(file, file.read_bytes())):
        modules: list[tuple[Path, str]] = []
        if isinstance(node, ast.Import):
            modules = [(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = (
                root
                if not node.level
                else [file, *file.parents][node.level]
                if node.level <= len(file.parents)
                else root
            )
            base = node.module or ""
            modules = [(start, base), *((start, f"{base}.{alias.name}".lstrip(".")) for alias in node.names)]
        for start, module in modules:
            parts = [part for part in module.split(".") if part]
            for length in range(1, len(parts) + 1):
                place = start.joinpath(*parts[:length])
                for path in (place.with_suffix(".py"), place / "__init__.py"):
                    if path.is_file() and path.resolve().is_relative_to(root):
                        yield path.resolve()


def _named_files(file: Path, names: set[str]) -> list[list[str]]:
    """Return name and digest of the text files that the counted part of a file names: prompts and the like.

    Files that it writes do not count: each call would make another target of it.
    """
    statements = _counted(_parsed(file, file.read_bytes()), names)
    written = {text for node in statements for text in _written(node)}
    digests: dict[str, str] = {}
    for text in {word for node in statements for word in _mentioned(node)} - written:
        path = _prompt_file(text, file.parent)
        if path is not None:
            digests[text] = _digest(path)
    return [[name, digest] for name, digest in sorted(digests.items())]


def _prompt_file(text: str, folder: Path) -> Path | None:
    if not 0 < len(text) < 256 or "\n" in text or Path(text).suffix.lower() not in PROMPT_SUFFIXES:
        return None
    for folder_of_file in (folder, Path.cwd()):
        paths: list[Path] = [folder_of_file / text, *(_below(folder_of_file, text) if "/" not in text else ())]
        for path in paths:
            try:
                if path.is_file() and path.stat().st_size <= _LARGEST:
                    return path
            except (OSError, ValueError):
                continue
    return None


def _below(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files of that name one folder below: `HERE / "prompts" / "answer.md"` names them in two texts."""
    try:
        folders = sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith((".", "_")))
    except OSError:
        return
    yield from (each / name for each in folders[:100])


def _written(node: ast.AST) -> Iterator[str]:
    """Yield the texts in calls that open a file for writing, and those of names that such calls use."""
    for each in ast.walk(node):
        if not isinstance(each, ast.Call):
            continue
        name = each.func.id if isinstance(each.func, ast.Name) else getattr(each.func, "attr", "")
        modes = [*each.args, *(keyword.value for keyword in each.keywords if keyword.arg == "mode")]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        is_writing = name == "open" and any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)
        if is_writing or name in {"write_text", "write_bytes"}:
            yield from (word for word in _mentioned(each))
