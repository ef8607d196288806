"""Print what each extra weighs: the size on disk of the packages that it adds to the core's, in this environment.

python tools/extra_sizes.py

Packages that are not installed here are named; the size is then that of the others.
"""

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "assaymark"


def main() -> None:
    """Print a line for the core and for each extra."""
    core = closure(PROJECT, "")
    print(f"{'core':<12} {_shown(core)}")
    for extra in sorted(distribution(PROJECT).metadata.get_all("Provides-Extra") or []):
        print(f"{extra:<12} {_shown(closure(PROJECT, extra) - core)}")


def closure(name: str, extra: str) -> frozenset[str]:
    """Return the names of all packages that a package needs with one of its extras, without itself."""
    results: set[str] = set()
    waiting = list(_needs(name, extra))
    while waiting:
        first, extras = waiting.pop()
        if first == PROJECT or (first in results and not extras):
            continue
        results.add(first)
        for each in ("", *extras):
            waiting += [pair for pair in _needs(first, each) if pair[0] not in results]
    return frozenset(results)


def _needs(name: str, extra: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield canonicalize_name(requirement.name), tuple(requirement.extras)


def _shown(names: frozenset[str]) -> str:
    installed: dict[str, Distribution] = {}
    for name in names:
        try:
            installed[name] = distribution(name)
        except PackageNotFoundError:
            continue
    missing = sorted(names - installed.keys())
    size = sum(_size(each) for each in installed.values())
    note = f"  not installed: {', '.join(missing)}" if missing else ""
    return f"{size / 1e6:7,.0f} MB  {len(installed):3} packages{note}"


def _size(package: Distribution) -> int:
    paths = (Path(str(package.locate_file(file))) for file in package.files or [])
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    main()
