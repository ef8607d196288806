"""A small real language model that trains instantly: character counts after every context of up to eight characters.

Witten-Bell interpolation from order 0 up, p_k(c | h) = (n(h, c) + t(h) p_{k-1}(c | h')) / (n(h) + t(h)), with t(h) the
number of different characters seen after h. After training on a text twice, the text is likelier than after once.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from assaymark.models.model import OutputCache
from assaymark.records import (
    JsonValue,
    LoglikelihoodQuery,
    Message,
    ModelIdentity,
    Output,
    Progress,
    QueryKind,
    Request,
    RollingQuery,
    WorkEstimate,
)

ORDER = 8
N_CHARACTERS = 128  # of order 0: every character equally likely


class CountingModel:
    """Returns log-likelihoods of texts from its counts."""

    answers = frozenset({QueryKind.LOGLIKELIHOOD, QueryKind.ROLLING})

    def __init__(self, max_length: int | None = 400) -> None:
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._max_length = max_length

    def train(self, text: str) -> "CountingModel":
        """Count every character after its contexts."""
        for position, character in enumerate(text):
            for length in range(min(ORDER, position) + 1):
                self._counts[text[position - length : position]][character] += 1
        return self

    def nats(self, context: str, text: str) -> float:
        """Return log p(text | context)."""
        whole = context + text
        return sum(math.log(self._p(whole, position)) for position in range(len(context), len(whole)))

    def _p(self, whole: str, position: int) -> float:
        p = 1.0 / N_CHARACTERS
        for length in range(min(ORDER, position) + 1):
            counts = self._counts.get(whole[position - length : position])
            if counts is None:
                break
            different = len(counts)
            p = (counts[whole[position]] + different * p) / (counts.total() + different)
        return p

    @property
    def identity(self) -> ModelIdentity:
        """Return an identity with a context length."""
        return ModelIdentity("counting", "counting", None, None, None, "float64", "float32", self._max_length)

    takes_messages = False

    def check(self) -> None:
        """Do nothing."""

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: str | None = None) -> str:
        """Return the texts joined."""
        return "\n".join(message.text for message in messages)

    def answer(
        self,
        requests: Sequence[Request],
        *,
        cache: OutputCache | None = None,
        observe: Callable[[Progress], None] | None = None,
    ) -> Iterator[Output]:
        """Yield the log-likelihood of every query."""
        for request in requests:
            for query in request.queries:
                if isinstance(query, RollingQuery):
                    nats = self.nats("", query.text)
                elif isinstance(query, LoglikelihoodQuery):
                    context = "".join(query.segments if query.segments is not None else request.segments)
                    nats = self.nats(context, query.continuation)
                else:
                    raise TypeError(type(query))
                yield Output(request.id, query.index, total_nats=nats, is_greedy=False)

    def stream(self, request: Request) -> Iterator[str]:
        """Refuse: this model generates nothing."""
        raise NotImplementedError(request.id)

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the number of characters."""
        n = sum(len(query.text) for request in requests for query in request.queries if isinstance(query, RollingQuery))
        return WorkEstimate(len(requests), len(requests), n, n)

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:
        """Return the characters."""
        return [*context, *continuation], len(context)

    def describe(self) -> Mapping[str, JsonValue]:
        """Return no facts."""
        return {}

    def close(self) -> None:
        """Do nothing."""
