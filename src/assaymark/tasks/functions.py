"""Import the functions that task files name: late, once, and only from trusted folders.

Trusted are our library, lm_eval's task folder, and folders that the user named. Task code may draw from the global
random generators: it finds them seeded as lm-evaluation-harness seeds them at the start of a run, and their states
are restored afterwards.
"""

import __future__

import ast
import hashlib
import importlib
import importlib.util
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from assaymark.errors import AssaymarkError, DataError, MissingExtra, UsageError
from assaymark.limits.characters import exception_text
from assaymark.tasks.lm_eval_names import installed_version
from assaymark.tasks.spec_hash import code_hash, file_of, local_imports
from assaymark.tasks.task import FunctionRef, Task
from assaymark.tasks.user_code import declarations_in

_OF_FILES = "assaymark_task_file_"  # the beginning of a module's name
_BROKEN = "__assaymark_broken__"  # in a module's names: name -> why that declaration cannot be used
_with_faults: dict[str, None] = {}  # names of modules that have had such a declaration, in order


def load_function(function: FunctionRef, trusted: Sequence[Path]) -> Callable[..., Any]:
    """Return the function itself, importing its file.

    Raises: UsageError for code outside the trusted folders; DataError if file or function is missing or fails to
    import; MissingExtra if it imports lm_eval or datasets and that is not installed.
    """
    file = file_of(function)
    if file is None:
        if function.module.split(".")[0] == "lm_eval":
            raise _lacking_lm_eval(f"!function {function.path}", function.module)
        raise DataError(
            f"!function {function.path}: no file {function.module.replace('.', '/')}.py beside the task file; only "
            "functions of files beside it can be used"
        )
    real = file.resolve()
    if not any(real.is_relative_to(folder.resolve()) for folder in trusted):
        if function.file is None:
            raise UsageError(
                f"!function {function.path} names an installed module ({real}); only functions of files beside the "
                "task file can be used: import what is needed in a .py file there"
            )
        raise UsageError(
            f"!function {function.path} is in {real.parent}, which is not a trusted folder; "
            f"to run its code, add --include_path {real.parent}"
        )
    module = _module(function, real)
    _rewind(module)
    if (fault := module.__dict__.get(_BROKEN, {}).get(function.name)) is not None:
        raise DataError(fault)
    try:
        loaded: Callable[..., object] = getattr(module, function.name)
    except AttributeError:
        raise DataError(f"!function {function.path}: {real} has no '{function.name}'") from None
    return loaded


def loader_of(task: Task) -> Callable[[object], object]:
    """Return a function that replaces this task's FunctionRefs by functions and returns other values unchanged."""
    return lambda value: load_function(value, task.trusted) if isinstance(value, FunctionRef) else value


def _module(function: FunctionRef, file: Path) -> ModuleType:
    try:
        if function.file is None:
            return importlib.import_module(function.module)
        return _module_of_file(file)
    except ModuleNotFoundError as error:
        top = (error.name or "").split(".")[0]
        if top == "lm_eval":
            raise _lacking_lm_eval(str(file), str(error.name)) from error
        if top == "datasets":
            raise MissingExtra(f"{file}", "hub") from error
        raise DataError(
            f"{place_in(file, error)} imports '{error.name}', which is not installed: pip install {top}"
        ) from error
    except Exception as error:
        raise DataError(f"{place_in(file, error)} fails to import: {exception_text(error)}") from error


