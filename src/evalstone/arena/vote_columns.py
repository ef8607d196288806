"""Which column of a file of votes holds what: the names that published votes use, and what their verdicts mean."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from evalstone.datasets.rows import Rows
from evalstone.errors import DataError

__all__ = ["VoteColumns", "find_columns", "outcome_of", "verdicts_in"]

SIDES = (("model_a", "model_b"), ("left", "right"))
PROMPTS = ("prompt_id", "question_id", "prompt", "question", "instruction")
JUDGES = ("judge", "judge_id", "voter", "worker", "annotator", "user")
LANGUAGES = ("language", "lang")
ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")  # a column for each verdict, with 0 and 1
FIRST_WON = {"model_a", "a", "left"}
SECOND_WON = {"model_b", "b", "right"}
TIED = re.compile(r"tie( \(.+\))?|both_?bad")


@dataclass(frozen=True, slots=True)
class VoteColumns:
    """The columns of one file; None where it has none of the kind."""

    first: str
    second: str
    winner: str | None  # None: one column for each verdict
    prompt: str | None = None
    judge: str | None = None
    language: str | None = None

    def told(self) -> str:
        """Return in words which columns of another name were taken for what."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = {"first": "model_a", "second": "model_b"}
        read = {shown.get(what, what): column for what, column in named.items() if column}
        return ", ".join(f"{what} from '{column}'" for what, column in read.items() if what != column)


def find_columns(names: Sequence[str]) -> VoteColumns:
    """Return which columns hold what.

    Raises: DataError where there are no two models or no verdict.
    """
    sides = next((pair for pair in SIDES if set(pair) <= set(names)), None)
    if sides is None or ("winner" not in names and not set(ONE_HOT) <= set(names)):
        raise DataError(
            f"the file has columns {', '.join(names) or '(none)'}; expected model_a, model_b (or left, right) and "
            f"winner (or {', '.join(ONE_HOT)}): rename its columns"
        )
    winner = "winner" if "winner" in names else None
    return VoteColumns(*sides, winner, *(_first_of(known, names) for known in (PROMPTS, JUDGES, LANGUAGES)))


def verdicts_in(rows: Rows, columns: VoteColumns) -> list[Any]:
    """Return each row's verdict as it is written; None where there is none."""
    if columns.winner is not None:
        return rows[columns.winner]
    words = ("model_a", "model_b", "tie")
    found: list[Any] = []
    for values in zip(*(rows[name] for name in ONE_HOT), strict=True):
        marked = [word for word, value in zip(words, values, strict=True) if str(value).lower() in {"1", "1.0", "true"}]
        found.append(" and ".join(marked) or None)
    return found


def outcome_of(verdict: Any, first: str, second: str) -> float | str | None:
    """Return 1 where the first model won, 0 the second, 0.5 a tie; None without a verdict; else what was not known.

    A verdict is model_a, model_b (also a, b, left, right), the winning model's name, tie, `tie (bothbad)` or both_bad.
    """
    given = "" if verdict is None else str(verdict).strip()
    word = given.lower()
    if not word:
        return None
    if word in FIRST_WON or given == first:
        return 1.0
    if word in SECOND_WON or given == second:
        return 0.0
    return 0.5 if TIED.fullmatch(word) else given


def _first_of(known: Iterable[str], names: Sequence[str]) -> str | None:
    return next((name for name in known if name in names), None)
