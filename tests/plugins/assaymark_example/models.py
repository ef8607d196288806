"""A kind of model: `--model shortest`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from assaymark.errors import UsageError
from assaymark.models.checkpoint.arguments import known_arguments
from assaymark.records import Message, ModelIdentity, Output, QueryKind, Request, WorkEstimate

ARGUMENTS: tuple[str, ...] = ()  # it has none


class ShortestChoice:
    """Considers shorter continuations more probable, and answers with the last word of a prompt."""

    identity = ModelIdentity("shortest choice", "shortest", "sha256:0", None, None, "float64", "float32")
    answers = frozenset({QueryKind.LOGLIKELIHOOD, QueryKind.GENERATE})
    takes_messages = False

    def answer(self, requests: Iterable[Request], *, cache: Any = None, observe: Any = None) -> Iterator[Output]:
        """Answer every query of every request; a request that fails would yield an output with `error`."""
        for request in requests:
            for query in request.queries:
                if query.kind is QueryKind.LOGLIKELIHOOD:
                    yield Output(request.id, query.index, total_nats=-float(len(query.continuation)), is_greedy=False)
                else:
                    yield Output(request.id, query.index, text=f"Hello\n{request.prompt.split()[-1]}")

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the work, for `plan`."""
        return WorkEstimate(len(requests), sum(len(request.queries) for request in requests), None, None)

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: Any = None) -> str:
        """Return a chat as the model's text."""
        raise UsageError("this model has no chat template")

    def stream(self, request: Request) -> Iterator[str]:
        """Answer in pieces."""
        raise UsageError("this model does not stream")

    def split_tokens(self, context: str, continuation: str) -> None:
        """Return the token ids of both, if the model has tokens."""

    def describe(self) -> Mapping[str, Any]:
        """Return what is stored with an attempt."""
        return {"device": "none"}

    def check(self) -> None:
        """Fail early where the model cannot answer."""

    def close(self) -> None:
        """Release what the model holds."""


def shortest(arguments: Mapping[str, Any]) -> ShortestChoice:
    """Return the model. Raises: UnknownName for an argument that it does not have."""
    known_arguments(arguments, ARGUMENTS)
    return ShortestChoice()
