"""The one mechanism by which anything is added to the package: names of a kind, and the places of their objects.

A part with something to register has a module `feature` with `PLACES`: kind -> name -> place. An installed package does
the same with an entry point in the group `assaymark.<kind>` (for example `assaymark.models`). A place is
`module:attribute`; it is imported at the first use of the name, so that an installed package that needs torch slows
nothing down until it is used. The kinds:

    commands     commands of the command line (`click.Command`)
    models       kinds of `--model`: a function of a mapping of arguments that returns a `models.model.Model`
    tasks        modules whose folders have task files
    metrics      functions declared with `assaymark.metric`
    aggregations declared with `assaymark.aggregation`
    filters      classes declared with `assaymark.filter_step`
    pages        functions of an open store that return a `web.app.Feature`
    report_sections  functions of `results.report.contents.ReportContents` that return blocks, before "Method"
    exporters    by suffix: functions of (run, path) that write a run's file
    baselines    baselines computed with a run: a function of (run, model, prepared, notify)
    audits       kinds of stored audits (`runs.stored.AuditKind`)
    importers    readers of other tools' files (`interop.read_imported.Importer`)
    scorers      classes of `applications.scorer.Scorer`, or functions declared with `assaymark.scorer`
    served       what `assaymark serve` serves besides boards (`cli.extras.ServedPart`)
    targets      what `evaluate` and `run` evaluate besides models (`runs.targets.TargetKind`)
    moderation   functions that check a visitor's question in a live battle
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, NamedTuple, TypeVar, cast

from assaymark.errors import UnknownName

T = TypeVar("T")
REGISTERING = (
    *("models", "interop", "runs", "audit", "judges", "arena", "applications", "leaderboard", "swe", "hosting", "warm"),
)
"""The parts that have a module `feature`, in the order in which their names are listed."""


class Place(NamedTuple):
    """Where a registered object is. summary: what a list says of it, without importing it. section: of the list."""

    target: str  # module:attribute
    summary: str = ""
    section: str = ""


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return up to `count` of the known names that look most like `name`; case does not matter."""
    by_lower = {k.lower(): k for k in known}
    return [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=count, cutoff=0.5)]


def meant(name: str, known: Iterable[str]) -> str:
    """Return the name that a shortened one stands for, as tables show it: `anatomy` for `mmlu_anatomy`.

    That is the only known name that ends with it, after `_`, `-` or `/`; `name` itself where there is none or several.
    """
    names = list(known)
    ending = {each for each in names if each.endswith(tuple(f"{mark}{name}" for mark in "_-/"))} if name else set()
    return ending.pop() if name not in names and len(ending) == 1 else name


class Registry(Generic[T]):
    """The names of one kind, of this package and of installed ones."""

    def __init__(self, kind: str, noun: str) -> None:
        """Args: kind: as listed above; noun: of one object, for messages."""
        self.kind = kind
        self.noun = noun

    def places(self) -> Mapping[str, Place]:
        """Return name -> place, this package's first; they take precedence over those of installed packages."""
        own = _own_places(self.kind)
        installed = _installed_places(tuple(sys.path)).get(f"assaymark.{self.kind}", {})
        return {**own, **{name: place for name, place in installed.items() if name not in own}}

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, those of one part beside each other."""
        return iter(self.places())

    def __contains__(self, name: object) -> bool:
        """Return whether something is registered under a name."""
        return name in self.places()

    def names(self) -> list[str]:
        """Return every known name, sorted."""
        return sorted(self.places())

    def load(self, name: str) -> T:
        """Import and return the object registered as `name`.

        Raises: UnknownName with the nearest names.
        """
        place = _own_places(self.kind).get(name) or self.places().get(name)
        if place is None:
            raise UnknownName(self.noun, name, nearest(name, self.places()))
        module, _, attribute = place.target.partition(":")
        return cast("T", getattr(import_module(module), attribute))


@cache
def _installed_places(_path: tuple[str, ...]) -> dict[str, dict[str, Place]]:
    """Return group -> name -> place of the installed packages on Python's path; their metadata are read once."""
    points = entry_points()
    return {
        group: {
            point.name: Place(point.value, f"from the package {point.dist.name}" if point.dist else "")
            for point in points.select(group=group)
        }
        for group in points.groups
        if group.startswith("assaymark.")
    }


@cache
def _own_places(kind: str) -> dict[str, Place]:
    """Return the places of a kind that the parts of this package register."""
    places: dict[str, Place] = {}
    for part in REGISTERING:
        registered = import_module(f"assaymark.{part}.feature").PLACES.get(kind, {})
        for name, place in registered.items():
            places[name] = place if isinstance(place, Place) else Place(place)
    return places
