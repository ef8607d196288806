"""Metrics of the calls of an application: facts about each call besides its answer."""

import math
from collections.abc import Callable
from typing import Protocol

from assaymark.scoring.metric import APPLICATION_CALL, metric


class ScoredCall(Protocol):
    """Facts about a call; None: unknown. Units: seconds, whatever the application's cost is in, tokens."""

    @property
    def latency_s(self) -> float | None: ...  # noqa: D102 - as the class says
    @property
    def cost(self) -> float | None: ...  # noqa: D102
    @property
    def n_tokens(self) -> int | None: ...  # noqa: D102


Measure = Callable[[ScoredCall], float | None]


def _of_calls(formula: str) -> Callable[[Measure], Measure]:
    return metric(of=APPLICATION_CALL, formula=formula, higher_is_better=False, scale="number", bounds=(0.0, math.inf))


@_of_calls("seconds from the call of an application to its answer; of repeats the mean")
def latency_s(call: ScoredCall) -> float | None:
    """Return the seconds of one call."""
    return call.latency_s


@_of_calls("what an application says that a call cost, as it says it; of repeats the mean")
def cost(call: ScoredCall) -> float | None:
    """Return the cost of one call."""
    return call.cost


@_of_calls("tokens of prompts and answers that an application says a call took; of repeats the mean")
def n_tokens(call: ScoredCall) -> float | None:
    """Return the tokens of one call."""
    return call.n_tokens
