"""The architecture is this table: what each part of the package may import, and nothing else.

Read from the syntax tree, so nothing is imported and a missing GPU library cannot hide a violation.
Imports inside functions count as well: hiding an import does not make it legal.
"""

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from tools.faults import FAULTS

from assaymark.python_source import parse_python

PACKAGE = "assaymark"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE
FACADE = {"__init__", "__main__"}  # may import anything; nothing may import them

FOUNDATION = {
    "errors",
    "randomness",
    "settings",
    "records",
    "registry",
    "hub_access",
    "platforms",
    "drafts",
    "limits",
    "stopping",
    "python_source",
}
MAY_IMPORT: dict[str, set[str]] = {
    # foundation: no knowledge of benchmarks, models or storage
    "errors": set(),
    "randomness": {"errors"},
    "settings": {"errors"},
    "records": {"errors"},
    "registry": {"errors"},
    "hub_access": set(),
    "platforms": {"errors", "settings"},
    "drafts": {"settings", "platforms"},
    "limits": {"errors", "platforms"},
    "stopping": set(),
    "python_source": set(),
    # pure middle: each part takes records and gives records, and can be tested alone
    "datasets": {"errors", "settings", "records", "registry", "hub_access", "limits"},
    "prompts": {"errors", "records", "randomness", "limits", "python_source"},
    "perturbations": {"errors", "records", "registry"},
    "scoring": {"errors", "records", "settings", "registry", "platforms", "limits", "python_source"},
    "statistics": {"errors", "randomness", "registry"},
    "documents": {"errors", "settings", "records", "platforms", "drafts", "statistics"},
    "engine": {"errors", "settings", "platforms"},
    "store": {"errors", "settings", "records", "registry", "platforms"},
    "library": set(),  # task files and their functions: imported by name, they import nothing of ours
    # assembly
    "tasks": FOUNDATION - {"hub_access", "drafts", "stopping"}
    | {"datasets", "perturbations", "prompts", "scoring", "statistics"},
    "models": FOUNDATION - {"drafts"} | {"engine"},
    "options": {"errors", "settings", "records", "registry", "perturbations", "prompts", "store", "tasks", "models"},
    "results": {
        "errors",
        "documents",
        "python_source",
        "limits",
        "registry",
        "drafts",
        "settings",
        "records",
        "options",
        "perturbations",
        "prompts",
        "scoring",
        "statistics",
        "store",
        "tasks",
    },
}
# the shells: they know no feature; features register commands, pages and parts of the application with them
MAY_IMPORT["cli"] = FOUNDATION | {"documents"}
MAY_IMPORT["web"] = FOUNDATION | {"documents"}
# features, each after those it may import
BELOW = set(MAY_IMPORT) - {"engine", "web"}
MAY_IMPORT["interop"] = BELOW - {"hub_access", "randomness", "stopping"}
MAY_IMPORT["runs"] = BELOW | {"interop", "engine"}
MAY_IMPORT["hosting"] = BELOW | {"engine", "web"}
MAY_IMPORT["arena"] = BELOW | {"web", "runs", "hosting"}
MAY_IMPORT["judges"] = BELOW | {"runs", "arena"}
MAY_IMPORT["audit"] = BELOW | {"runs"}
MAY_IMPORT["applications"] = BELOW | {"web", "runs", "hosting", "arena", "judges", "audit"}
MAY_IMPORT["leaderboard"] = BELOW | {"web", "interop", "runs", "arena"}
MAY_IMPORT["warm"] = FOUNDATION | {"cli"}  # what it keeps imported it learns from a run, by the modules' names
MAY_IMPORT["swe"] = BELOW | {"interop", "runs", "applications", "leaderboard"}


# Inside the parts with packages: what each package may import of its own part. Modules beside the packages (protocols,
# number formats) may be imported by all; `create` and `language_model`, which assemble a model, by none.
MAY_IMPORT_INSIDE: dict[str, dict[str, set[str]]] = {
    "models": {
        "checkpoint": set(),
        "text": set(),
        "workers": {"checkpoint", "text"},
        "local": {"checkpoint", "text", "workers"},
        "server": {"checkpoint", "text", "local"},
        "multimodal": {"checkpoint", "text", "local"},
        "vllm": {"checkpoint", "text", "local"},
        "gguf": {"checkpoint", "text", "local"},
        "cost": {"text", "server"},
    },
    "results": {
        "evidence": set(),
        "comparison": {"evidence"},
        "views": {"evidence", "comparison"},
        "report": {"evidence", "comparison", "views"},
    },
}
ASSEMBLING = {"create", "language_model"}


def unit_of(path: Path) -> str:
    """Return the part a file belongs to: `tasks/arc.py` -> `tasks`, `errors.py` -> `errors`."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    tree: ast.Module = parse_python(path.read_bytes())
    return tree


def imported_units(path: Path) -> set[str]:
    """Return the parts of this package that `path` imports, at any depth of the file."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports in full, not relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")}


