"""The cost of a run's requests: a forecast before it, a bill while it runs, and a limit that is never exceeded.

The bill counts the tokens that the server reports. Where it reports none, an output is charged with the most tokens
that it can have, and counted as an estimate. The limit is kept by sending a request only if its highest possible cost
is left: a token is at least one byte of the prompt, and a text has at most its limit of tokens. A request that is
retried after a failure is charged once, although a provider may also charge attempts whose answer never arrived.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from assaymark.errors import UsageError
from assaymark.models.cost.prices import Price, find_price
from assaymark.models.model import Model
from assaymark.models.server.arguments import TOP_LOGPROBS
from assaymark.models.text.generation_prompts import DEFAULT_MAX_TOKENS
from assaymark.records import (
    GenerateQuery,
    JsonValue,
    LoglikelihoodQuery,
    ModelIdentity,
    Output,
    Query,
    Request,
    n_outputs_of,
)
from assaymark.records.json_values import dataclass_of, float_of, int_of, object_of

CHARACTERS_PER_TOKEN = 4.0  # of English text, roughly
TEMPLATE_TOKENS = 64  # most tokens that a chat template adds to two messages
NOT_BILLED = frozenset({"Retryable", "Unreachable", "RateLimited", "RequestRefused", "PromptTooLong"})


@dataclass(frozen=True, slots=True)
class BillingRules:
    """How a model's outputs are charged.

    max_tokens: of a text whose query has no limit. one_for_all_choices: one request answers all queries of a context.
    """

    max_tokens: int = DEFAULT_MAX_TOKENS
    one_for_all_choices: bool = False

    @classmethod
    def of(cls, identity: ModelIdentity) -> "BillingRules":
        """Return the rules of a model."""
        options: Mapping[str, JsonValue] = dict(identity.options)
        return cls(int_of(options.get("max_gen_toks") or DEFAULT_MAX_TOKENS, "max_gen_toks"), TOP_LOGPROBS in options)

    def charged(self, request: Request) -> list[Query]:
        """Return the queries that are charged: all, or the first one of each context."""
        if not self.one_for_all_choices:
            return list(request.queries)
        firsts: dict[object, Query] = {}
        for query in request.queries:
            firsts.setdefault(query.segments if isinstance(query, LoglikelihoodQuery) else query.index, query)
        return list(firsts.values())

    def most_read(self, request: Request, query: Query) -> int:
        """Return the most tokens that a query's prompt can have."""
        n_bytes = len(_text_of(request, query).encode("utf-8", "surrogatepass"))
        return n_bytes + max(TEMPLATE_TOKENS, TEMPLATE_TOKENS // 2 * len(request.messages))

    def most_generated(self, query: Query) -> int:
        """Return the most tokens that one repeat of a query can generate; scoring generates one."""
        return (query.settings.max_tokens or self.max_tokens) if isinstance(query, GenerateQuery) else 1


def _text_of(request: Request, query: Query) -> str:
    context = "".join(request.segments) or "".join(message.text for message in request.messages) + (request.tools or "")
    if isinstance(query, LoglikelihoodQuery):
        return (context if query.segments is None else "".join(query.segments)) + query.continuation
    return context if isinstance(query, GenerateQuery) else query.text


class Bill:
    """The cost of a run so far, earlier attempts included. most: the limit; None: there is none."""

    def __init__(self, price: Price, rules: BillingRules, most: float | None = None) -> None:
        self.price, self.rules, self.most = price, rules, most
        self.spent = 0.0
        self.n_read = self.n_generated = 0
        self.n_outputs = self.n_estimated = 0  # charged, and charged with the most they can have
        self._times = 1.0  # the most by which a server's count exceeded what a request can have

    def charge(self, request: Request, outputs: Sequence[Output]) -> None:
        """Add the cost of outputs of a request."""
        queries = {query.index: query for query in self.rules.charged(request)}
        for output in outputs:
            query = queries.get(output.ask_index)
            if query is None or output.from_cache or output.error_kind in NOT_BILLED:
                continue
            is_text = isinstance(query, GenerateQuery)
            n_read, n_generated = output.n_context_tokens, output.n_tokens if is_text else 1
            if not is_text and not self.rules.one_for_all_choices:
                n_read += output.n_tokens
            if not n_read or not n_generated:
                self.n_estimated += 1
            n_read = n_read or self.rules.most_read(request, query)
            n_generated = n_generated or self.rules.most_generated(query)
            self.n_read, self.n_generated = self.n_read + n_read, self.n_generated + n_generated
            self.n_outputs += 1
            cost = self.price.of(n_read, n_generated)
            self.spent += cost
            if self.most is not None:
                most = self.price.of(self.rules.most_read(request, query), self.rules.most_generated(query))
                self._times = max(self._times, cost / most if most else 1.0)

    @property
    def is_passed(self) -> bool:
        """Whether more than the limit is spent: a server may report more tokens than a request can have."""
        return self.most is not None and self.spent > self.most

    def most_cost(self, request: Request) -> float:
        """Return the most that the queries of a request can cost."""
        rules = self.rules
        return sum(
            self.price.of(rules.most_read(request, query), rules.most_generated(query)) * n_outputs_of(query)
            for query in rules.charged(request)
        )

    def affordable(self, pending: Sequence[Request]) -> int:
        """Return how many of the pending requests may be sent, in order, within the limit.

        The first request is sent alone, since a server may report more tokens than a request can have, because of its
        own prompt or billed reasoning. The costs of the others are then scaled by the same factor.
        """
        if self.most is None:
            return len(pending)
        if self.n_outputs == 0:
            return int(bool(pending) and self.most_cost(pending[0]) <= self.most)
        left = self.most - self.spent
        for number, request in enumerate(pending):
            left -= self._times * self.most_cost(request)
            if left < 0:
                return number
        return len(pending)

    def why_stopped(self, pending: Sequence[Request]) -> str:
        """Return why the pending requests are not sent, and how to continue."""
        if self.is_passed:
            return (
                f"max_cost={self.most:g} is passed: {self.spent:,.4f} is spent, since the server reports more tokens "
                "than prompts and max_tokens allow; run the same command with a higher --max_cost to continue"
            )
        following = self._times * self.most_cost(pending[0])
        return (
            f"max_cost={self.most:g} would be passed: {self.spent:,.4f} is spent, and the next request can cost up to "
            f"{following:,.4f}; run the same command with a higher --max_cost to continue"
        )

    def record(self) -> dict[str, JsonValue]:
        """Return the bill as it is stored with an attempt."""
        return {
            "spent": self.spent,
            "n_read": self.n_read,
            "n_generated": self.n_generated,
            "n_outputs": self.n_outputs,
            "n_estimated": self.n_estimated,
            "price": asdict(self.price),
            "max_cost": self.most,
        }


def cost_line(record: Mapping[str, JsonValue]) -> str:
    """Return a stored bill as one line of text."""
    price = dataclass_of(Price, object_of(record["price"], "price"))
    most, spent = record.get("max_cost"), float_of(record["spent"], "spent")
    passed = f" (more than --max_cost {most:g})" if isinstance(most, int | float) and spent > most else ""
    tokens = f"{record['n_read']:,} tokens read and {record['n_generated']:,} generated"
    if not record["n_estimated"]:
        return f"cost: {spent:,.4f}{passed} for {tokens}, at {price}"
    return (
        f"cost: at most {spent:,.4f}{passed} for {tokens}, at {price}; the tokens of "
        f"{record['n_estimated']:,} of {record['n_outputs']:,} outputs were not reported, and are the most they can be"
    )


@dataclass(frozen=True, slots=True)
class CostForecast:
    """Possible cost of requests. most_generated: if all texts reach their limits. most_cost: None without a price."""

    n_read: int  # tokens of the prompts
    most_generated: int
    is_counted: bool  # by the model's tokenizer; else at four characters per token
    most_cost: float | None
    price: Price | None

    def __add__(self, other: "CostForecast") -> "CostForecast":
        """Return the forecast of both."""
        cost = None if self.most_cost is None or other.most_cost is None else self.most_cost + other.most_cost
        n_read, generated = self.n_read + other.n_read, self.most_generated + other.most_generated
        return CostForecast(n_read, generated, self.is_counted and other.is_counted, cost, self.price)

    @property
    def lines(self) -> list[str]:
        """The forecast as lines of text; the cost only with a price."""
        how = (
            "by its tokenizer" if self.is_counted else "at four characters per token, since its tokenizer is not known"
        )
        lines = [f"about {self.n_read:,} tokens read ({how}), at most {self.most_generated:,} generated"]
        if self.most_cost is not None:
            most = "at most" if self.is_counted else "up to about"
            lines.append(f"cost: {most} {self.most_cost:,.4f}, at {self.price}")
        return lines


def cost_forecast(model: Model, pending: Sequence[Request], price: Price | None) -> CostForecast:
    """Estimate the cost of requests; nothing is sent."""
    rules = BillingRules.of(model.identity)
    charged = [(request, query) for request in pending for query in rules.charged(request)]
    generated = sum(rules.most_generated(query) * n_outputs_of(query) for _, query in charged)
    counted = None if rules.one_for_all_choices else _tokens_read(model, pending)
    n_characters = sum(len(_text_of(request, query)) * n_outputs_of(query) for request, query in charged)
    n_read = round(n_characters / CHARACTERS_PER_TOKEN) if counted is None else counted
    cost = None if price is None else price.of(n_read, generated)
    return CostForecast(n_read, generated, counted is not None, cost, price)


def _tokens_read(model: Model, pending: Sequence[Request]) -> int | None:
    """Return the tokens of the prompts as the model's tokenizer counts them; None if only the server knows."""
    if not pending:
        return 0
    return model.estimate([_with_one_token(request) for request in pending]).n_tokens_asked  # includes generated ones


def _with_one_token(request: Request) -> Request:
    queries = tuple(
        replace(query, settings=replace(query.settings, max_tokens=1)) if isinstance(query, GenerateQuery) else query
        for query in request.queries
    )
    return replace(request, queries=queries)


def bill_for(model: Model, price: str | Price | None, prices: str | Path | None, max_cost: float | None) -> Bill | None:
    """Return an empty bill; None where the model's price is not known, and no limit is set.

    Raises: UsageError for a limit without a price; as `find_price`.
    """
    identity = model.identity
    model_price = find_price(identity, price, prices)
    if model_price is not None:
        return Bill(model_price, BillingRules.of(identity), max_cost)
    if max_cost is None:
        return None
    raise UsageError(
        f"--max_cost is in money, and no price of model '{identity.name}' is known; give it per million tokens read "
        "and generated with --price IN,OUT, or in a file with --prices FILE"
    )
