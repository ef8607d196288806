"""Covariates of a rating: the side of an answer, and the difference in style between the two answers."""

from dataclasses import dataclass

import numpy as np

from assaymark.arena.votes import Votes
from assaymark.statistics.arrays import Floats

__all__ = ["Covariates", "covariates_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Covariates:
    """Columns for `fit_bradley_terry`. Shapes: columns [votes, names]; None without any."""

    names: tuple[str, ...]
    columns: Floats | None
    constant: tuple[str, ...]  # styles in which no two answers differ, which have no column


def covariates_of(votes: Votes, *, style: bool, side: bool) -> Covariates:
    """Return the differences (a - b) / (a + b + 1) of each style in standard deviations, and ones for side A.

    They are not centred: swapping the sides of a battle changes the sign of all its covariates, so that ratings do not
    depend on the assignment of sides.

    Source: style control of Chatbot Arena 2024 (FastChat's normalisation, which also centres).
    """
    columns: dict[str, Floats] = {"side A": np.ones(len(votes.battles))} if side else {}
    constant: list[str] = []
    for name, values in votes.styles.items() if style else ():
        difference = (values[:, 0] - values[:, 1]) / (values.sum(axis=1) + 1.0)
        spread = float(np.sqrt((difference**2).mean()))
        if spread > 0:
            columns[name] = difference / spread
        else:
            constant.append(name)
    table = np.column_stack(list(columns.values())) if columns else None
    return Covariates(tuple(columns), table, tuple(constant))
