"""The interface that every model implements. Code outside `models` uses only this interface.

Constructing a model is cheap: `identity` must not load weights (it reads the configuration and cached file digests), so
that a run which is already complete in the store needs no weights at all. They are loaded by the first `answer`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from assaymark.records import JsonValue, Message, ModelIdentity, Output, Progress, QueryKind, Request, WorkEstimate


class OutputCache(Protocol):
    """Looks up earlier outputs by content key; implemented by the store."""

    def find(self, keys: Sequence[str]) -> Mapping[str, Output]:
        """Return the stored outputs of those `keys` that are known; failed outputs are never returned."""
        ...


@runtime_checkable
class Model(Protocol):
    """Answers requests."""

    @property
    def identity(self) -> ModelIdentity:
        """Which model this is, by content. Loads no weights."""
        ...

    @property
    def answers(self) -> frozenset[QueryKind]:
        """The kinds of query this model supports."""
        ...

    @property
    def takes_messages(self) -> bool:
        """Whether chats are sent as messages, so that the server applies the template and nothing is rendered here."""
        ...

    def check(self) -> None:
        """Detect, before a run is stored, a problem that would fail every request; local models check nothing.

        Raises: ModelUnavailable if the server cannot be reached or refuses the key.
        """
        ...

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: str | None = None) -> str:
        """Return `messages` as one text under the model's chat template.

        With `continue_final` the last (assistant) message is left open to be continued; otherwise the text ends
        where the assistant's turn begins. `tools` are the functions that may be called (`Request.tools`); without
        any the argument is not passed.

        Raises: UsageError where the model has no chat template, or one that ignores tools.
        """
        ...

    def answer(
        self,
        requests: Sequence[Request],
        *,
        cache: OutputCache | None = None,
        observe: Callable[[Progress], None] | None = None,
    ) -> Iterator[Output]:
        """Yield one output per query and repeat, in any order, each as soon as it is finished.

        A query that fails yields an output with `error`; only failures of the model as a whole raise.

        Raises: ModelUnavailable if the model cannot be loaded; MissingExtra if its library is not installed.
        """
        ...

    def stream(self, request: Request) -> Iterator[str]:
        """Yield pieces of the text generated for the request's first generate query."""
        ...

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the work that answering would take, without answering (tokenises; loads no weights)."""
        ...

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:
        """Return the token texts of context + continuation and the index of the first scored one; None if unknown."""
        ...

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the facts recorded with an attempt, not the run: versions, device, threads, window, engine path."""
        ...

    def close(self) -> None:
        """Free weights and device memory; the model may be used again and loads them again."""
        ...
