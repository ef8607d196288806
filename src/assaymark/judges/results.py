"""Results of a judging: judgements, stored scores, and their summary.

Also the scores of well-known benchmarks of judged pairs, for the first run against the second, the baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from assaymark.errors import UsageError
from assaymark.judges.judged_answers import task_in_order
from assaymark.judges.pairwise import JudgedPair, PairSummary, pair_of, summarise_pairs
from assaymark.judges.single import Grade, GradeSummary, summarise_grades
from assaymark.judges.verdicts import PAIRED, Form, verdict_of
from assaymark.records import Estimate, Output, Request, Score, ScoreStatus
from assaymark.statistics.baseline_rates import bradley_terry_rate, equal_length_rate, why_no_equal_length
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.store import RunRow, Store

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
        """The title in tables."""
        return TITLES[self.metric]


def benchmark_scores(pairs: Sequence[JudgedPair], form: Form) -> list[BenchmarkScore]:
    """Return each task's benchmark score, where its form has one, and its win rate at equal length of the answers.

    `five` has Arena-Hard's score: the chance of beating the baseline by a Bradley-Terry model. `preference` has
    AlpacaEval's win rate, the mean preference over both orders. Neither is a published number: judge, judge prompt,
    questions and baseline are this judging's own.
    """
    scores = []
    for task in dict.fromkeys(pair.task for pair in pairs):
        own = [pair for pair in pairs if pair.task == task]
        scored = [pair for pair in own if pair.value is not None]
        if form == "five":
            weights = [pair.weight for pair in scored]
            value = bradley_terry_rate(_values(scored), weights, _questions(scored)) if scored else None
            scores.append(_score(task, ARENA_HARD, value))
        elif form == "preference":
            (summary,) = summarise_pairs(own)
            scores.append(_score(task, ALPACA_EVAL, summary.win_rate))
        scores.append(_equal_length(task, scored))
    return scores


def _score(task: str, metric: str, value: IntervalEstimate | None) -> BenchmarkScore:
    return BenchmarkScore(task, metric, value, "no pair has a verdict" if value is None else None)


def _equal_length(task: str, scored: Sequence[JudgedPair]) -> BenchmarkScore:
    known = [(pair, pair.lengths) for pair in scored if pair.lengths is not None]
    pairs, lengths = [pair for pair, _ in known], [(float(own), float(other)) for _, (own, other) in known]
    if not pairs:
        why = "no pair has a verdict" if not scored else "lengths of answers are stored when the judging is complete"
        return BenchmarkScore(task, EQUAL_LENGTH, None, why)
    values, questions = _values(pairs), _questions(pairs)
    value = equal_length_rate(values, lengths, questions, [pair.weight for pair in pairs])
    return BenchmarkScore(task, EQUAL_LENGTH, value, why_no_equal_length(values, lengths, questions))


def _values(pairs: Sequence[JudgedPair]) -> list[float]:
    return [pair.value for pair in pairs if pair.value is not None]


def _questions(pairs: Sequence[JudgedPair]) -> list[int]:
    return [pair.sample_index for pair in pairs]


JudgedItem = Grade | JudgedPair
JudgingResults = Sequence[GradeSummary] | Sequence[PairSummary]
GRADE, WIN = "grade", "win"  # metrics
Key = tuple[str, int, int]


def judged_item(
    key: Key, form: Form, outputs: Sequence[Output | None], lengths: tuple[int, ...] | None = None
) -> JudgedItem | None:
    """Return the judgement of one item from the judge's output in each order; None while one is not stored."""
    if any(output is None for output in outputs):
        return None
    is_failed = any(output is None or output.text is None for output in outputs)
    verdicts = [verdict_of(output, form) for output in outputs]
    if form in PAIRED:
        both = None if lengths is None else (lengths[0], lengths[1])
        return pair_of(key, form, (verdicts[0], verdicts[1]), is_failed=is_failed, lengths=both)
    return Grade(*key, None if verdicts[0] is None else verdicts[0].value, is_failed)


def scores_of(judged: JudgedItem, requests: Sequence[Request], lengths: Sequence[int]) -> list[Score]:
    """Return the scores of one judgement: a grade, or the win of the first run's answer with what each order said."""
    if isinstance(judged, Grade):
        return [Score(requests[0].id, GRADE, judged.value, status=_status(judged.value, failed=judged.is_failed))]
    status = _status(judged.value, failed=judged.kind == "failed")
    detail = {"orders": judged.kind, "weight": judged.weight, "characters": list(lengths)}
    return [Score(requests[0].id, WIN, judged.value, status=status, detail=detail)]


