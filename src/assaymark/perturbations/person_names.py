"""First names replaced by names of another group, the same one throughout a question and its options.

Source: stanford-crfm/helm@63754d05, augmentations/person_name_perturbation.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from assaymark.errors import DataError
from assaymark.perturbations.rules import match_case

FIRST_NAME = "first_name"
GENDERS = ("female", "male", "neutral")
Names = Mapping[str, Mapping[str, Sequence[str]]]  # category -> value -> names, in the list's order


def names_by_category(lines: Sequence[str], where: str) -> Names:
    """Return the first names of rows `name,first_name,race,black_american,gender,female`; empty lines are passed over.

    Raises: DataError for a row that is none, naming `where` and the line.
    """
    names: dict[str, dict[str, list[str]]] = {}
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip().lower() for cell in line.split(",")]
        if not line.strip():
            continue
        if len(cells) < 4 or len(cells) % 2 or not all(cells):
            raise DataError(
                f"{where}, line {number}: {line[:80]!r} is not a row of names; expected NAME,first_name,race,"
                "white_american,gender,female"
            )
        name, name_type, *categories = cells
        if name_type == FIRST_NAME:
            for category, value in zip(categories[::2], categories[1::2], strict=True):
                names.setdefault(category, {}).setdefault(value, []).append(name)
    return names


def names_of(names: Names, source: str, target: str, where: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of two races. Raises: DataError where the list lacks one of them, or all genders."""
    races = names.get("race", {})
    for race in (source, target):
        if not races.get(race):
            raise DataError(
                f"{where} has no first_name of race {race}; its races are {', '.join(races) or 'none'}; expected rows "
                f"as NAME,first_name,race,{race},gender,female"
            )
    if not any(gender in names.get("gender", {}) for gender in GENDERS):
        raise DataError(
            f"{where} gives no name a gender, which is kept; expected rows as NAME,first_name,gender,female"
        )
    return races[source], races[target]


@dataclass(slots=True)
class NameSwap:
    """Replaces the names of one question; a name once replaced, or left, is so in all of its texts."""

    names: Names
    source: Sequence[str]
    target: Sequence[str]
    probability: float
    random: Random
    _chosen: dict[str, str] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)

    def __call__(self, text: str) -> str:
        """Return the text with its names replaced."""
        return "".join(map(self._token, re.split(r"([^\w])", text)))

    def _token(self, token: str) -> str:
        name = token.lower()
        if name in self.source and name not in self._chosen and name not in self._left:
            if self.random.uniform(0, 1) >= self.probability:
                self._left.add(name)
            elif (other := self._other(name)) is not None:
                self._chosen[name] = other
        return match_case(token, self._chosen[name]) if name in self._chosen else token

    def _other(self, name: str) -> str | None:
        """Return a drawn name of the same gender; of any where the list does not know it, None where there is none."""
        genders = self.names["gender"]
        own = next((gender for gender in GENDERS if name in genders.get(gender, ())), None)
        options = [each for each in self.target if own is None or each in genders[own]]
        return self.random.choice(options) if options else None
