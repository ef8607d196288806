"""What a stored sample says: its deciding score, its choices, which of them are correct, and whether it is wrong."""

from collections.abc import Iterator, Sequence
from typing import Any

from assaymark.records import LoglikelihoodQuery, Score, ScoreStatus
from assaymark.scoring.metrics import find_metric, is_auxiliary, preferred_names
from assaymark.store import Store
from assaymark.store.rows import SampleRecord

__all__ = ["choice_queries", "deciding_score", "gold_indices", "is_wrong", "request_target", "verdict_of",
           "wrong_samples"]  # fmt: skip


def deciding_score(record: SampleRecord) -> Score | None:
    """Return the score that decides whether a sample's answer is correct: that of the preferred metric."""
    index = _deciding([score.metric for score in record.scores])
    return record.scores[index] if index is not None else None


def _deciding(metrics: Sequence[str]) -> int | None:
    own = [metric for metric in metrics if not is_auxiliary(metric)]
    preferred = next((metric for metric in preferred_names() if metric in own), own[0] if own else None)
    return metrics.index(preferred) if preferred is not None else None


def wrong_samples(store: Store, run_id: str, task: str) -> Iterator[SampleRecord]:
    """Yield a task's samples that were not answered correctly, without reading all samples of the task."""
    names = store.score_names(run_id, task)
    index = _deciding([metric for _, metric in names])
    some = store.samples(run_id, task) if index is None else store.samples_not_right(run_id, task, names[index])
    return (record for record in some if is_wrong(record))


def is_wrong(record: SampleRecord) -> bool:
    """Return whether a sample was not answered correctly: wrong, unparsed, or without an answer.

    With a metric that is not a proportion (a perplexity) no sample is wrong; an answer without a score is not wrong
    yet.
    """
    score = deciding_score(record)
    if score is None:
        return not record.outputs or any(output.error is not None for output in record.outputs)
    if score.status is not ScoreStatus.SCORED:
        return True
    return _is_graded(score) and score.value is not None and score.value < 0.5


def verdict_of(record: SampleRecord) -> str:
    """Return what a sample came to, in a word: right, wrong, unparsed, failed, scored or not scored.

    With a metric that is not a proportion (a perplexity) a sample is scored, and neither right nor wrong.
    """
    score = deciding_score(record)
    if score is None:
        return "not scored"
    if score.status is not ScoreStatus.SCORED:
        return str(score.status)
    if not _is_graded(score):
        return "scored"
    return "wrong" if is_wrong(record) else "right"


def _is_graded(score: Score) -> bool:
    """Return whether a score says if an answer is right."""
    row = find_metric(score.metric)
    return score.value in {0.0, 1.0} if row is None else row.is_share


def gold_indices(record: SampleRecord) -> frozenset[int]:
    """Return the indices of the correct choices: from the score's details, else from the logged target.

    The target is an index, a list of indices, or a choice's text. If choices share one continuation (WinoGrande), the
    text does not identify a choice, and the pick and its credit are used.
    """
    choices = choice_queries(record)
    score = deciding_score(record)
    if score is not None and isinstance(score.detail, dict) and "gold" in score.detail:
        return frozenset(score.detail["gold"])
    if len({query.continuation for query in choices}) < len(choices):
        return _gold_from_score(score, len(choices))
    target = request_target(record)
    if isinstance(target, int):
        return frozenset({target}) if 0 <= target < len(choices) else frozenset()
    if isinstance(target, list):
        return frozenset(index for index in target if isinstance(index, int) and 0 <= index < len(choices))
    return frozenset(query.index for query in choices if query.continuation.strip() == str(target).strip())


def _gold_from_score(score: Score | None, n_choices: int) -> frozenset[int]:
    """Return the correct choice if an untied pick determines it: the pick itself, or the other one of two."""
    detail = score.detail if score is not None and isinstance(score.detail, dict) else {}
    picked, credit = detail.get("picked"), detail.get("credit")
    if not isinstance(picked, int) or detail.get("n_tied") != 1:
        return frozenset()
    if credit == 1.0:
        return frozenset({picked})
    return frozenset({1 - picked}) if n_choices == 2 else frozenset()


def request_target(record: SampleRecord) -> Any:
    """Return the logged target with its type: `2` is an index, `[0, 3]` a list of indices, anything else a text."""
    text = record.request.target.strip()
    if text.lstrip("-").isdigit():
        return int(text)
    if text.startswith("[") and text.endswith("]"):
        parts = [part.strip() for part in text[1:-1].split(",")]
        if all(part.lstrip("-").isdigit() for part in parts):
            return [int(part) for part in parts]
    return text


def choice_queries(record: SampleRecord) -> list[LoglikelihoodQuery]:
    """Return the queries of the choices, in their order."""
    return [
        query for query in record.request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"
    ]
