"""Votes between two models' answers, with their labels and styles.

Votes of the log in the format of published votes, which `assaymark arena rate` reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assaymark.arena.arena_rows import VoteRow
from assaymark.datasets.vote_columns import VoteColumns
from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.battles import Battles

WINNERS = {"a": "model_a", "b": "model_b", "tie": "tie", "both_bad": "tie (bothbad)"}


def published_row(
    vote: VoteRow,
    texts: Mapping[str, str] | None = None,
    groups: Mapping[str, str] | None = None,
    languages: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Return a vote as a row with model_a, model_b, winner, judge and the fields that the chain covers.

    Args:
        groups: the first of its near-duplicates by prompt id; with them, prompt_group is in the row.
        languages: of prompts by commitment; with them, language is in the row, None where it is not known.
        texts: by commitment; with them, prompt, response_a and response_b are in the row where they are not erased.
    """
    row = {
        "model_a": vote.model_a, "model_b": vote.model_b, "winner": WINNERS[vote.choice], "judge": vote.voter,
        "anony": vote.mode == "anonymous", "tstamp": vote.cast_at,
    } | asdict(vote)  # fmt: skip
    if groups is not None:
        row["prompt_group"] = groups.get(vote.prompt_id, vote.prompt_id)
    if languages is not None:
        row["language"] = languages.get(vote.prompt_commitment)
    if texts is not None:
        row["prompt"] = texts.get(vote.prompt_commitment)
        row["response_a"] = texts.get(vote.answer_a_commitment)
        row["response_b"] = texts.get(vote.answer_b_commitment)
    return row


By = Literal["prompt", "judge", "vote"]

ORDER: tuple[By, ...] = ("prompt", "judge", "vote")
"""Possible clusterings of votes; the default is the first one that a file has."""


Over = Literal["category", "language", "time"]

"""What votes can be divided by, for a rating of each part."""


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The usable votes of a file, and the numbers of excluded rows.

    Shapes: labels have one value per vote; styles [votes, 2], side A and side B.
    """

    models: tuple[str, ...]
    battles: Battles
    labels: Mapping[By, NDArray[np.generic]]  # prompt, judge: equal for dependent votes
    styles: Mapping[str, Floats]  # empty unless requested
    columns: VoteColumns
    n_rows: int
    n_repeated: int | None  # rows equal to an earlier one; None: not known without prompt and judge
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> rows
    parts: Mapping[Over, NDArray[np.object_]] = field(default_factory=dict)  # name per vote; "": not known
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # of the file, from 1, per vote

    def groupings(self) -> dict[By, NDArray[np.generic]]:
        """Return a label per vote for each clustering that the file allows."""
        every = {**self.labels, "vote": np.arange(len(self.battles))}
        return {name: every[name] for name in ORDER if name in every}

    def with_style(self) -> "Votes":
        """Return the votes whose answers' style is known.

        Raises: UsageError if the file has no style.
        """
        known = [~np.isnan(values).any(axis=1) for values in self.styles.values()]
        if not known:
            raise UsageError(
                "the file has no style of the answers; expected columns such as tokens_a and tokens_b "
                "(headers_a, lists_a, bold_a), conv_metadata, or the answers as response_a and response_b"
            )
        used = np.logical_and.reduce(known)
        if not used.any():
            raise UsageError(f"no vote has all of {', '.join(self.styles)}, so none can be controlled for style")
        battles = self.battles
        chosen = Battles(battles.first[used], battles.second[used], battles.outcome[used], battles.n_models)
        return self.chosen(used, chosen, self.models)

    def chosen(self, used: NDArray[np.bool_], battles: Battles, models: Sequence[str]) -> "Votes":
        """Return the votes of the mask `used`, with their battles between these models."""
        labels = {name: values[used] for name, values in self.labels.items()}
        styles = {name: values[used] for name, values in self.styles.items()}
        parts = {name: values[used] for name, values in self.parts.items()}
        rows = self.rows[used]
        return replace(
            self, models=tuple(models), battles=battles, labels=labels, styles=styles, parts=parts, rows=rows
        )
