"""Estimate the worst-case time of `re` for a pattern and a text, from the pattern alone.

`re` tries one path through a pattern after another. The number of paths is at most the product over its choices: n for
a repeat that may match anything from nothing to the whole text, the number of branches of an alternative, n for the
position where a match may begin. A repeat whose body has choices of its own has n ** n paths, or infinitely many: such
patterns are "unbounded", as is anything not recognised here.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = ["Cost", "cost_of"]

_parser: Any = re._parser  # type: ignore[attr-defined] # noqa: SLF001 - the public name, sre_parse, is deprecated
FREE = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "RANGE", "CATEGORY", "NEGATE", "FAILURE"})
LARGE = 1e9


@dataclass(frozen=True, slots=True)
class Cost:
    """The number of paths through a pattern: at most `ways` * n ** `power`. If unbounded, the power is infinite."""

    ways: float = 1.0
    power: float = 0.0

    def times(self, other: "Cost") -> "Cost":
        """Return the cost of one part after another."""
        return Cost(min(self.ways * other.ways, LARGE), self.power + other.power)

    def plus(self, other: "Cost") -> "Cost":
        """Return the cost of one part or another."""
        return Cost(min(self.ways + other.ways, LARGE), max(self.power, other.power))

    def steps(self, n_characters: int) -> float:
        """Return the worst-case number of steps of searching a text."""
        n = float(n_characters + 1)
        exponent = self.power + 1
        return float("inf") if exponent > 8 else self.ways * n**exponent


ONE, UNBOUNDED = Cost(), Cost(LARGE, float("inf"))


@lru_cache(maxsize=4096)
def cost_of(pattern: str, flags: int = 0) -> Cost:
    """Return the cost of a pattern that compiles."""
    return _of_all(_parser.parse(pattern, flags))


def _of_all(parts: Iterable[Any]) -> Cost:
    cost = ONE
    for operator, argument in parts:
        cost = cost.times(_of(str(operator), argument))
    return cost


def _of(name: str, argument: Any) -> Cost:
    """Return the cost of one part of a parsed pattern."""
    if name in FREE:
        return ONE
    if name == "SUBPATTERN":
        return _of_all(argument[3])
    if name == "BRANCH":
        branches = [_of_all(branch) for branch in argument[1]]
        total = branches[0]
        for branch in branches[1:]:
            total = total.plus(branch)
        return total
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _of_repeat(*argument)
    if name in ("ASSERT", "ASSERT_NOT"):
        return _of_all(argument[1])
    if name == "ATOMIC_GROUP":
        return _of_all(argument)
    return Cost(1.0, 1.0) if name in ("GROUPREF", "GROUPREF_IGNORE") else UNBOUNDED


def _of_repeat(least: int, most: int, body: Any) -> Cost:
    inner = _of_all(body)
    if most == least == 1 or (most <= 1 and inner == ONE):
        return Cost(float(most - least + 1), 0.0)
    if most == _parser.MAXREPEAT:
        return Cost(1.0, 1.0) if inner == ONE else UNBOUNDED
    if inner == ONE:
        return Cost(float(most - least + 1), 0.0)
    if most > 4:
        return UNBOUNDED
    cost = Cost(float(most - least + 1), 0.0)
    for _ in range(most):
        cost = cost.times(inner)
    return cost
