"""The one interface every model has. Nothing outside `models` knows more of a model than this.

A model is cheap to make: `identity` must not load weights (it reads configuration and cached file digests), so that a
run which is wholly in the store is answered without loading anything. Weights are loaded at the first `answer`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from evalstone.records import (
    JsonValue,
    Message,
    ModelIdentity,
    Output,
    Progress,
    QueryKind,
    Request,
    WorkEstimate,
)


class OutputCache(Protocol):
    """Earlier outputs by content; the store offers one."""

    def find(self, keys: Sequence[str]) -> Mapping[str, Output]:
        """Return the outputs stored under those of `keys` that are known; errors are never among them."""
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
        """The kinds of ask this model can answer."""
        ...

    @property
    def takes_messages(self) -> bool:
        """Whether chats are sent as messages, which a server puts into the template; then nothing is rendered here."""
        ...

    def check(self) -> None:
        """Find out, before a run is stored, what would fail every request; a local model has nothing to find out.

        Raises: ModelUnavailable if no server answers, or it refuses the key.
        """
        ...

    def render(self, messages: Sequence[Message], *, continue_final: bool = False) -> str:
        """Return `messages` as one text under the model's chat template.

        With `continue_final` the last (assistant) message is left open to be continued; otherwise the text ends
        where the assistant's turn begins.

        Raises: UsageError where the model has no chat template.
        """
        ...

    def answer(
        self,
        requests: Sequence[Request],
        *,
        cache: OutputCache | None = None,
        observe: Callable[[Progress], None] | None = None,
    ) -> Iterator[Output]:
        """Yield one output per ask and repeat, in any order, as each is finished.

        An ask that cannot be answered yields an output with `error`; only what concerns the model as a whole raises.

        Raises: ModelUnavailable if the model cannot be loaded; MissingExtra if its library is not installed.
        """
        ...

    def stream(self, request: Request) -> Iterator[str]:
        """Yield pieces of the text that answers the request's first generate ask."""
        ...

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return what answering would take, without answering (tokenises; loads no weights)."""
        ...

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:
        """Return the token texts of context + continuation and the index of the first scored one; None if unknown."""
        ...

    def describe(self) -> Mapping[str, JsonValue]:
        """Return what belongs to an attempt, not to the run: versions, device, threads, window, engine path."""
        ...

    def close(self) -> None:
        """Free weights and device memory; the model may be used again and loads them again."""
        ...
