"""Hashes of a function's source, as far as it can be read without running it.

The hash decides whether stored answers are still this function's, so it covers too much rather than too little: all
statements of the file outside functions and classes, the functions and classes that the named one mentions (directly
or through others), the user's own modules that it imports, and the text files that it names (prompts). Other functions
of the file, for example its scorers, do not count. Data from elsewhere (a database, a service, the environment) is not
seen: a target's `version` is for that.
"""

import ast
import copyreg
import functools
import hashlib
import inspect
import linecache
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import BuiltinFunctionType, CodeType, ModuleType

from assaymark.errors import UsageError
from assaymark.python_source import parse_python, source_of_object
from assaymark.records import JsonValue, content_hash

PROMPT_SUFFIXES = frozenset(
    {".txt", ".md", ".prompt", ".j2", ".jinja", ".jinja2", ".mustache", ".yaml", ".yml", ".json", ".toml"}
)
_LARGEST = 4 * 2**20  # bytes of a file that counts as a prompt
_CHANGING = frozenset({  # methods of containers
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "put", "remove",
    "setdefault", "update",
})  # fmt: skip
_DEEPEST = 6  # levels of values that are looked into
_MOST_MODULES = 500  # of one's own that are followed: a checkout of a library may be among them


def function_hash(function: Callable[..., object], name: str) -> str:
    """Return a hash of a function's source and of the values that it holds. name: how it was named, for messages.

    Raises: UsageError where its source cannot be read.
    """
    return content_hash(_value(function, name, 0))


def held_value(value: object) -> JsonValue:
    """Return what stands in a hash for a value that a function holds: in a closure, a default, an object or a partial.

    Raises: UsageError where it is or holds a function whose source cannot be read.
    """
    return _value(value, type(value).__qualname__, 1)


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
    if isinstance(value, bytes | bytearray):
        return hashlib.sha256(value).hexdigest()
    if depth > _DEEPEST:
        return type(value).__qualname__
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, list | tuple):
        return [_value(each, name, depth + 1) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(content_hash(_value(each, name, depth + 1)) for each in value)
    if isinstance(value, Mapping):
        return {str(key): _value(each, name, depth + 1) for key, each in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, functools.partial):
        bound = [value.func, list(value.args), dict(value.keywords)]
        return {"partial": [_value(each, name, depth + 1) for each in bound]}
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
        held = {key: each for key, each in attributes_of(value).items() if key not in changed}
        return {"class": _class(type(value), name, depth), "holds": _value(held, name, depth + 1)}
    if depth == 0:  # a builtin, or an object of a library that is itself the target
        raise _no_source(name)
    if callable(read := getattr(value, "tobytes", None)):  # an array
        return {"class": kind, "holds": hashlib.sha256(read()).hexdigest()}
    if isinstance(value, BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return {"class": kind, "holds": _value(parts, name, depth + 1)} if (parts := _parts(value)) is not None else kind


def attributes_of(value: object) -> dict[str, object]:
    """Return an object's attributes, also those in slots."""
    listed = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
    slots = [name for names in listed for name in ([names] if isinstance(names, str) else names)]
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots if hasattr(value, name)}}


def _parts(value: object) -> tuple[object, ...] | None:
    """Return what an unchangeable value is made from: a pattern, a date, a decimal. None for any other value.

    A class whose objects are equal by their values and can be hashed does not let them change.
    """
    if type(value).__hash__ in {None, object.__hash__}:
        return None
    try:
        reduce = copyreg.dispatch_table.get(type(value))  # of patterns
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except Exception:  # noqa: BLE001 - whatever a class of a library raises
        return None
    return reduced[1:3] if isinstance(reduced, tuple) else (reduced,)  # arguments and state


def _no_source(name: str) -> UsageError:
    return UsageError(
        f"the source of {name} cannot be read, so a change of it would not be noticed; expected a function from a "
        "file, or give a version"
    )


def _function(wrapped: Callable[..., object], name: str, depth: int) -> JsonValue:
    function = inspect.unwrap(wrapped, stop=_is_own)  # a wrapper of one's own may hold settings
    if not _is_own(function):
        if depth == 0:
            return {"source": _source(function, name)}
        return f"{function.__module__}.{function.__qualname__}"
    file, defined = _file_of(function), function.__code__.co_qualname  # which `functools.wraps` leaves alone
    if file is not None and "<" not in defined:
        return {"name": defined, **_sliced(file, {defined.split(".")[0]})}
    source = _source(function, name)  # nested in another function, a lambda, or typed in a notebook
    held: dict[str, JsonValue] = {}
    changed = _changed_in(source)
    variables = inspect.getclosurevars(function)
    in_file = {key for key, value in variables.globals.items() if _is_sliced(value, file)}
    for key, value in {**variables.nonlocals, **variables.globals}.items():
        if value is not function and key not in changed:
            held[key] = "in the file" if key in in_file else _value(value, key, depth + 1)
    if defaults := [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]:
        held["<defaults>"] = [_value(each, name, depth + 1) for each in defaults]
    if function.__name__ == "<lambda>":  # of several in a line, the source is that of the line
        held["<body>"] = _body(function.__code__)
    return {
        "source": source,
        "holds": held,
        **({"file": _sliced(file, in_file)} if file is not None and in_file else {}),
    }


