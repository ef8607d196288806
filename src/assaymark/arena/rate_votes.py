"""Ratings of models from a file of votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.arena.ratings import INITIAL, ArenaRatings, RatingSettings, rate
from assaymark.arena.vote_files import read_votes
from assaymark.arena.votes import Votes
from assaymark.errors import UsageError
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields, json_of

if TYPE_CHECKING:
    from assaymark.documents.document import Document


@dataclass(frozen=True, slots=True, eq=False)
class RatedVotes:
    """The votes of a file and the ratings computed from them."""

    votes: Votes
    ratings: ArenaRatings

    def document(self) -> "Document":
        """Return the ratings, the highest first, the models without a rating, and notes on the method."""
        from assaymark.arena.rating_documents import ratings_document

        return ratings_document(self.ratings, self.votes)

    def to_json(self) -> dict[str, JsonValue]:
        """Return votes and ratings with stable names; undefined numbers are None."""
        from assaymark.arena.rating_documents import basis, warnings

        votes = self.votes
        return {
            **json_fields(self.ratings),
            "warnings": json_of(warnings(self.ratings, votes)),
            "basis": basis(self.ratings, votes),
            "file": {
                "columns": json_fields(votes.columns),
                "n_rows": votes.n_rows,
                "n_repeated": votes.n_repeated,
                "left_out": dict(votes.left_out),
            },
        }

    def to_csv(self) -> str:
        """Return the rated models as CSV."""
        from assaymark.arena.rating_documents import ratings_csv

        return ratings_csv(self.ratings)

    def to_markdown(self) -> str:
        """Return the table and its notes as Markdown."""
        from assaymark.documents.markdown import markdown_text

        return markdown_text(self.document().blocks)


def rate_votes(
    file: str | Path,
    settings: RatingSettings | None = None,
    *,
    language: str | None = None,
    anchor: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> RatedVotes:
    """Rate the models of a file of votes.

    Args:
        file: CSV, JSON lines, JSON or Parquet file with the columns model_a, model_b, winner, and optional ones.
        settings: clusters, control variables and intervals.
        language: use only votes in this language.
        anchor: a model and its rating as `MODEL=1000`; overrides the anchor of `settings`.
        columns: `model_a`, `model_b`, `winner`, `prompt`, `judge` or `language` -> column, if it is not recognised.

    Raises: as `read_votes` and `rate`; UsageError for an anchor that is not such a pair, or a confidence out of range.
    """
    chosen = settings or RatingSettings()
    if anchor is not None:
        chosen = replace(chosen, anchor=anchor_of(anchor))
    if not 0.0 < chosen.confidence < 1.0:
        raise UsageError(f"the confidence is {chosen.confidence:g}; expected a share above 0 and below 1, such as 0.95")
    votes = read_votes(Path(file), language=language, style=chosen.style, columns=columns)
    return RatedVotes(votes, rate(votes, chosen))


def anchor_of(text: str) -> tuple[str, float]:
    """Return the model and the rating of `MODEL=1000`; a model without a rating gets 1000.

    Raises: UsageError for a rating that is not a number.
    """
    name, equals, rating = text.rpartition("=")
    if not equals:
        return text, INITIAL
    try:
        value = float(rating)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise UsageError(f"the anchor is '{text}'; expected a model and its rating, such as MODEL=1000")
    return name, value


def columns_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the mapping field -> column of texts such as `model_a=first,model_b=second`.

    Raises: UsageError for a text that is not such a list.
    """
    columns = {}
    for pair in (pair for text in texts for pair in text.split(",") if pair.strip()):
        name, equals, column = pair.partition("=")
        if not equals or not column:
            raise UsageError(f"--columns has '{pair}'; expected model_a=COLUMN,model_b=COLUMN,winner=COLUMN")
        columns[name.strip()] = column.strip()
    return columns
