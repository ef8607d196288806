"""What a study found: per pair of models and category the preference with its interval, and the raters' agreement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from assaymark.arena.vote_rows import WINNERS
from assaymark.errors import DataError
from assaymark.statistics.agreement import krippendorff_alpha
from assaymark.statistics.intervals import wilson
from assaymark.store.study_log import AssignmentRow

__all__ = ["PairResult", "RaterAgreement", "StudyResults", "study_results", "study_rows"]

ALL = "all"
_POINTS = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}


@dataclass(frozen=True, slots=True)
class PairResult:
    """How often the first model was preferred, ties as halves; the interval is over comparisons, not ratings."""

    first: str
    second: str
    category: str
    n_comparisons: int
    n_ratings: int
    n_ties: int
    preferred: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Agreement on comparisons with several ratings; None where it is not defined."""

    n_pairs: int  # of ratings of one comparison
    same: float | None  # share of these with the same choice
    same_decided: float | None  # share of those pairs without ties
    alpha: float | None  # Krippendorff's, nominal
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class StudyResults:
    """All results; raters who failed an attention check are left out and counted."""

    study: str
    n_raters: int
    n_finished: int
    failed_checks: tuple[str, ...]
    n_ratings: int
    n_assigned: int
    pairs: tuple[PairResult, ...]
    agreement: RaterAgreement
    answers: Mapping[str, Mapping[str, int]]  # other question -> choice -> ratings
    seconds: float | None  # median time of a rating


def study_results(plan: Mapping[str, Any], rows: Sequence[AssignmentRow], states: Mapping[str, str]) -> StudyResults:
    """Return the results of the answers so far.

    Args:
        plan: of the study.
        rows: all assignments.
        states: rater -> state.
    """
    failed = tuple(
        sorted({row.rater for row in rows if row.expected and row.answers and row.answers["better"] != row.expected})
    )
    asked = [row for row in rows if row.expected is None]
    used = [row for row in asked if row.answers is not None and row.rater not in failed]
    categories = [ALL, *dict.fromkeys(plan["items"][row.item]["category"] for row in asked)]
    pairs = [
        found
        for category in categories
        for first, second in combinations(plan["models"], 2)
        if (found := _pair(plan, used, category, (first, second))) is not None
    ]
    times = sorted(row.seconds for row in used if row.seconds is not None)
    return StudyResults(
        plan["study"], len(states), sum(state == "finished" for state in states.values()), failed,
        len(used), len(asked), tuple(pairs), _agreement(used),
        {one["id"]: _counts(one, used) for one in plan["questions"]}, times[len(times) // 2] if times else None,
    )  # fmt: skip


def _points_of_first(row: AssignmentRow, first: str) -> float:
    """Return 1 if a rating prefers the first model, 0 if the other, one half for a tie."""
    points = _POINTS[(row.answers or {})["better"]]
    return points if row.model_a == first else 1.0 - points


def _pair(
    plan: Mapping[str, Any], used: Sequence[AssignmentRow], category: str, pair: tuple[str, str]
) -> PairResult | None:
    by_item: dict[int, list[float]] = {}
    for row in used:
        if {row.model_a, row.model_b} == set(pair) and category in {ALL, plan["items"][row.item]["category"]}:
            by_item.setdefault(row.item, []).append(_points_of_first(row, pair[0]))
    if not by_item:
        return None
    means = [sum(points) / len(points) for points in by_item.values()]
    ends = wilson(sum(means), len(means))
    ratings = [point for points in by_item.values() for point in points]
    ties = sum(point == 0.5 for point in ratings)
    return PairResult(*pair, category, len(means), len(ratings), ties, sum(means) / len(means), ends.low, ends.high)


def _agreement(used: Sequence[AssignmentRow]) -> RaterAgreement:
    units: dict[tuple[int, str, str], dict[str, str]] = {}
    for row in used:
        one, other = sorted((row.model_a, row.model_b))
        points = _points_of_first(row, one)
        units.setdefault((row.item, one, other), {})[row.rater] = {1.0: "first", 0.0: "second"}.get(points, "tie")
    several = [ratings for ratings in units.values() if len(ratings) > 1]
    pairs = [pair for ratings in several for pair in combinations(ratings.values(), 2)]
    decided = [pair for pair in pairs if "tie" not in pair]
    raters = sorted({rater for ratings in several for rater in ratings})
    alpha, low, high = None, None, None
    if several:
        try:
            found = krippendorff_alpha([[unit.get(rater) for unit in several] for rater in raters])
            alpha, low, high = found.value, found.low, found.high
        except DataError:  # all ratings are equal, so chance agreement is 1
            alpha = None
    return RaterAgreement(len(pairs), _same(pairs), _same(decided), alpha, low, high)


def _same(pairs: Sequence[tuple[str, str]]) -> float | None:
    return sum(one == other for one, other in pairs) / len(pairs) if pairs else None


def _counts(question: Mapping[str, Any], used: Sequence[AssignmentRow]) -> dict[str, int]:
    return {
        choice: sum((row.answers or {}).get(question["id"]) == choice for row in used) for choice in question["choices"]
    }


def study_rows(plan: Mapping[str, Any], rows: Sequence[AssignmentRow], *, texts: bool = False) -> list[dict[str, Any]]:
    """Return the answered comparisons as rows for `assaymark arena rate`, with prompts and answers only if `texts`."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(row.rater for row in rows), start=1)}
    found = []
    for row in rows:
        if row.answers is None or row.expected is not None:
            continue
        item = plan["items"][row.item]
        other = {name: value for name, value in row.answers.items() if name != "better"}
        made = {
            "model_a": row.model_a, "model_b": row.model_b, "winner": WINNERS[row.answers["better"]],
            "prompt_id": f"{plan['study']}/{row.item}", "judge": f"rater {numbers[row.rater]}",
            "category": item["category"], "seconds": row.seconds, **other,
        }  # fmt: skip
        if texts:
            made |= {"prompt": item["prompt"], "response_a": item["answers"][row.model_a],
                     "response_b": item["answers"][row.model_b]}  # fmt: skip
        found.append(made)
    return found
