"""Aliases: names that tasks had in earlier versions of lm-evaluation-harness, so that old command lines still work.

The names are data (`library/aliases.yaml`). A key may be a pattern whose `*` is used in its value too.
`harness|hellaswag|10`, as in published results files, is a task with its number of shots.

In the files of the first Open LLM Leaderboard a task's name ends in its number of shots and a metric has no filter:
`harness|truthfulqa:mc|0` with `mc2`. Two tasks that lm-eval has changed since are asked here in the leaderboard's own
way, under names of their own. Source: https://huggingface.co/datasets/open-llm-leaderboard-old/results (2023 and 2024)
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from assaymark.errors import DataError
from assaymark.tasks.yaml_files import parse_yaml

GROUP_SIZES = {"mmlu": 57}  # tasks of a group that is one column; fewer are not the group
_RENAMED = {  # task and metric there: task, metric and filter here
    ("truthfulqa:mc", "mc1"): ("truthfulqa_mc1", "acc", "none"),
    ("truthfulqa:mc", "mc2"): ("truthfulqa_mc2_2023", "acc", "none"),
    ("gsm8k", "acc"): ("gsm8k_2023", "exact_match", "strict-match"),
}
_MMLU, _OWN_MMLU = "hendrycksTest-", "mmlu_"


@dataclass(frozen=True, slots=True)
class PresentName:
    """The name used here for a number of a results file. group: the group that its task belongs to, if any."""

    task: str
    metric: str
    filter: str = "none"
    group: str | None = None


def present_name(task: str, metric: str) -> PresentName | None:
    """Return the names here of `harness|arc:challenge|25` with `acc_norm`; None for a task without such a frame."""
    old = framed(task)
    if old is None:
        return None
    if (old[0], metric) in _RENAMED:
        return PresentName(*_RENAMED[old[0], metric])
    own, _, name_of_filter = metric.partition(",")
    if old[0].startswith(_MMLU):
        return PresentName(_OWN_MMLU + old[0].removeprefix(_MMLU), own, name_of_filter or "none", "mmlu")
    known = known_aliases().meaning(old[0])
    return PresentName(known[0] if len(known) == 1 else old[0], own, name_of_filter or "none")


FILE = Path(__file__).resolve().parents[1] / "library" / "aliases.yaml"
ELSEWHERE = FILE.with_name("elsewhere.yaml")
_FRAMED = re.compile(r"(?:harness|leaderboard|lighteval|original)\|(?P<task>[^|]+)\|(?P<shots>\d+)(?:\|\d+)?")


@dataclass(frozen=True, slots=True)
class Aliases:
    """Old names and their present names."""

    exact: Mapping[str, tuple[str, ...]]
    patterns: Mapping[str, tuple[str, ...]]

    def meaning(self, name: str) -> tuple[str, ...]:
        """Return the present names for `name`; none if it is not an old name."""
        if name in self.exact:
            return self.exact[name]
        for pattern, values in self.patterns.items():
            part = _matched(pattern, name)
            if part is not None and not any(sign in part for sign in "*?["):
                return tuple(value.replace("*", part) for value in values)
        return ()

    def matching(self, pattern: str, tasks_of: Callable[[str], Iterable[str]]) -> list[str]:
        """Return the present names of the old names that match a pattern.

        `hendrycksTest-*` is every subject: a key that is a pattern has one old name for each task of a group, namely
        the group whose old name is the key's beginning (`hendrycksTest`: mmlu). `tasks_of` returns a group's tasks.
        """
        names = [values[0] for old, values in self.exact.items() if fnmatchcase(old, pattern) and "|" not in old]
        for old, values in self.patterns.items():
            start, prefix = old.partition("*")[0], pattern.partition("*")[0]
            if not (start.startswith(prefix) or prefix.startswith(start)):
                continue  # saves reading the group's files
            for group in self.exact.get(start.rstrip("-_"), ()):
                parts = ((name, _matched(values[0], name)) for name in tasks_of(group))
                names += [name for name, part in parts if part and fnmatchcase(old.replace("*", part), pattern)]
        return list(dict.fromkeys(names))


@lru_cache(maxsize=1)
def known_aliases() -> Aliases:
    """Return the library's aliases.

    Raises: DataError for a malformed entry.
    """
    exact: dict[str, tuple[str, ...]] = {}
    patterns: dict[str, tuple[str, ...]] = {}
    for old, new in parse_yaml(FILE).items():
        values = (new,) if isinstance(new, str) else tuple(new) if isinstance(new, list) else ()
        if not values or not all(isinstance(value, str) for value in values):
            raise DataError(f"{FILE}: '{old}' stands for {new!r}; expected a name or a list of names")
        (patterns if "*" in old else exact)[old] = values
    return Aliases(exact, patterns)


def why_elsewhere(name: str) -> str | None:
    """Return the requirement of a benchmark that neither our library nor lm-eval has; None for an unknown name."""
    return _elsewhere().get(_plain(name))


@lru_cache(maxsize=1)
def _elsewhere() -> Mapping[str, str]:
    return {str(name): str(why) for name, why in parse_yaml(ELSEWHERE).items()}


def longer_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that begin or end with a short name: `mgsm` -> `mgsm_direct`, ...; the shortest first."""
    plain = _plain(name)
    wanted = {plain, plain.replace("_", "")}
    names = {
        each
        for each in known
        if any(_plain(each).startswith(f"{short}_") or _plain(each).endswith(f"_{short}") for short in wanted)
    }
    return sorted(names, key=lambda each: (not _plain(each).startswith(tuple(wanted)), len(each), each))


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


def _matched(pattern: str, name: str) -> str | None:
    """Return the part of a name that the `*` of a pattern matches; None if it does not match."""
    start, _, end = pattern.partition("*")
    if len(name) < len(start) + len(end) or not name.startswith(start) or not name.endswith(end):
        return None
    return name[len(start) : len(name) - len(end)]