def place_in(file: Path, error: Exception) -> str:
    """Return a file, with the line in it at which an error was raised, or that is no Python, where that is known."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}, line {error.lineno},"
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}, line {lines[-1]}," if lines else str(file)


def _lacking_lm_eval(what: str, module: str) -> AssaymarkError:
    """Return the error for a missing module of lm_eval: lm_eval itself, or a module that only a fork has."""
    if importlib.util.find_spec("lm_eval") is None:
        return MissingExtra(what, "lm-eval")
    return DataError(
        f"{what} needs {module}, which the installed lm-eval {installed_version()} does not have; it may be a fork's: "
        "copy that file beside the task file and import it by its own name, or install the fork"
    )


def _rewind(module: ModuleType) -> None:
    """Restore a module's own random generators to their states after import.

    What it draws must not depend on earlier draws in this process: the same plan has the same prompts.
    """
    states = module.__dict__.get("__assaymark_generators__")
    if states is None:
        own = [(name, value) for name, value in vars(module).items() if type(value) is random.Random]
        module.__dict__["__assaymark_generators__"] = [(name, generator.getstate()) for name, generator in own]
    for name, state in states or ():
        module.__dict__[name].setstate(state)


def broken_declarations(folders: Sequence[Path]) -> list[str]:
    """Return the faults of declarations in imported files below the folders; others of these files can be used."""
    faults: list[str] = []
    for name in list(_with_faults):  # another thread may import a file meanwhile
        own = getattr(sys.modules.get(name), "__dict__", {})
        if _BROKEN in own and any(Path(own["__assaymark_stamp__"][0]).is_relative_to(each) for each in folders):
            faults += own[_BROKEN].values()
    return faults


def _execute(file: Path, names: dict[str, Any]) -> None:
    """Execute a file. A declaration that raises leaves the others usable: its fault is kept under its name.

    Raises: what any other statement raises.
    """
    source = file.read_bytes()
    declared = {each.line for each in declarations_in(file)}
    tree = ast.parse(source, str(file))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    features = [getattr(__future__, alias.name, None) for node in future for alias in node.names]
    flags = sum({feature.compiler_flag for feature in features if feature is not None})
    parts: list[list[ast.stmt]] = [[]]
    for node in tree.body:
        lines = {decorator.lineno for decorator in getattr(node, "decorator_list", ())}
        parts += [[node], []] if lines & declared else []
        if not lines & declared:
            parts[-1].append(node)
    for part in parts:
        code = compile(ast.Module(part, []), str(file), "exec", flags, dont_inherit=True)
        try:
            exec(code, names)  # noqa: S102 - the user's own file; no stale .pyc is read
        except Exception as error:
            name = getattr(part[0], "name", None) if len(part) == 1 else None
            if name is None or not getattr(part[0], "decorator_list", ()):
                raise
            fault = f"{place_in(file, error)} declares {name}, which fails: {exception_text(error)}"
            names.setdefault(_BROKEN, {})[name] = fault
            _with_faults[names["__name__"]] = None


def _module_of_file(file: Path) -> ModuleType:
    """Import a .py file under a unique name, once; again where its hash, and so that of its tasks, has changed."""
    name = _module_name(file)
    stamp = (str(file), code_hash(file))
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__assaymark_stamp__", stamp) == stamp:
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise DataError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__assaymark_stamp__"] = stamp
    sys.modules[name] = module
    try:
        with _beside(file):
            _execute(file, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _beside(file: Path) -> Iterator[None]:
    """Let a file import the files beside it, unless an installed module has the same name.

    They are removed from `sys.modules` afterwards, so that they are not confused with another folder's file of the
    same name or an edited one. No .pyc is written, which an edit within the same second would leave stale.
    """
    folder, before, no_bytecode = str(file.parent), set(sys.modules), sys.dont_write_bytecode
    sys.path.append(folder)
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = no_bytecode
        sys.path.remove(folder)
        own = {str(each) for each in local_imports(file)}
        own |= {str(each.parent) for each in local_imports(file)}  # a folder without __init__.py is a module too
        for name in set(sys.modules) - before:
            if own.intersection(_locations_of(sys.modules[name])) and not name.startswith("lm_eval."):
                del sys.modules[name]


def _locations_of(module: ModuleType) -> set[str]:
    """Return a module's file, or its folders where it has none."""
    file = getattr(module, "__file__", None)
    return {str(file)} if file is not None else set(map(str, getattr(module, "__path__", ())))


def _module_name(file: Path) -> str:
    """Return a module name; files of lm_eval and of our library keep their dotted names, to import one another."""
    parts = file.with_suffix("").parts
    for package, inner in (("lm_eval", "tasks"), ("assaymark", "library")):
        for i in range(len(parts) - 2, 0, -1):
            if parts[i - 1] == package and parts[i] == inner and all(part.isidentifier() for part in parts[i:]):
                return ".".join(parts[i - 1 :])
    return f"{_OF_FILES}{hashlib.sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"


@contextmanager
def published_seeds(sample_index: int = 0) -> Iterator[None]:
    """Seed the global generators as lm-evaluation-harness does (0 and 1234), and restore their states at the end.

    For scoring functions the seed depends on the sample, so that a random guess does not depend on which samples were
    scored before it.
    """
    import numpy as np  # lists of tasks import this module, and need no numpy

    before, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the one that task code uses
    random.seed(sample_index)
    np.random.seed(1234 + sample_index)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)  # noqa: NPY002
