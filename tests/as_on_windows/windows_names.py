"""What Python's modules lack on Windows or macOS, by typeshed, whose stubs say where a name is there."""

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import mypy

STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
MODULES = ("os", "sys", "signal", "socket", "select", "time", "mmap", "shutil", "threading")


@cache
def names_of(module: str, system: str) -> frozenset[str]:
    """Return the names that a module of the standard library has on a system."""
    path = next(p for p in (STUBS / f"{module}.pyi", STUBS / module / "__init__.pyi") if p.is_file())
    return frozenset(_defined(ast.parse(path.read_text(encoding="utf-8")).body, system))


def missing_names(module: str, system: str = "win32") -> frozenset[str]:
    """Return the names that a module has on Linux, but not on another system."""
    return names_of(module, "linux") - names_of(module, system)


def missing_modules(system: str = "win32") -> list[str]:
    """Return the modules that a system does not have."""
    return [name for name in sorted(sys.stdlib_module_names) if _has_stub(name) and _is_missing(name, system)]


def _has_stub(module: str) -> bool:
    return (STUBS / f"{module}.pyi").is_file() or (STUBS / module / "__init__.pyi").is_file()


def _is_missing(module: str, system: str) -> bool:
    public = {name for name in names_of(module, "linux") if not name.startswith("_")}
    return bool(public) and not names_of(module, system) & public


def _defined(body: Iterable[ast.stmt], system: str) -> Iterable[str]:
    for node in body:
        match node:
            case ast.If():
                is_true = _value(node.test, system)
                yield from _defined(node.body, system) if is_true is not False else ()
                yield from _defined(node.orelse, system) if is_true is not True else ()
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.ImportFrom(names=names) if any(each.asname == each.name for each in names):
                yield from (each.name for each in names if each.asname == each.name)
            case _:
                pass


def _value(test: ast.expr, system: str) -> bool | None:
    """Return what a condition of a stub is on a system; None where it depends on something else."""
    match test:
        case ast.BoolOp(op=op, values=values):
            found = [_value(each, system) for each in values]
            decisive = isinstance(op, ast.Or)
            return decisive if decisive in found else None if None in found else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _value(operand, system)
            return None if inner is None else not inner
        case ast.Compare(left=ast.Attribute(attr="platform"), ops=[op], comparators=[ast.Constant(value=name)]):
            return (system == name) == isinstance(op, ast.Eq)
        case ast.Compare(left=ast.Attribute(attr="version_info"), ops=[op], comparators=[ast.Tuple(elts=parts)]):
            asked = tuple(part.value for part in parts if isinstance(part, ast.Constant))
            return sys.version_info >= asked if isinstance(op, ast.GtE) else sys.version_info < asked
        case _:
            return None
