"""Which choices of a sample are right, asked of the task's own scoring: the one place that always knows."""

from evalstone.records import LoglikelihoodAsk, Output, Request, Sample
from evalstone.tasks.bound import BoundTask

__all__ = ["choice_asks", "gold_choices"]

_DECIDING = ("acc_ties", "acc", "acc_norm")
_UNLIKELY = -1000.0


def choice_asks(request: Request) -> list[LoglikelihoodAsk]:
    """Return the asks that are the sample's choices, in order; none where the task offers no choices."""
    asks = [ask for ask in request.asks if isinstance(ask, LoglikelihoodAsk) and ask.role == "choice"]
    return asks if len(asks) > 1 else []


def gold_choices(bound: BoundTask, request: Request, sample: Sample) -> frozenset[int]:
    """Return the positions of the right choices, empty where the task's scoring does not say.

    Each choice is scored as if the model found it certain: those that earn credit are right.
    """
    return frozenset(
        position for position, ask in enumerate(choice_asks(request)) if _credit(bound, request, sample, ask.index) > 0
    )


def _credit(bound: BoundTask, request: Request, sample: Sample, certain: int) -> float:
    outputs = [
        Output(request.id, ask.index, total_nats=0.0 if ask.index == certain else _UNLIKELY, is_greedy=False)
        for ask in request.asks
    ]
    scores = {score.metric: score.value for score in bound.score(request, sample, outputs)}
    return next((value or 0.0 for name in _DECIDING if (value := scores.get(name)) is not None), 0.0)