def _body(code: CodeType) -> JsonValue:
    """Return the text of a lambda's body; its byte code, which another Python compiles otherwise, without."""
    lines = [line.encode() for line in linecache.getlines(code.co_filename)]
    places = [(first, start, last, end) for first, last, start, end in code.co_positions()
              if first and last and start is not None and end]  # fmt: skip
    if not places or max(place[2] for place in places) > len(lines):
        constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
        return [code.co_code.hex(), *code.co_names, *constants]
    first, start = min(place[:2] for place in places)
    last, end = max(place[2:] for place in places)
    text = [*lines[first - 1 : last - 1], lines[last - 1][:end]]
    return b"".join([text[0][start:], *text[1:]]).decode(errors="replace")


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
    """Return whether a value is a function or class of the top of a file, of which that part of the file is hashed."""
    if file is None or not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    defined = value.__code__.co_qualname if inspect.isfunction(value) else value.__qualname__
    return "<" not in defined and _file_of(value) == file


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


def _is_own(thing: Callable[..., object]) -> bool:
    """Return whether code is the user's own, and not a library's: those have versions and do not change by editing."""
    name = (getattr(thing, "__module__", None) or "").partition(".")[0]
    if name in sys.stdlib_module_names and name != "__main__":
        return False
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:  # of no file: builtin, or typed at a prompt
        return name == "__main__"
    return file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _file_of(thing: Callable[..., object]) -> Path | None:
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
        "imports": own_imports(file),
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


def own_imports(file: Path) -> list[list[str]]:
    """Return name and digest of the user's own modules that a file imports, directly or through each other.

    They lie beside the file, in its package, or where Python looks for modules besides those of its installation.
    """
    if _is_installed(str(file)):
        return []
    package = file.parent
    while (package / "__init__.py").is_file() and package != package.parent:
        package = package.parent
    searched = [place for place in sys.path if Path(place).is_dir() and not _is_installed(place)]
    roots = tuple(dict.fromkeys([file.parent, package, *(Path(place).resolve() for place in searched)]))
    states, listed = _IMPORTS.get((file, roots), ({}, []))
    if not states or any(_state(path) != state for path, state in states.items()):
        found = _found_imports(file, roots)
        listed = sorted([name, _digest(path)] for name, path in found.items())
        _IMPORTS[file, roots] = {path: _state(path) for path in (file, *found.values())}, listed
    return listed


_State = tuple[int, int] | None
_IMPORTS: dict[tuple[Path, tuple[Path, ...]], tuple[dict[Path, _State], list[list[str]]]] = {}
"""By file and places where it may import from: the states of what it imports, and names and digests of that."""


def _state(path: Path) -> _State:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _found_imports(file: Path, roots: Sequence[Path]) -> dict[str, Path]:
    """Return the modules that a file imports, directly or through each other, by their name in the first root."""
    found: dict[str, Path] = {}
    waiting = [file]
    while waiting and len(found) < _MOST_MODULES:
        for root, imported in _imported(waiting.pop(), roots):
            name = imported.relative_to(root).as_posix()
            if name not in found and imported != file:
                found[name] = imported
                waiting.append(imported)
    return found


@functools.cache
def _is_installed(place: str) -> bool:
    """Return whether a file or folder is Python's own, or of packages, which have versions."""
    path = Path(place).resolve()
    own = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(map(path.is_relative_to, own))


def _imported(file: Path, roots: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield the files under some folders that a module's imports name, each with the first folder that it is under."""
    for node in ast.walk(_parsed(file, file.read_bytes())):
        names: list[str] = []
        places: Sequence[Path] = roots
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
            if node.level:
                places = [file.parents[node.level - 1]] if node.level <= len(file.parents) else []
        for place, parts in product(places, [name.split(".") for name in names if name]):
            if parts[0] == "assaymark" and places is roots:
                continue
            for length in range(1, len(parts) + 1):
                module = place.joinpath(*parts[:length])
                for path in (module.with_suffix(".py"), module / "__init__.py"):
                    if path.is_file():
                        found = path.resolve()
                        yield from [(root, found) for root in roots if found.is_relative_to(root)][:1]


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
