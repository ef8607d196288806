"""Results of a judging: what each judgement says, the scores that are stored, and their summary."""

from collections.abc import Iterable, Sequence

from assaymark.judges.benchmark_scores import benchmark_scores
from assaymark.judges.pairwise import Pair, PairSummary, pair_of, summarise_pairs
from assaymark.judges.requests import task_in_order
from assaymark.judges.single import Grade, GradeSummary, summarise_grades
from assaymark.judges.verdicts import PAIRED, Form, parse_verdict
from assaymark.records import Estimate, Output, Request, Score, ScoreStatus
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.store import RunRow, Store

__all__ = ["JudgedItem", "JudgingResults", "estimates_of", "form_of", "judged_item", "read_results", "scores_of"]

JudgedItem = Grade | Pair
JudgingResults = Sequence[GradeSummary] | Sequence[PairSummary]
GRADE, WIN, VERDICT = "grade", "win", "verdict"  # metrics
Key = tuple[str, int, int]


def judged_item(
    key: Key, form: Form, outputs: Sequence[Output | None], lengths: tuple[int, ...] | None = None
) -> JudgedItem | None:
    """Return the judgement of one item from the judge's output in each order; None while one is not stored."""
    if any(output is None for output in outputs):
        return None
    texts = [output.text for output in outputs if output is not None]
    is_failed = any(text is None for text in texts)
    verdicts = [None if text is None else parse_verdict(text, form) for text in texts]
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
    pairs = [one for one in judged if isinstance(one, Pair)]
    return summarise_pairs(pairs) if pairs else summarise_grades([one for one in judged if isinstance(one, Grade)])


def estimates_of(judged: Sequence[JudgedItem], form: Form) -> list[Estimate]:
    """Return the estimates stored with a judging: of each task the mean grade, or the first run's win rates."""
    found = []
    for one in summarise(judged):
        if isinstance(one, PairSummary):
            found.append(_estimate(one.task, WIN, one.win_rate, one, chance=0.5))
        elif one.turn is None:
            found.append(_estimate(one.task, GRADE, one.mean, one, chance=None))
    counts = {one.task: one for one in summarise(judged) if isinstance(one, PairSummary)}
    scores = benchmark_scores([one for one in judged if isinstance(one, Pair)], form)
    return [*found, *(_estimate(one.task, one.metric, one.value, counts[one.task], chance=0.5) for one in scores)]


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
    form: Form = settings.settings["form"] if settings is not None else "grade"
    return form


def read_results(store: Store, row: RunRow) -> list[JudgedItem]:
    """Return every stored judgement of a judging, also of one that is not complete."""
    form = form_of(row)
    lengths = _lengths_of(store, row) if form in PAIRED else {}
    found: list[JudgedItem] = []
    for task in row.tasks:
        orders = [_outputs(store, row, task_in_order(task, order)) for order in range(2 if form in PAIRED else 1)]
        for index, turn in orders[0]:
            outputs = [of_order.get((index, turn)) for of_order in orders]
            key = (task, index, turn)
            judged = judged_item(key, form, outputs, lengths.get(key))
            if judged is not None:
                found.append(judged)
    return found


def _outputs(store: Store, row: RunRow, task: str) -> dict[tuple[int, int], Output]:
    return {
        (record.request.sample_index, record.request.turn): record.outputs[0]
        for record in store.samples(row.run_id, task)
        if record.outputs
    }


def _lengths_of(store: Store, row: RunRow) -> dict[Key, tuple[int, int]]:
    """Return the characters of both answers of each pair, from the stored scores."""
    return dict(_lengths(store, row))


def _lengths(store: Store, row: RunRow) -> Iterable[tuple[Key, tuple[int, int]]]:
    for score in store.scores(row.run_id):
        if score.metric == WIN and isinstance(score.detail, dict):
            first, second = score.detail["characters"]
            yield (score.task, score.sample_index, score.turn), (first, second)
