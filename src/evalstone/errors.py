"""Every error this package raises on purpose.

EvalstoneError
├─ UsageError   the caller asked the impossible   UnknownName, PlanError, MissingExtra     exit 2
├─ DataError    outside data is not as promised   ChecksumMismatch, MalformedSample        exit 3
├─ StoreError   the store disagrees               SchemaTooNew, HashMismatch, RunBusy, LeaseLost   exit 4
└─ ModelError   a request could not be answered                                            exit 5
   ├─ Retryable   asking again later may work     Unreachable, ConnectionLost, TimedOut, RateLimited, ServerFailed,
   │                                              MalformedAnswer
   ├─ Permanent   it would fail in the same way   PromptTooLong, NonFiniteLogits, RequestRefused, AnswerWithheld
   └─ ModelUnavailable   no request can be answered

A message says what happened, the value seen, what was expected, and what to do. A `ModelError` about one request is
kept on that request's output and the run goes on; a failed request is never a wrong answer. Whatever else escapes is
a fault of ours (exit 1): one line, and its traceback with `--debug`.
"""

from collections.abc import Iterable


class EvalstoneError(Exception):
    """The root of the tree; `exit_code` is what the command line returns for it."""

    exit_code = 1


class UsageError(EvalstoneError):
    """The caller asked for something that cannot be."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is in no catalogue; the message offers the nearest ones."""

    def __init__(self, kind: str, name: str, nearest: Iterable[str] = (), remedy: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.nearest = tuple(nearest)
        parts = [f"unknown {kind} '{name}'"]
        if self.nearest:
            parts.append("nearest: " + ", ".join(self.nearest))
        if remedy:
            parts.append(remedy)
        super().__init__("; ".join(parts))


class PlanError(UsageError):
    """A run that cannot be carried out as it was asked for."""


class MissingExtra(UsageError):
    """An optional dependency is not installed; the message holds the line that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(
            f"{what} needs the extra '{extra}', which is not installed; "
            f"install it with: pip install 'evalstone[{extra}]' (in the source folder: pip install '.[{extra}]')"
        )


class DataError(EvalstoneError):
    """Outside data (a task file, a data set, a log) is not as promised."""

    exit_code = 3


class ChecksumMismatch(DataError):
    """Bytes differ from the digest that was recorded for them."""


class MalformedSample(DataError):
    """One row of a data set lacks what its task needs."""


class StoreError(EvalstoneError):
    """The store cannot be opened, written or believed."""

    exit_code = 4


class SchemaTooNew(StoreError):
    """The store was written by a later version of this package."""


class HashMismatch(StoreError):
    """What is stored under a hash does not have that hash."""


class RunBusy(StoreError):
    """Another process is writing the run."""


class LeaseLost(StoreError):
    """Another process took over the run that this one was writing."""


class ModelError(EvalstoneError):
    """A request could not be answered."""

    exit_code = 5


class Retryable(ModelError):
    """Asking again later may work (a time-out, a rate limit)."""


class Unreachable(Retryable):
    """No connection to the server came about, so the request was not sent."""


class ConnectionLost(Retryable):
    """The connection broke before the whole answer had come."""


class TimedOut(Retryable):
    """No answer came within the time given."""


class RateLimited(Retryable):
    """The server asks for fewer requests."""


class ServerFailed(Retryable):
    """The server says that it failed, or has no room now."""


class MalformedAnswer(Retryable):
    """What the server sent is not an answer of the promised form."""


class Permanent(ModelError):
    """Asking again would fail in the same way."""


class PromptTooLong(Permanent):
    """The text that must be kept does not fit into the model's positions."""


class NonFiniteLogits(Permanent):
    """The model's logits hold NaN or infinity, so there is no score."""


class RequestRefused(Permanent):
    """The server does not take this request as it is."""


class AnswerWithheld(Permanent):
    """The server kept back what the model wrote (a content filter)."""


class ModelUnavailable(ModelError):
    """The model cannot be found, loaded or reached at all."""


def names_under(error: type[Exception]) -> frozenset[str]:
    """Return the names of a class of errors and of all that derive from it, as outputs carry them."""
    return frozenset({error.__name__}).union(*(names_under(kind) for kind in error.__subclasses__()))
