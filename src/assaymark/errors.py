"""Every error that this package raises deliberately.

AssaymarkError
├─ UsageError   the request is invalid            UnknownName, PlanError, MissingExtra     exit 2
├─ DataError    outside data is malformed         MalformedSample                          exit 3
├─ StoreError   the store disagrees               SchemaTooNew, HashMismatch, RunBusy, LeaseLost   exit 4
└─ ModelError   a request could not be answered                                            exit 5
   ├─ Retryable   a later retry may succeed       Unreachable, ConnectionLost, TimedOut, RateLimited, ServerFailed,
   │                                              MalformedAnswer
   ├─ Permanent   a retry would fail alike       PromptTooLong, NonFiniteLogits, RequestRefused, AnswerWithheld
   └─ ModelUnavailable   no request can be answered

A message states what happened, the value seen, the value expected, and the remedy. A `ModelError` about one request is
stored with that request's output and the run continues; a failed request is never a wrong answer. Any other exception
is a bug of ours (exit 1): one line, with its traceback under `--debug`. `few` and `clipped` keep messages short.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager


class AssaymarkError(Exception):
    """The root of the tree; `exit_code` is the exit status of the command line."""

    exit_code = 1


class UsageError(AssaymarkError):
    """The caller's request is invalid."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not registered; the message lists the nearest ones."""

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
    """A run that cannot be executed as planned."""


class MissingExtra(UsageError):
    """An optional dependency is not installed; the message contains the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs the extra '{extra}', which is not installed; install it {install_line(extra)}")


def install_line(extra: str) -> str:
    """Return how an extra is installed; nothing is released yet, so it is installed from the source folder."""
    return f"in the folder of Assaymark's source: pip install '.[{extra}]'"


class DataError(AssaymarkError):
    """Outside data (a task file, a data set, a log) is malformed."""

    exit_code = 3


class MalformedSample(DataError):
    """One row of a data set lacks a field that its task needs."""


class StoreError(AssaymarkError):
    """The store cannot be opened, written or trusted."""

    exit_code = 4


class SchemaTooNew(StoreError):
    """The store was written by a later version of this package."""


class HashMismatch(StoreError):
    """The content stored under a hash does not have that hash."""


class RunBusy(StoreError):
    """Another process is writing the run."""


class StoreBusy(StoreError):
    """Another writer held the database longer than could be waited for."""


class LeaseLost(StoreError):
    """Another process took over the run that this one was writing."""


class ModelError(AssaymarkError):
    """A request could not be answered."""

    exit_code = 5


class Retryable(ModelError):
    """A later retry may succeed (a time-out, a rate limit)."""


class Unreachable(Retryable):
    """No connection to the server was established, so the request was not sent."""


class ConnectionLost(Retryable):
    """The connection broke before the answer was complete."""


class TimedOut(Retryable):
    """No answer arrived within the time limit."""


class RateLimited(Retryable):
    """The server requires fewer requests."""


class ServerFailed(Retryable):
    """The server reports that it failed, or has no capacity now."""


class MalformedAnswer(Retryable):
    """The server's response is not a valid answer."""


class Permanent(ModelError):
    """A retry would fail in the same way."""


class PromptTooLong(Permanent):
    """The part of the text that must not be truncated exceeds the model's positions."""


class NonFiniteLogits(Permanent):
    """The model's logits contain NaN or infinity, so there is no score."""


class RequestRefused(Permanent):
    """The server rejects this request."""


class AnswerWithheld(Permanent):
    """The server withheld the generated text (a content filter)."""


class ModelUnavailable(ModelError):
    """The model cannot be found, loaded or reached at all."""


def names_under(error: type[Exception]) -> frozenset[str]:
    """Return the names of a class of errors and of all its subclasses, as stored in outputs."""
    return frozenset({error.__name__}).union(*(names_under(kind) for kind in error.__subclasses__()))


def is_panic(error: BaseException) -> bool:
    """Return whether an exception is a panic of a library in Rust (tokenizers), whose class is no Exception."""
    return type(error).__name__ == "PanicException"


def panic_line(error: BaseException) -> str:
    """Return the message for a panic: it is the tokenizer that has native code in Rust."""
    text = " ".join(str(error).split())[:300]
    return f"the model's tokenizer failed in its native code: {text}; use another one with tokenizer=FOLDER"


@contextmanager
def write_errors(
    what: object, remedy: str = "", *, to: object = None, kind: type[AssaymarkError] = StoreError
) -> Iterator[None]:
    """Turn an OSError into one that says what cannot be written, why, and the remedy."""
    try:
        yield
    except OSError as error:
        where = "" if to is None else f" to {to}"
        why = f"{error.strerror or error}{remedy and f'; {remedy}'}"  # without the name of a draft
        raise kind(f"{what} cannot be written{where}: {why}") from error


def few(names: Sequence[str], most: int = 5) -> str:
    """Return the first names as one text, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def clipped(text: str, longest: int) -> str:
    """Return a text of at most so many characters, the last one an ellipsis where it was longer."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def clipped_line(text: str, longest: int) -> str:
    """Return the beginning of a text in one line of at most so many characters."""
    return clipped(" ".join(text[: 2 * longest].split()), longest)
