"""What a judging costs in tokens and money: a forecast before it, and a limit that is never passed.

A server's tokenizer is usually unknown here. The forecast then takes four characters as one token, and says so; the
limit takes the most tokens that a request can have, so that it holds whatever the tokenizer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalstone.errors import UsageError
from evalstone.models.model import Model
from evalstone.records import GenerateQuery, Output, Request

__all__ = ["Budget", "Forecast", "Price", "forecast", "parse_price"]

CHARACTERS_PER_TOKEN = 4.0  # of English text, roughly
TEMPLATE_TOKENS = 64  # most tokens that a chat template adds to two messages
PER_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Price:
    """Units: money per million tokens read, and per million tokens generated."""

    read: float
    generated: float

    def of(self, n_read: float, n_generated: float) -> float:
        """Return the price of so many tokens."""
        return (n_read * self.read + n_generated * self.generated) / PER_MILLION


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


def parse_price(text: str) -> Price:
    """Return the price in `IN,OUT`: money per million tokens read and generated.

    Raises: UsageError.
    """
    parts = text.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 2 or not all(0 <= number < float("inf") for number in numbers):
        raise UsageError(f"--price {text}; expected IN,OUT: money per million tokens, such as --price 2.5,10")
    return Price(*numbers)


def forecast(model: Model, pending: Sequence[Request], n_items: int, n_stored: int, price: Price | None) -> Forecast:
    """Return the work of the pending requests; nothing is sent."""
    n_read, is_counted = _tokens_read(model, pending)
    generated = sum(_most_generated(request) for request in pending)
    cost = None if price is None else price.of(n_read, generated)
    return Forecast(n_items, len(pending) + n_stored, n_stored, n_read, generated, is_counted, cost)


def _tokens_read(model: Model, pending: Sequence[Request]) -> tuple[int, bool]:
    """Return the tokens of the prompts, and whether they were counted by the judge's tokenizer."""
    if not pending:
        return 0, True
    shortest = [_with_tokens(request, 1) for request in pending]  # an estimate includes the generated tokens
    counted = model.estimate(shortest).n_tokens_asked
    if counted is not None:
        return counted, True
    return round(sum(_n_characters(request) for request in pending) / CHARACTERS_PER_TOKEN), False


def _with_tokens(request: Request, n: int) -> Request:
    queries = tuple(
        replace(query, settings=replace(query.settings, max_tokens=n)) if isinstance(query, GenerateQuery) else query
        for query in request.queries
    )
    return replace(request, queries=queries)


def _n_characters(request: Request) -> int:
    return sum(map(len, request.segments)) or sum(len(message.text) for message in request.messages)


def _most_read(request: Request) -> int:
    """Return the most tokens that a prompt can have: a token is at least one byte."""
    text = "".join(request.segments) or "".join(message.text for message in request.messages)
    return len(text.encode("utf-8", "surrogatepass")) + TEMPLATE_TOKENS


def _most_generated(request: Request) -> int:
    return sum(query.settings.max_tokens or 0 for query in request.queries if isinstance(query, GenerateQuery))


class Budget:
    """A limit on the cost of a judging, earlier attempts included."""

    def __init__(self, most: float, price: Price) -> None:
        self.most, self.price = most, price
        self.spent = 0.0

    def charge(self, request: Request, outputs: Sequence[Output]) -> None:
        """Add the cost of a request's outputs; one whose tokens the server does not tell costs the most it can."""
        for output in outputs:
            if output.from_cache:
                continue
            n_read = output.n_context_tokens or _most_read(request)
            self.spent += self.price.of(n_read, output.n_tokens or _most_generated(request))

    def affordable(self, pending: Sequence[Request]) -> int:
        """Return how many of the pending requests may be sent, in order, without the limit being passed."""
        left = self.most - self.spent
        for number, request in enumerate(pending):
            left -= self.price.of(_most_read(request), _most_generated(request))
            if left < 0:
                return number
        return len(pending)
