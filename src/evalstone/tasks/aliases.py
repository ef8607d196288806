"""Names that tasks had in earlier versions of lm-evaluation-harness, so that old command lines run as typed.

The names are data (`library/aliases.yaml`); here is only how they are read. A key may be a pattern whose `*` stands in
its value too. `harness|hellaswag|10`, the form of published results files, is a task with its number of shots.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from evalstone.errors import DataError
from evalstone.tasks.yaml_files import parse_yaml

FILE = Path(__file__).resolve().parents[1] / "library" / "aliases.yaml"
_FRAMED = re.compile(r"(?:harness|leaderboard|lighteval|original)\|(?P<task>[^|]+)\|(?P<shots>\d+)(?:\|\d+)?")


@dataclass(frozen=True, slots=True)
class Aliases:
    """Old names and what they are called now."""

    exact: Mapping[str, tuple[str, ...]]
    patterns: Mapping[str, tuple[str, ...]]

    def meaning(self, name: str) -> tuple[str, ...]:
        """Return the names that `name` stands for now; none if it is no old name."""
        if name in self.exact:
            return self.exact[name]
        for pattern, values in self.patterns.items():
            part = _matched(pattern, name)
            if part is not None and not _is_pattern(part):
                return tuple(value.replace("*", part) for value in values)
        return ()

    def matching(self, pattern: str, tasks_of: Callable[[str], Iterable[str]]) -> list[str]:
        """Return what the old names that match a pattern stand for.

        `hendrycksTest-*` is every subject: a key that is a pattern has one old name for each task of the group that
        its beginning is an old name of (`hendrycksTest`: mmlu). `tasks_of` gives a group's tasks.
        """
        found = [values[0] for old, values in self.exact.items() if fnmatchcase(old, pattern) and "|" not in old]
        for old, values in self.patterns.items():
            start, asked = old.partition("*")[0], pattern.partition("*")[0]
            if not (start.startswith(asked) or asked.startswith(start)):
                continue  # saves reading the group's files
            for group in self.exact.get(start.rstrip("-_"), ()):
                parts = ((name, _matched(values[0], name)) for name in tasks_of(group))
                found += [name for name, part in parts if part and fnmatchcase(old.replace("*", part), pattern)]
        return list(dict.fromkeys(found))


@lru_cache(maxsize=1)
def known_aliases() -> Aliases:
    """Return what the library's file says."""
    exact: dict[str, tuple[str, ...]] = {}
    patterns: dict[str, tuple[str, ...]] = {}
    for old, new in parse_yaml(FILE).items():
        values = (new,) if isinstance(new, str) else tuple(new or ())
        if not values or not all(isinstance(value, str) for value in values):
            raise DataError(f"{FILE}: '{old}' stands for {new!r}; expected a name or a list of names")
        (patterns if "*" in old else exact)[old] = values
    return Aliases(exact, patterns)


def framed(name: str) -> tuple[str, int] | None:
    """Return task and shots of `harness|hellaswag|10`; None if the name is not of that form."""
    match = _FRAMED.fullmatch(name)
    return (match["task"], int(match["shots"])) if match else None


def spelled_alike(name: str) -> list[str]:
    """Return other spellings to try: dashes for underscores, and either in lower case."""
    swapped = name.replace("-", "_")
    return [spelling for spelling in dict.fromkeys((swapped, swapped.lower(), name.lower())) if spelling != name]


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _matched(pattern: str, name: str) -> str | None:
    """Return what the `*` of a pattern stands for in a name; None if it does not match."""
    start, _, end = pattern.partition("*")
    if len(name) < len(start) + len(end) or not name.startswith(start) or not name.endswith(end):
        return None
    return name[len(start) : len(name) - len(end)]
