"""What a search means, as frozen data: any of several groups of terms, each of which must hold.

Made by `query` from text and carried out by `index` on a table; the same condition can be turned into SQL.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["EVERYTHING", "NAME", "Condition", "Operator", "Term"]

Operator = Literal["contains", "begins", "is", "<", "<=", ">", ">=", "within"]
NAME = "model"  # the key of a model's name


@dataclass(frozen=True, slots=True)
class Term:
    """One demand on a row.

    `contains` looks for text anywhere (names), `begins` at the start of a word (`apache` finds `apache-2.0`), `is`
    compares whole values, `within` takes low <= value <= high. A row without the value fulfils no term; so it fulfils
    each negated one.
    """

    key: str  # NAME, a column's key, or `average`
    operator: Operator
    value: str | float | bool | tuple[float, float]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A row fulfils it if it fulfils every term of at least one group; without groups every row does."""

    groups: tuple[tuple[Term, ...], ...] = ()


EVERYTHING = Condition()
