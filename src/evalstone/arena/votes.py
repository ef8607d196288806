"""Votes between two models' answers, with what is known of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalstone.arena.vote_columns import VoteColumns
from evalstone.errors import UsageError
from evalstone.statistics.arrays import Floats
from evalstone.statistics.battles import Battles

__all__ = ["ORDER", "By", "Votes"]

By = Literal["prompt", "judge", "vote"]

ORDER: tuple[By, ...] = ("prompt", "judge", "vote")
"""What votes are taken to go together by: the first of these that a file tells of."""


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The usable votes of a file, and what was left out of it.

    Shapes: labels and styles hold one value per vote; styles [votes, 2], side A and side B.
    """

    models: tuple[str, ...]
    battles: Battles
    labels: Mapping[By, NDArray[Any]]  # prompt, judge: which votes belong together
    styles: Mapping[str, Floats]  # empty where they were not asked for
    columns: VoteColumns
    n_rows: int
    n_repeated: int | None  # rows that say again what an earlier one says; None: the file cannot tell
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> rows

    def groupings(self) -> dict[By, NDArray[Any]]:
        """Return a label per vote for each thing by which votes may go together, as far as the file tells."""
        every = {**self.labels, "vote": np.arange(len(self.battles))}
        return {name: every[name] for name in ORDER if name in every}

    def with_style(self) -> "Votes":
        """Return the votes whose answers' style is known.

        Raises: UsageError where the file tells of no style.
        """
        known = [~np.isnan(values).any(axis=1) for values in self.styles.values()]
        if not known:
            raise UsageError(
                "the file tells nothing of the answers' style; expected columns such as tokens_a and tokens_b "
                "(headers_a, lists_a, bold_a), conv_metadata, or the answers as response_a and response_b"
            )
        kept = np.logical_and.reduce(known)
        if not kept.any():
            raise UsageError(f"no vote tells of all of {', '.join(self.styles)}, so none can be controlled for style")
        battles = self.battles
        chosen = Battles(battles.first[kept], battles.second[kept], battles.outcome[kept], battles.n_models)
        return self.chosen(kept, chosen, self.models)

    def chosen(self, kept: NDArray[np.bool_], battles: Battles, models: Sequence[str]) -> "Votes":
        """Return some of the votes, whose battles number these models."""
        labels = {name: values[kept] for name, values in self.labels.items()}
        styles = {name: values[kept] for name, values in self.styles.items()}
        return replace(self, models=tuple(models), battles=battles, labels=labels, styles=styles)
