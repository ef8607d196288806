"""The numbers that benchmarks of judged pairs are known by, for the first run against the second, the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.judges.pairwise import Pair, summarise_pairs
from assaymark.judges.verdicts import Form
from assaymark.statistics.baseline_rates import bradley_terry_rate, equal_length_rate, why_no_equal_length
from assaymark.statistics.estimate import IntervalEstimate

__all__ = ["BenchmarkScore", "benchmark_scores"]

EQUAL_LENGTH = "win_at_equal_length"
ARENA_HARD = "arena_hard_score"
ALPACA_EVAL = "alpaca_eval_win_rate"
TITLES: Mapping[str, str] = {
    ARENA_HARD: "Arena-Hard's score",
    ALPACA_EVAL: "AlpacaEval's win rate",
    EQUAL_LENGTH: "win rate at equal length",
}


@dataclass(frozen=True, slots=True)
class BenchmarkScore:
    """One score of one task. value: None where `why_none` has the reason."""

    task: str
    metric: str  # one of `TITLES`
    value: IntervalEstimate | None
    why_none: str | None

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return TITLES[self.metric]


def benchmark_scores(pairs: Sequence[Pair], form: Form) -> list[BenchmarkScore]:
    """Return each task's benchmark score, where its form has one, and its win rate at equal length of the answers.

    `five` has Arena-Hard's score: the chance of beating the baseline by a Bradley-Terry model. `preference` has
    AlpacaEval's win rate, the mean preference over both orders. Neither is a published number: judge, judge prompt,
    questions and baseline are this judging's own.
    """
    found = []
    for task in dict.fromkeys(pair.task for pair in pairs):
        own = [pair for pair in pairs if pair.task == task]
        scored = [pair for pair in own if pair.value is not None]
        if form == "five":
            found.append(_score(task, ARENA_HARD, _arena_hard(scored)))
        elif form == "preference":
            (summary,) = summarise_pairs(own)
            found.append(_score(task, ALPACA_EVAL, summary.win_rate))
        found.append(_equal_length(task, scored))
    return found


def _score(task: str, metric: str, value: IntervalEstimate | None) -> BenchmarkScore:
    return BenchmarkScore(task, metric, value, "no pair has a verdict" if value is None else None)


def _arena_hard(scored: Sequence[Pair]) -> IntervalEstimate | None:
    if not scored:
        return None
    return bradley_terry_rate(_values(scored), [pair.weight for pair in scored], _questions(scored))


def _equal_length(task: str, scored: Sequence[Pair]) -> BenchmarkScore:
    known = [(pair, pair.lengths) for pair in scored if pair.lengths is not None]
    pairs, lengths = [pair for pair, _ in known], [(float(own), float(other)) for _, (own, other) in known]
    if not pairs:
        why = "no pair has a verdict" if not scored else "lengths of answers are stored when the judging is complete"
        return BenchmarkScore(task, EQUAL_LENGTH, None, why)
    values, questions = _values(pairs), _questions(pairs)
    value = equal_length_rate(values, lengths, questions, [pair.weight for pair in pairs])
    return BenchmarkScore(task, EQUAL_LENGTH, value, why_no_equal_length(values, lengths, questions))


def _values(pairs: Sequence[Pair]) -> list[float]:
    return [pair.value for pair in pairs if pair.value is not None]


def _questions(pairs: Sequence[Pair]) -> list[int]:
    return [pair.sample_index for pair in pairs]