def _status(value: float | None, *, failed: bool) -> ScoreStatus:
    if value is not None:
        return ScoreStatus.SCORED
    return ScoreStatus.FAILED if failed else ScoreStatus.UNPARSED


def summarise(judged: Sequence[JudgedItem]) -> JudgingResults:
    """Return the summary of each task."""
    pairs = [pair for pair in judged if isinstance(pair, JudgedPair)]
    return (
        summarise_pairs(pairs) if pairs else summarise_grades([grade for grade in judged if isinstance(grade, Grade)])
    )


def estimates_of(judged: Sequence[JudgedItem], form: Form) -> list[Estimate]:
    """Return the estimates stored with a judging: of each task the mean grade, or the first run's win rates."""
    estimates = []
    for task_summary in summarise(judged):
        if isinstance(task_summary, PairSummary):
            estimates.append(_estimate(task_summary.task, WIN, task_summary.win_rate, task_summary, chance=0.5))
        elif task_summary.turn is None:
            estimates.append(_estimate(task_summary.task, GRADE, task_summary.mean, task_summary, chance=None))
    counts = {summary.task: summary for summary in summarise(judged) if isinstance(summary, PairSummary)}
    scores = benchmark_scores([pair for pair in judged if isinstance(pair, JudgedPair)], form)
    return [
        *estimates,
        *(_estimate(score.task, score.metric, score.value, counts[score.task], chance=0.5) for score in scores),
    ]


def _estimate(
    task: str, metric: str, value: IntervalEstimate | None, counts: GradeSummary | PairSummary, *, chance: float | None
) -> Estimate:
    return Estimate(
        task,
        metric,
        "none",
        value=None if value is None else value.value,
        low=None if value is None else value.low,
        high=None if value is None else value.high,
        method="none" if value is None else value.method,
        n=counts.n,
        n_failed=counts.n_failed,
        n_unparsed=counts.n_missing,
        stderr=None if value is None else value.stderr,
        chance=chance,
    )


def form_of(row: RunRow) -> Form:
    """Return the form of a judging's verdicts."""
    settings = row.plan.audit_settings
    if settings is None:
        return "grade"
    stored = settings.settings["form"]
    form: Form | None = next((known for known in get_args(Form) if known == stored), None)
    if form is None:
        raise UsageError(f"{row.short_id} has verdicts of form {stored!r:.40}; this version knows {get_args(Form)}")
    return form


def judged_models(row: RunRow) -> tuple[str, ...]:
    """Return the names of the models whose answers a judging judges, in the order of their runs."""
    settings = row.plan.audit_settings
    names = None if settings is None else settings.settings.get("models")
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()


def read_results(store: Store, row: RunRow) -> list[JudgedItem]:
    """Return every stored judgement of a judging, also of one that is not complete."""
    form = form_of(row)
    lengths = _lengths_of(store, row) if form in PAIRED else {}
    items: list[JudgedItem] = []
    for task in row.tasks:
        orders = [_outputs(store, row, task_in_order(task, order)) for order in range(2 if form in PAIRED else 1)]
        for index, turn in orders[0]:
            outputs = [of_order.get((index, turn)) for of_order in orders]
            key = (task, index, turn)
            judged = judged_item(key, form, outputs, lengths.get(key))
            if judged is not None:
                items.append(judged)
    return items


def _outputs(store: Store, row: RunRow, task: str) -> dict[tuple[int, int], Output]:
    return {
        (record.request.sample_index, record.request.turn): record.outputs[0]
        for record in store.samples(row.run_id, task)
        if record.outputs
    }


def _lengths_of(store: Store, row: RunRow) -> dict[Key, tuple[int, int]]:
    """Return the characters of both answers of each pair, from the stored scores."""
    lengths: dict[Key, tuple[int, int]] = {}
    for score in store.scores(row.run_id):
        if score.metric == WIN and isinstance(score.detail, dict):
            first, second = score.detail["characters"]
            lengths[score.task, score.sample_index, score.turn] = (first, second)
    return lengths
