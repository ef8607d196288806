"""Structure of the API: no circular imports among its modules, and typed return values."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import assaymark
from tests.conftest import ROOT

API = ROOT / "src" / "assaymark" / "api"
PUBLIC = [*sorted(API.glob("*.py")), API.parent / "__init__.py", API.parent / "models" / "language_model.py"]


def imports_of(path: Path) -> set[str]:
    """Return the modules of the API that one of them imports, at any depth of the file, types included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {name.split(".")[2] for name in names if name.startswith("assaymark.api.")}
    return {name for name in found if (API / f"{name}.py").is_file()}


def test_no_module_of_the_api_imports_one_that_imports_it() -> None:
    """The modules can be sorted so that each comes before those that import it."""
    graph = {path.stem: imports_of(path) for path in sorted(API.glob("*.py"))}
    assert graph["evaluate"] >= {"run"}, "the imports are not found: this tests nothing"
    TopologicalSorter(graph).prepare()


def public_functions(path: Path) -> Iterator[ast.FunctionDef]:
    """Yield the public functions of a module and the public methods of its public classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    for body in (tree.body, *(each.body for each in classes)):
        for node in body:
            if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__getattr__"):
                yield node


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_return_values_have_types(path: Path) -> None:
    """No public function or method of the API returns Any."""
    for function in public_functions(path):
        assert function.returns is not None, function.name
        names = {node.id for node in ast.walk(function.returns) if isinstance(node, ast.Name)}
        texts = " ".join(str(node.value) for node in ast.walk(function.returns) if isinstance(node, ast.Constant))
        assert "Any" not in names, function.name
        assert "Any" not in texts, function.name


def test_the_public_names_are_checked() -> None:
    """Each name of the package comes from one of the modules above."""
    modules = {getattr(assaymark, name).__module__ for name in assaymark.__all__ if name != "__version__"}
    places = {"assaymark." + ".".join(path.relative_to(API.parent).with_suffix("").parts) for path in PUBLIC}
    assert modules <= places
