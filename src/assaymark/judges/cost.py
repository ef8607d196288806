"""What a judging costs in tokens and money, before it: see `models.cost` for prices and limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.models.cost.bill import cost_forecast
from assaymark.models.cost.prices import Price
from assaymark.models.model import Model
from assaymark.records import Request

__all__ = ["Forecast", "forecast"]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The work of a judging that is not stored yet. most_cost: None without a price."""

    n_items: int  # answers, or pairs of answers
    n_requests: int
    n_stored: int  # requests that are answered already, and are not sent again
    n_read: int  # tokens of the prompts
    most_generated: int  # tokens, if every text reaches its limit
    is_counted: bool  # by the judge's tokenizer; else at four characters per token
    most_cost: float | None


def forecast(model: Model, pending: Sequence[Request], n_items: int, n_stored: int, price: Price | None) -> Forecast:
    """Return the work of the pending requests; nothing is sent."""
    work = cost_forecast(model, pending, price)
    n_requests = len(pending) + n_stored
    return Forecast(n_items, n_requests, n_stored, work.n_read, work.most_generated, work.is_counted, work.most_cost)