def violations() -> list[str]:
    """Return one line for each import that the table does not allow."""
    return [
        f"{path.relative_to(SOURCE)}: {unit} may not import {target}"
        for path in sorted(SOURCE.rglob("*.py"))
        if (unit := unit_of(path)) not in FACADE
        for target in sorted(imported_units(path) - {unit} - MAY_IMPORT.get(unit, set()))
    ]


def modules_of(part: str) -> dict[str, Path]:
    """Return the files of one part by their dotted names; a package has the name of its folder."""
    files = sorted((SOURCE / part).rglob("*.py")) or [SOURCE / f"{part}.py"]
    names = {path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def imported_modules(path: Path, known: Iterable[str]) -> set[str]:
    """Return which of the known modules a file imports, at any depth and under TYPE_CHECKING too."""
    results: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            results |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            results |= {name if name in known else node.module for name in inner}
    return results & set(known)


def circles(part: str) -> list[tuple[str, ...]]:
    """Return the groups of modules of a part that import each other in a circle."""
    modules = modules_of(part)
    graph = {name: imported_modules(path, modules) for name, path in modules.items()}
    reached = {name: _reached(name, graph) for name in graph}
    together = {tuple(sorted(b for b in reached[a] if a in reached[b])) for a in graph if a in reached[a]}
    return sorted(together)


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    results: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in results:
            results.add(name)
            waiting += graph[name]
    return results


@pytest.mark.parametrize("part", sorted({unit_of(path) for path in SOURCE.rglob("*.py")} - FACADE))
def test_no_circle_inside_a_part(part: str) -> None:
    """The modules of a part can be put in one order too; imports in functions and for types alone count."""
    assert circles(part) == []


@pytest.mark.parametrize("part", sorted(MAY_IMPORT_INSIDE))
def test_imports_inside_a_part_follow_its_table(part: str) -> None:
    """A package of a part imports only those that the part's own table names, and nothing that assembles them."""
    table = MAY_IMPORT_INSIDE[part]
    assert {folder.name for folder in (SOURCE / part).iterdir() if (folder / "__init__.py").exists()} == set(table)
    wrong = []
    for package, allowed in table.items():
        for path in sorted((SOURCE / part / package).rglob("*.py")):
            strange = imported_inside(path, part) & (table.keys() | ASSEMBLING) - allowed - {package}
            wrong += [f"{path.relative_to(SOURCE)} imports {part}.{name}" for name in sorted(strange)]
    assert wrong == []


def imported_inside(path: Path, part: str) -> set[str]:
    """Return the packages and modules of a part that a file imports, by the first name below the part."""
    results: set[str] = set()
    for node in ast.walk(tree_of(path)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        below = [name.split(".") for name in names if name.startswith(f"{PACKAGE}.{part}.")]
        results |= {parts[2] for parts in below}
    return results


def test_the_table_has_no_circle() -> None:
    """The allowed imports can be put in one order, so every part can be read before its users."""
    TopologicalSorter(MAY_IMPORT).prepare()  # raises CycleError and names the circle


def test_every_part_is_in_the_table() -> None:
    """A new top-level module (a `utils.py`, say) is given its place before it can be merged."""
    parts = {unit_of(path) for path in SOURCE.rglob("*.py")} - FACADE
    assert parts <= MAY_IMPORT.keys(), f"not in the table: {sorted(parts - MAY_IMPORT.keys())}"


def test_imports_follow_the_table() -> None:
    """Nobody imports what the table does not allow."""
    assert violations() == []


THIRD_PARTY_PLACES = {
    "torch": {"engine"},
    "transformers": {"engine", "models"},
    "httpx": {"models", "hosting", "leaderboard", "applications"},
    "tokenizers": {"models"},
    "ray": {"models"},
    "sqlalchemy": {"store", "arena", "applications", "leaderboard", "swe"},  # features define tables of their own
    "alembic": {"store"},
    "fastapi": {"web", "hosting", "arena", "leaderboard", "applications"},
    "starlette": {"web", "hosting", "arena", "leaderboard", "applications"},
    "uvicorn": {"web", "hosting"},
    "nh3": {"web"},
    "filelock": {"platforms"},
    "psutil": {"platforms"},
    "opentelemetry": {"applications"},
    "google": {"applications"},
    "latex2mathml": {"web"},
    "llguidance": {"hosting"},
}


def foreign_imports(path: Path) -> set[str]:
    """Return the top-level third-party packages that `path` imports, at any depth of the file."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_third_parties_keep_to_their_places() -> None:
    """A library that belongs to one part is imported by no other."""
    wrong = [
        f"{path.relative_to(SOURCE)}: {unit_of(path)} may not import {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in sorted(foreign_imports(path) & THIRD_PARTY_PLACES.keys())
        if unit_of(path) not in THIRD_PARTY_PLACES[name]
    ]
    assert wrong == []


def test_the_text_of_each_fault_is_in_the_source_once() -> None:
    """A fault that `tools/faults.py` cannot put into the source shows nothing of the tests."""
    found = [(fault.name, (SOURCE / fault.file).read_text("utf-8").count(fault.old)) for fault in FAULTS]
    assert [pair for pair in found if pair[1] != 1] == []
