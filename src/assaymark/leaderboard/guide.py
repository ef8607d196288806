"""A guide to benchmarks: the capabilities, and the library's benchmarks that measure each, from their cards.

A task's card names the domain that it measures. `capabilities.yaml` maps domains to the capabilities that a reader asks
for, and adds tasks without a card, and the arena categories whose votes count. Columns of published tables have only a
title and are mapped to a task.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NotRequired, TypedDict

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.about import task_card
from assaymark.leaderboard.board import slug
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import JsonValue
from assaymark.records.json_values import dataclass_of
from assaymark.registry import nearest
from assaymark.statistics.intervals import wilson
from assaymark.tasks.catalog import LIBRARY

CARD = ".card.yaml"
DEMO = "demo"  # folder of the library
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


@dataclass(frozen=True, slots=True)
class SamplePrompt:
    """A benchmark's prompt without shots, for a row that was made up for the guide."""

    task: str  # the benchmark, or one of its tasks
    text: str
    scored: tuple[str, ...]  # the continuations whose probabilities are compared; empty where the answer is generated

    @property
    def answer(self) -> str:
        """How the prompt is used, in words."""
        if not self.scored:
            return "the model writes the answer"
        return f"scored: {' | '.join(text.strip() for text in self.scored)}"


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """The score of a known model as its source states it; another prompt, version or program gives another one."""

    model: str
    value: float  # per cent
    setting: str
    source: str


@dataclass(frozen=True, slots=True)
class GuideEntry:
    """One benchmark."""

    task: str
    title: str
    measures: str
    n_samples: int
    chance: float | str | None  # a share, a rule such as `1/choices`, or None where guessing scores nothing
    half_width: float  # of the 95% interval at 50% right, a share
    known_faults: tuple[str, ...]
    licence: str
    citation: str
    published: tuple[PublishedValue, ...]
    sample_prompt: SamplePrompt | None


@dataclass(frozen=True, slots=True)
class GuideSection:
    """One capability with the benchmarks that measure it, the suggested one first."""

    capability: Capability
    entries: tuple[GuideEntry, ...]


@cache
def guide() -> tuple[GuideSection, ...]:
    """Return all capabilities with their benchmarks."""
    cards = _cards()
    return tuple(_section(capability, cards) for capability in capabilities().values())


def guide_section(name: str) -> GuideSection:
    """Return one capability by any of its names.

    Raises: UnknownName; UsageError for the name of a benchmark.
    """
    capability = find_capability(name)
    if capability is None:
        if name in _cards():
            raise UsageError(f"'{name}' is a benchmark; `assaymark explain {name}` describes it, and `assaymark guide` "
                             "lists what benchmarks measure")  # fmt: skip
        raise UnknownName(
            "capability or word",
            name[:80],
            nearest(name[:80].lower(), [*names(), *words()]),
            f"known: {', '.join(capabilities())}",
        )
    return next(section for section in guide() if section.capability.key == capability.key)


@cache
def words() -> Mapping[str, str]:
    """Return the glossary for beginners."""
    meanings: Mapping[str, str] = load_yaml((files("assaymark.leaderboard") / "words.yaml").read_bytes())
    return meanings


class _People(TypedDict):
    value: NotRequired[float | None]  # a share
    source: str


class _Prompt(TypedDict):
    task: str
    text: str
    scored: NotRequired[list[str]]


class _Card(TypedDict):
    title: str
    measures: str
    domain: str
    n_samples: int
    chance: float | str | None
    human: _People | None
    known_faults: list[str]
    licence: object
    citation: str
    published: NotRequired[list[Mapping[str, JsonValue]]]
    sample_prompt: NotRequired[_Prompt]


def _cards() -> Mapping[str, _Card]:
    """Return the cards of the benchmarks; the demo's tasks measure its own two models only."""
    files = [file for file in sorted(LIBRARY.rglob(f"*{CARD}")) if DEMO not in file.parts]
    return {file.name.removesuffix(CARD): load_yaml(file.read_bytes()) for file in files}


def _section(capability: Capability, cards: Mapping[str, _Card]) -> GuideSection:
    entries = [_entry(task, card) for task, card in cards.items() if card["domain"] in capability.domains]
    entries.sort(key=lambda entry: (entry.task != capability.suggested, -entry.n_samples, entry.task))
    return GuideSection(capability, tuple(entries))


def _published(card: _Card) -> Iterator[PublishedValue]:
    if (people := card["human"]) and (share := people.get("value")) is not None:
        yield PublishedValue("people", 100 * share, "", people["source"])
    yield from (dataclass_of(PublishedValue, each) for each in card.get("published", ()))


def _entry(task: str, card: _Card) -> GuideEntry:
    n = card["n_samples"]
    half = wilson(n / 2, n)
    prompt = card.get("sample_prompt")
    return GuideEntry(
        task,
        card["title"],
        card["measures"],
        n,
        card["chance"],
        (half.high - half.low) / 2,
        tuple(card["known_faults"]),
        str(card["licence"]),
        card["citation"],
        tuple(_published(card)),
        SamplePrompt(prompt["task"], prompt["text"], tuple(prompt.get("scored", ()))) if prompt else None,
    )
