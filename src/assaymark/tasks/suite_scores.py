"""Compute a suite's scores: members are normalised and averaged into columns, columns into the composite.

Only this module applies a suite's rules: for a run's composite, a leaderboard's column, and published tables that are
checked. `statistics.board_scores` computes the arithmetic and the standard errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.errors import DataError
from assaymark.statistics.board_scores import Part, average, clipped, clipped_interval, geometric, interval_of, rescaled
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.tasks.suites import Member, Suite


@dataclass(frozen=True, slots=True, eq=False)
class MemberScore:
    """One member's score, before normalisation."""

    part: Part
    chance: float | None = None  # the score of random guessing; where the suite defines it per sample, the mean
    corrected: Part | None = None  # normalised sample by sample, where chance is defined per sample


@dataclass(frozen=True, slots=True, eq=False)
class SuiteScore:
    """A composite with its columns."""

    value: IntervalEstimate | None  # None: undefined, see `why`
    columns: tuple[tuple[str, IntervalEstimate], ...]  # only those that have all their members
    chance: float | None = None
    unclipped: IntervalEstimate | None = None  # where the suite clips
    why: str | None = None


def score_suite(suite: Suite, members: Sequence[MemberScore | None], confidence: float = 0.95) -> SuiteScore:
    """Return the composite and the columns of a suite from its members' scores, in the suite's order.

    None is a missing member, which makes its column and the composite undefined.
    """
    plain = column_parts(suite, members, clip=False)
    board_columns = column_parts(suite, members, clip=suite.clip)
    columns = tuple(
        (name, _interval(suite, board_columns[name], plain[name], "column", confidence)) for name in board_columns
    )
    holes = [m.task for m, score in zip(suite.members, members, strict=True) if score is None]
    if holes:
        return SuiteScore(None, columns, why=f"no score of {', '.join(holes)}")
    if suite.aggregate == "winrate":
        return SuiteScore(None, columns, why="a win rate is among several runs: assaymark compare RUN RUN")
    whole, bare = combine_columns(suite, board_columns), combine_columns(suite, plain)
    if whole is None:
        return SuiteScore(None, columns, why="a geometric mean needs columns that are not negative")
    unclipped = interval_of(bare, "composite", confidence) if suite.clip and bare is not None else None
    value = _interval(suite, whole, bare, "composite", confidence)
    return SuiteScore(value, columns, _chance(suite, members), unclipped)


def column_parts(suite: Suite, members: Sequence[MemberScore | None], *, clip: bool) -> dict[str, Part]:
    """Return the columns that have all their members: members are normalised (and clipped), then averaged."""
    if len(members) != len(suite.members):
        raise DataError(f"suite {suite.name} has {len(suite.members)} members; {len(members)} scores were given")
    by_column: dict[str, Part] = {}
    for column in suite.columns:
        own = [(m, score) for m, score in zip(suite.members, members, strict=True) if m.column == column]
        parts = [_normalised(suite, member, score, clip=clip) for member, score in own if score is not None]
        if len(parts) == len(own):
            by_column[column] = average(parts, [member.weight for member, _ in own])
    return by_column


def combine_columns(suite: Suite, columns: Mapping[str, Part]) -> Part | None:
    """Return the composite of columns; None for a geometric mean of negative ones.

    Raises: DataError for a missing column, or a suite of win rates.
    """
    absent = [name for name in suite.columns if name not in columns]
    if absent or suite.aggregate == "winrate":
        reason = f"the columns {', '.join(absent)} are missing" if absent else "a win rate is among several models"
        raise DataError(f"suite {suite.name} has no composite here: {reason}")
    parts, weights = [columns[name] for name in suite.columns], [suite.weight_of(name) for name in suite.columns]
    return geometric(parts, weights) if suite.aggregate == "geometric" else average(parts, weights)


def _normalised(suite: Suite, member: Member, score: MemberScore, *, clip: bool) -> Part:
    part = score.part
    if suite.normalise == "minmax":
        part = rescaled(part, *member.range)
    elif suite.normalise == "chance":
        if score.corrected is None and score.chance is None:
            raise DataError(f"suite {suite.name}: the chance score of {member.task} is not known; give it a `chance`")
        part = score.corrected if score.corrected is not None else rescaled(part, score.chance or 0.0)
    return clipped(part) if clip else part


def _interval(suite: Suite, part: Part, unclipped: Part | None, name: str, confidence: float) -> IntervalEstimate:
    if suite.clip and unclipped is not None:
        return clipped_interval(part, unclipped, name, confidence)
    logarithmic = suite.aggregate == "geometric" and name == "composite" and part.value > 0
    return interval_of(part, name, confidence, logarithmic=logarithmic)


def _chance(suite: Suite, members: Sequence[MemberScore | None]) -> float | None:
    """Return the composite of random guessing; None where a member's chance is not known."""
    known = [replace(score, part=Part(score.chance), corrected=None) for score in members
             if score is not None and score.chance is not None]  # fmt: skip
    if len(known) != len(suite.members):
        return None
    whole = combine_columns(suite, column_parts(suite, known, clip=suite.clip))
    return None if whole is None else whole.value
