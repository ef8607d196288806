"""Log-likelihoods of texts that belong to no sample."""

from collections.abc import Callable, Iterable, Sequence

from assaymark.errors import UsageError
from assaymark.models.model import Model
from assaymark.records import LoglikelihoodQuery, Output, Query, Request, RollingQuery

Answer = Callable[[Sequence[Request]], Iterable[Output]]
"""Answers requests: a model by itself, or one whose answers are stored."""


class Likelihoods:
    """One model, queried for log-likelihoods only. A text that cannot be scored gives None, never a low number.

    Units: nats.
    """

    def __init__(self, model: Model, answer: Answer | None = None) -> None:
        self.model = model
        self._answer = answer or model.answer

    def of_texts(self, texts: Sequence[str], name: str = "texts") -> list[float | None]:
        """Return each text's unconditional log-likelihood; `name` distinguishes these texts within an audit."""
        return self._query(name, [((), RollingQuery(0, text)) for text in texts])

    def of_continuations(self, pairs: Sequence[tuple[str, str]], name: str = "continuations") -> list[float | None]:
        """Return log p(second text | first text) of each pair; `name` as in `of_texts`."""
        return self._query(name, [((context,), LoglikelihoodQuery(0, text)) for context, text in pairs])

    def of_choices(self, requests: Sequence[Request]) -> dict[str, tuple[float, ...]]:
        """Return the choices' log-likelihoods by request id, for requests of which all queries were answered."""
        outputs: dict[str, dict[int, Output]] = {}
        for output in self._answer(requests):
            outputs.setdefault(output.request_id, {})[output.ask_index] = output
        by_request = {}
        for request in requests:
            choices = [
                query for query in request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"
            ]
            values = [outputs[request.id][query.index].total_nats for query in choices]
            known = tuple(value for value in values if value is not None)
            if len(known) == len(choices):
                by_request[request.id] = known
        return by_request

    def n_tokens(self, texts: Sequence[str]) -> int:
        """Return the number of tokens of all texts together, without a query to the model.

        Raises: UsageError if only a server could count them.
        """
        requests = [Request("texts", i, "", (), (RollingQuery(0, text),)) for i, text in enumerate(texts)]
        n_tokens = self.model.estimate(requests).n_tokens_asked
        if n_tokens is None:
            raise UsageError("the model's tokenizer is not on this machine; set tokenizer=<folder or Hub id>")
        return n_tokens

    def _query(self, name: str, queries: Sequence[tuple[tuple[str, ...], Query]]) -> list[float | None]:
        requests = [Request(name, i, "", segments, (query,)) for i, (segments, query) in enumerate(queries)]
        nats: list[float | None] = [None] * len(requests)
        index_of = {request.id: index for index, request in enumerate(requests)}
        for output in self._answer(requests):
            nats[index_of[output.request_id]] = output.total_nats
        return nats
