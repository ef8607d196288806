"""The samples that a report shows: a run's most confident errors, and a later run's new errors."""

from collections.abc import Sequence

from assaymark.records import Estimate, ScoreStatus
from assaymark.report.comparison.records import Flip, PairComparison
from assaymark.report.documents.blocks import Choice, Example
from assaymark.report.evidence.stored_samples import choice_queries, deciding_score, gold_indices, wrong_samples
from assaymark.report.numbers import is_proportion
from assaymark.report.views.comparison_tables import tasks_by_change
from assaymark.report.views.samples import shown_choices
from assaymark.scoring.metrics import CONFIDENCE
from assaymark.store import SampleRecord, Store

__all__ = ["above_chance", "failure_examples", "regression_examples"]

N_TASKS = 3
PER_TASK = 2
OF_PAIRS = 6  # in all
PROMPT_END = 500  # characters
LONGEST_CHOICE = 160
LONGEST_ANSWER = 600


def above_chance(estimate: Estimate) -> float:
    """Return a value rescaled so that chance is 0 and a perfect score is 1."""
    chance = estimate.chance or 0.0
    return ((estimate.value or 0.0) - chance) / (1.0 - chance) if chance < 1.0 else 0.0


def failure_examples(store: Store, run_id: str, leaves: Sequence[Estimate]) -> list[Example]:
    """Return wrongly answered samples of the weakest tasks, the most confident errors first."""
    shares = [estimate for estimate in leaves if is_proportion(estimate) and estimate.value is not None]
    found: list[Example] = []
    n_tasks = 0
    for estimate in sorted(shares, key=above_chance):
        wrong = list(wrong_samples(store, run_id, estimate.task))
        wrong.sort(key=lambda record: -(_confidence(record) or 0.0))
        found += [_example(record) for record in wrong[:PER_TASK]]
        n_tasks += bool(wrong)
        if n_tasks == N_TASKS:
            break
    return found


def regression_examples(store: Store, run_id: str, pair: PairComparison, n_pairs: int = 1) -> list[Example]:
    """Return samples that the first run of a pair answered correctly and the second, `run_id`, did not.

    With more pairs in the report each gets fewer examples.
    """
    most = max(1, OF_PAIRS // n_pairs)
    found: list[Example] = []
    for task in tasks_by_change(pair):
        lost = {flip.second_index: flip for flip in pair.flips if flip.task == task and not flip.is_better}
        if not lost:
            continue
        records = [r for r in store.samples(run_id, task, indices=list(lost)) if r.request.turn == 0]
        records.sort(key=lambda record: -(_confidence(record) or 0.0))
        found += [_example(record, lost[record.request.sample_index], pair.labels) for record in records[:PER_TASK]]
        if len(found) >= most:
            break
    return found[:most]


def _example(record: SampleRecord, flip: Flip | None = None, labels: tuple[str, str] = ("", "")) -> Example:
    request = record.request
    confidence = _confidence(record)
    shown = "" if confidence is None else f", confidence {confidence:.0%}"
    failed = [output.error for output in record.outputs if output.error]
    lines = [("failed", failed[0])] if failed else []
    if not failed and not choice_queries(record):
        lines += [("answer", _shortened(output.text)) for output in record.outputs[:1] if output.text is not None]
        lines += [("reference", _shortened(request.target))] if request.target else []
    score = deciding_score(record)
    if score is not None and score.status is ScoreStatus.UNPARSED:
        lines.append(("score", "no answer could be parsed from it"))
    if flip is not None and flip.first_answer is not None:
        lines.append((f"{labels[0]} answered", flip.first_answer))
    return Example(
        title=f"{request.task}, sample {request.sample_index}{shown}",
        prompt=_question(record),
        choices=tuple(_choices(record)) if not failed else (),
        lines=tuple(lines),
    )


def _choices(record: SampleRecord) -> list[Choice]:
    queries = choice_queries(record)
    if len(queries) < 2:
        return []
    nats = {output.ask_index: output.total_nats for output in record.outputs}
    score = deciding_score(record)
    detail = score.detail if score is not None and isinstance(score.detail, dict) else {}
    gold = gold_indices(record)
    return [
        Choice(
            _shortened(shown.strip(), LONGEST_CHOICE),
            nats.get(query.index),
            position == detail.get("picked"),
            position in gold,
        )
        for position, (query, shown) in enumerate(zip(queries, shown_choices(record), strict=True))
    ]


def _question(record: SampleRecord) -> str:
    """Return the end of the prompt without its shots."""
    segments = record.request.segments
    text = segments[-1] if segments and segments[-1].strip() else record.request.prompt
    text = text.strip()
    return text if len(text) <= PROMPT_END else "… " + text[-PROMPT_END:].lstrip()


def _confidence(record: SampleRecord) -> float | None:
    parts = next((score.parts for score in record.scores if score.metric == CONFIDENCE), None)
    return float(parts[0]) if parts else None


def _shortened(text: str, longest: int = LONGEST_ANSWER) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
