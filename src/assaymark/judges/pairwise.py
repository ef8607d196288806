"""Verdicts on pairs of answers, each pair in both orders: the winner, and the effect of the order.

A judge that always prefers the first answer would give every model a win rate of one half and look undecided. So both
orders are requested, and the share of pairs in which the verdict followed the order is printed beside each win rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assaymark.judges.single import mean_over_questions
from assaymark.judges.verdicts import Form, Verdict, swapped
from assaymark.statistics.estimate import IntervalEstimate, estimate_ratio

Kind = Literal["consistent", "first", "second", "undecided", "missing", "failed"]


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """One pair of answers, judged in both orders.

    value: preference for the first run's answer, from 0 to 1; None unless both orders have a verdict.
    lengths: characters of both answers, the first run's first; None where they are not stored.
    kind: consistent (both orders agree), first or second (both name the answer shown first, or second), undecided (a
        tie in one order only), missing (no verdict in an order), failed (no text in an order).
    """

    task: str
    sample_index: int
    turn: int
    kind: Kind
    value: float | None
    weight: float = 1.0
    lengths: tuple[int, int] | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """Task, sample index and turn."""
        return (self.task, self.sample_index, self.turn)


@dataclass(frozen=True, slots=True)
class PairSummary:
    """The pairs of one task. The counts are of pairs; win_rate is the first run's."""

    task: str
    n: int  # pairs with a verdict in both orders
    n_missing: int
    n_failed: int
    wins: int
    losses: int
    ties: int  # those of inconsistent orders included
    consistent: int
    first: int  # both orders named the answer that was shown first
    second: int
    undecided: int
    win_rate: IntervalEstimate | None


def pair_of(
    key: tuple[str, int, int],
    form: Form,
    verdicts: tuple[Verdict | None, Verdict | None],
    *,
    is_failed: bool = False,
    lengths: tuple[int, int] | None = None,
) -> JudgedPair:
    """Combine the verdicts of both orders.

    `pair`: a side wins only if both orders name it, else the pair is a tie (MT-bench). `five` and `preference`: the
    mean of both orders, by weight (Arena-Hard, AlpacaEval).

    Args:
        key: task, sample index, turn.
        form: of the verdicts.
        verdicts: as given: the first with the first run's answer shown first, the second with the other order.
        is_failed: whether the judge gave no text in one of the orders.
        lengths: characters of both answers.
    """
    first, other = verdicts
    if first is None or other is None:
        return JudgedPair(*key, "failed" if is_failed else "missing", None, lengths=lengths)
    turned = swapped(other)
    kind = _kind(first.value, turned.value)
    if form == "pair":
        return JudgedPair(*key, kind, first.value if kind == "consistent" else 0.5, lengths=lengths)
    weight = first.weight + turned.weight
    value = (first.value * first.weight + turned.value * turned.weight) / weight
    return JudgedPair(*key, kind, value, weight, lengths)


def _kind(preference: float, other: float) -> Kind:
    """Return the kind of a pair; both values are preferences for the first run's answer."""
    sides = (_side(preference), _side(other))
    if sides[0] == sides[1]:
        return "consistent"
    if 0 in sides:
        return "undecided"
    return "first" if sides[0] > 0 else "second"


def _side(value: float) -> int:
    return (value > 0.5) - (value < 0.5)


def summarise_pairs(pairs: Sequence[JudgedPair]) -> list[PairSummary]:
    """Return the counts and the win rate of each task.

    With equal weights the win rate is the mean of the pairs, otherwise Σ weight · value / Σ weight with the interval of
    a ratio. Its units are questions, since the turns of one conversation are dependent.
    """
    return [
        _summary(task, [pair for pair in pairs if pair.task == task]) for task in dict.fromkeys(p.task for p in pairs)
    ]


def _summary(task: str, pairs: Sequence[JudgedPair]) -> PairSummary:
    scored = [pair for pair in pairs if pair.value is not None]
    sides = [_side(pair.value) for pair in scored if pair.value is not None]
    kinds = [pair.kind for pair in pairs]
    return PairSummary(
        task, len(scored), kinds.count("missing"), kinds.count("failed"), sides.count(1), sides.count(-1),
        sides.count(0), kinds.count("consistent"), kinds.count("first"), kinds.count("second"),
        kinds.count("undecided"), _win_rate(scored)
    )  # fmt: skip


def _win_rate(pairs: Sequence[JudgedPair]) -> IntervalEstimate | None:
    values = [(pair.sample_index, pair.value, pair.weight) for pair in pairs if pair.value is not None]
    if not values:
        return None
    samples = list(dict.fromkeys(sample for sample, _, _ in values))
    is_constant = len({value for _, value, _ in values}) == 1  # a ratio would have no spread, so no honest interval
    if len({weight for *_, weight in values}) == 1 or len(samples) == 1 or is_constant:
        return mean_over_questions([value for _, value, _ in values], [s for s, *_ in values], bounds=(0.0, 1.0))
    tops = dict.fromkeys(samples, 0.0)
    weights = dict.fromkeys(samples, 0.0)
    for sample, value, weight in values:
        tops[sample] += value * weight
        weights[sample] += weight
    estimate = estimate_ratio(list(tops.values()), list(weights.values()))
    if estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(estimate.low, 0.0), high=min(estimate.high, 1.0))
