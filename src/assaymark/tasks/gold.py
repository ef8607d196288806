"""Find the gold choices of a sample through the task's own scoring, which always knows them."""

from assaymark.records import LoglikelihoodQuery, Output, Request, Sample
from assaymark.scoring.metrics import TIES, accuracies_over_choices
from assaymark.tasks.bound import BoundTask

__all__ = ["choice_queries", "gold_choices"]

_DECIDING = (TIES, *accuracies_over_choices())
_UNLIKELY = -1000.0


def choice_queries(request: Request) -> list[LoglikelihoodQuery]:
    """Return the queries of the sample's choices, in order; none where the task offers no choices."""
    queries = [query for query in request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"]
    return queries if len(queries) > 1 else []


def gold_choices(bound: BoundTask, request: Request, sample: Sample) -> frozenset[int]:
    """Return the positions of the gold choices, empty where the task's scoring does not reveal them.

    Each choice is scored as if the model found it certain: those that earn credit are gold.
    """
    return frozenset(
        position
        for position, query in enumerate(choice_queries(request))
        if _credit(bound, request, sample, query.index) > 0
    )


def _credit(bound: BoundTask, request: Request, sample: Sample, certain: int) -> float:
    outputs = [
        Output(
            request.id,
            query.index,
            total_nats=0.0 if query.index == certain else _UNLIKELY,
            is_greedy=False,
            n_tokens=1,
        )
        for query in request.queries
    ]
    scores = {score.metric: score.value for score in bound.score(request, sample, outputs)}
    return next((value or 0.0 for name in _DECIDING if (value := scores.get(name)) is not None), 0.0)
