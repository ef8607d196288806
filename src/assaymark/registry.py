"""The only plug-in mechanism: a registry of named objects, ours and other packages'.

Ours are registered by name with their module, so that nothing is imported before it is used. Other packages add theirs
with an entry point in the group `assaymark.<kind>` (for example `assaymark.models`).
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from assaymark.errors import UnknownName

T = TypeVar("T")


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
    """The names of one kind with their locations, as `module:attribute`."""

    def __init__(self, kind: str, group: str, places: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._places = dict(places)

    def places(self) -> dict[str, str]:
        """Return name -> location, our own and those of installed packages (ours take precedence)."""
        foreign = {point.name: point.value for point in entry_points(group=self.group)}
        return {**foreign, **self._places}

    def names(self) -> list[str]:
        """Return every known name, sorted."""
        return sorted(self.places())

    def load(self, name: str) -> T:
        """Import and return the object registered as `name`.

        Raises: UnknownName with the nearest names.
        """
        places = self.places()
        if name not in places:
            raise UnknownName(self.kind, name, nearest(name, places))
        module, _, attribute = places[name].partition(":")
        return cast("T", getattr(import_module(module), attribute))
