"""Aliases: names that tasks had in earlier versions of lm-evaluation-harness, so that old command lines still work.

The names are data (`library/aliases.yaml`). A key may be a pattern whose `*` is used in its value too.
`harness|hellaswag|10`, as in published results files, is a task with its number of shots.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from assaymark.errors import DataError
from assaymark.tasks.yaml_files import parse_yaml

FILE = Path(__file__).resolve().parents[1] / "library" / "aliases.yaml"
ELSEWHERE = FILE.with_name("elsewhere.yaml")
_FRAMED = re.compile(r"(?:harness|leaderboard|lighteval|original)\|(?P<task>[^|]+)\|(?P<shots>\d+)(?:\|\d+)?")


@dataclass(frozen=True, slots=True)
class Aliases:
    """Old names and their present names."""

    exact: Mapping[str, tuple[str, ...]]
    patterns: Mapping[str, tuple[str, ...]]

    def meaning(self, name: str) -> tuple[str, ...]:
        """Return the present names for `name`; none if it is no old name."""
        if name in self.exact:
            return self.exact[name]
        for pattern, values in self.patterns.items():
            part = _matched(pattern, name)
            if part is not None and not _is_pattern(part):
                return tuple(value.replace("*", part) for value in values)
        return ()

    def matching(self, pattern: str, tasks_of: Callable[[str], Iterable[str]]) -> list[str]:
        """Return the present names of the old names that match a pattern.

        `hendrycksTest-*` is every subject: a key that is a pattern has one old name for each task of a group, namely
        the group whose old name is the key's beginning (`hendrycksTest`: mmlu). `tasks_of` returns a group's tasks.
        """
        found = [values[0] for old, values in self.exact.items() if fnmatchcase(old, pattern) and "|" not in old]
        for old, values in self.patterns.items():
            start, given = old.partition("*")[0], pattern.partition("*")[0]
            if not (start.startswith(given) or given.startswith(start)):
                continue  # saves reading the group's files
            for group in self.exact.get(start.rstrip("-_"), ()):
                parts = ((name, _matched(values[0], name)) for name in tasks_of(group))
                found += [name for name, part in parts if part and fnmatchcase(old.replace("*", part), pattern)]
        return list(dict.fromkeys(found))


@lru_cache(maxsize=1)
def known_aliases() -> Aliases:
    """Return the library's aliases.

    Raises: DataError for a malformed entry.
    """
    exact: dict[str, tuple[str, ...]] = {}
    patterns: dict[str, tuple[str, ...]] = {}
    for old, new in parse_yaml(FILE).items():
        values = (new,) if isinstance(new, str) else tuple(new or ())
        if not values or not all(isinstance(value, str) for value in values):
            raise DataError(f"{FILE}: '{old}' stands for {new!r}; expected a name or a list of names")
        (patterns if "*" in old else exact)[old] = values
    return Aliases(exact, patterns)


def why_elsewhere(name: str) -> str | None:
    """Return what a benchmark needs that neither our library nor lm-eval has; None for an unknown name."""
    return _elsewhere().get(_plain(name))


@lru_cache(maxsize=1)
def _elsewhere() -> Mapping[str, str]:
    return {str(name): str(why) for name, why in parse_yaml(ELSEWHERE).items()}


def longer_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that begin or end with a short name: `mgsm` -> `mgsm_direct`, ...; the shortest first."""
    plain = _plain(name)
    wanted = {plain, plain.replace("_", "")}
    found = {
        each
        for each in known
        if any(_plain(each).startswith(f"{one}_") or _plain(each).endswith(f"_{one}") for one in wanted)
    }
    return sorted(found, key=lambda each: (not _plain(each).startswith(tuple(wanted)), len(each), each))


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def framed(name: str) -> tuple[str, int] | None:
    """Return task and shots of a name like `harness|hellaswag|10`; None for any other name."""
    match = _FRAMED.fullmatch(name)
    return (match["task"], int(match["shots"])) if match else None


def spelled_alike(name: str) -> list[str]:
    """Return other spellings to try: dashes for underscores, and either in lower case."""
    swapped = name.replace("-", "_")
    return [spelling for spelling in dict.fromkeys((swapped, swapped.lower(), name.lower())) if spelling != name]


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _matched(pattern: str, name: str) -> str | None:
    """Return the part of a name that the `*` of a pattern matches; None if it does not match."""
    start, _, end = pattern.partition("*")
    if len(name) < len(start) + len(end) or not name.startswith(start) or not name.endswith(end):
        return None
    return name[len(start) : len(name) - len(end)]
