"""Capabilities and the benchmarks that measure them, from `capabilities.yaml` and the domains on task cards.

A task's card names the domain that it measures. The YAML file maps domains to the capabilities that a reader asks for,
and adds tasks without a card, and the arena categories whose votes count. Columns of published tables have only a title
and are mapped to a task.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import TypedDict

from assaymark.leaderboard.about import task_card
from assaymark.leaderboard.board import slug
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records.json_values import dataclass_of

FILE = Path(__file__).with_name("capabilities.yaml")


@dataclass(frozen=True, slots=True)
class Capability:
    """Something a model may be good at."""

    key: str
    title: str
    other_names: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()  # of task cards
    tasks: tuple[str, ...] = ()  # names and patterns of tasks without a card
    suggested: str = ""  # task to evaluate where there is no evidence
    evaluate: tuple[str, ...] = ()  # tasks to evaluate in its place
    votes: tuple[str, ...] = ()  # categories of an arena's prompts in which votes count as evidence
    advice: str = ""  # which benchmark to use when


class _Content(TypedDict):
    capabilities: Mapping[str, Mapping[str, str | list[str]]]
    named_languages: Mapping[str, list[str]]  # key of a capability -> languages that are asked for
    columns: Mapping[str, str]  # the title of a table's column, as a slug -> task


@cache
def _content() -> _Content:
    content: _Content = load_yaml(FILE.read_bytes())
    return content


@cache
def capabilities() -> Mapping[str, Capability]:
    """Return all capabilities by key, in the order in which pages list them."""
    return {
        key: dataclass_of(Capability, {"key": key} | {name: _unchanging(value) for name, value in entry.items()})
        for key, entry in _content()["capabilities"].items()
    }


def _unchanging(value: str | list[str]) -> str | tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else value


def find_capability(name: str) -> Capability | None:
    """Return a capability by its key, its title or another of its names, whatever the case; None if none matches."""
    return names().get(" ".join(name.lower().split()))


def capability_of_language(name: str) -> Capability | None:
    """Return the capability for a language, as in `german`, `rust` and `coding in rust`; None for other words."""
    wish, joined, language = " ".join(name.lower().split()).rpartition(" in ")
    for key, listed in _content()["named_languages"].items():
        if language in listed and (not joined or find_capability(wish) is capabilities()[key]):
            return capabilities()[key]
    return None


@cache
def names() -> Mapping[str, Capability]:
    """Return every name of every capability, in lower case."""
    return {
        name.lower(): capability
        for capability in capabilities().values()
        for name in (capability.key, capability.title, *capability.other_names)
    }


@lru_cache(maxsize=10_000)
def capabilities_of_task(task: str) -> tuple[str, ...]:
    """Return the keys of the capabilities that a task or group measures; empty where nothing states it."""
    domain = task_card(task).get("domain")
    return tuple(
        capability.key
        for capability in capabilities().values()
        if domain in capability.domains or any(fnmatchcase(task, pattern) for pattern in capability.tasks)
    )


def measured_task(column: ScoreColumn) -> str:
    """Return the task that a board's column reports: the one that it names, else one by its title; or empty."""
    if len(column.tasks) == 1:
        return column.tasks[0]
    return _content()["columns"].get(slug(column.title), "")
