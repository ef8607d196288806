"""Asking a model for the log-likelihood of texts that belong to no run."""

from collections.abc import Callable, Sequence

from evalstone.errors import UsageError
from evalstone.models.model import Model
from evalstone.records import Ask, LoglikelihoodAsk, Progress, Request, RollingAsk

__all__ = ["Likelihoods"]

Told = Callable[[Progress], None]


class Likelihoods:
    """One model, asked for log-likelihoods only. A text that cannot be asked gives None, never a low number.

    Units: nats.
    """

    def __init__(self, model: Model, observe: Told | None = None) -> None:
        self.model = model
        self._observe = observe

    def of_texts(self, texts: Sequence[str]) -> list[float | None]:
        """Return each text's log-likelihood from nothing."""
        return self._ask([((), RollingAsk(0, text)) for text in texts])

    def of_continuations(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return the log-likelihood of each second text after the first."""
        return self._ask([((context,), LoglikelihoodAsk(0, text)) for context, text in pairs])

    def n_tokens(self, texts: Sequence[str]) -> int:
        """Return how many tokens these texts have together; asks nothing.

        Raises: UsageError where only a server could count them.
        """
        requests = [_request(i, (), (RollingAsk(0, text),)) for i, text in enumerate(texts)]
        n_tokens = self.model.estimate(requests).n_tokens_asked
        if n_tokens is None:
            raise UsageError("the model's tokenizer is not here; name it: tokenizer=<folder or Hub id>")
        return n_tokens

    def _ask(self, asked: Sequence[tuple[tuple[str, ...], Ask]]) -> list[float | None]:
        requests = [_request(i, segments, (ask,)) for i, (segments, ask) in enumerate(asked)]
        found: list[float | None] = [None] * len(requests)
        place = {request.id: index for index, request in enumerate(requests)}
        for output in self.model.answer(requests, observe=self._observe):
            found[place[output.request_id]] = output.total_nats
        return found


def _request(index: int, segments: tuple[str, ...], asks: tuple[Ask, ...]) -> Request:
    return Request("audit", index, "", segments, asks)
