"""Targets: interfaces to applications, and a `Model` that answers a run's requests through them.

A target is a function, an HTTP endpoint or a command. `target_of` makes one from a user's object or name; `TargetModel`
calls it for the rows of a run. Its identity covers everything that decides its answers: its source and a `version`.
"""

import secrets
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from assaymark import settings
from assaymark.applications.calls import Call, CallEnd, CallRules, run_calls
from assaymark.applications.endpoints import EndpointTarget
from assaymark.applications.functions import FunctionTarget, load_named
from assaymark.applications.processes import CommandTarget
from assaymark.applications.returned import CallFacts, Returned
from assaymark.applications.rows import Row
from assaymark.applications.source import files_hash, name_of_function
from assaymark.documents.numbers import counted
from assaymark.errors import AssaymarkError, ModelError, Permanent, Retryable, TimedOut, UsageError
from assaymark.limits.characters import exception_message
from assaymark.models.model import OutputCache
from assaymark.records import (
    JsonValue,
    Message,
    ModelIdentity,
    Output,
    Progress,
    QueryKind,
    Request,
    WorkEstimate,
    content_hash,
    n_outputs_of,
)

KIND = "application"
LOOKED_UP = 100  # requests looked up in the cache at once
LONGEST_ERROR = 2000  # characters of an exception's message
_TEMPORARY = (
    "timeout", "ratelimit", "connection", "serviceunavailable", "internalserver", "overloaded", "toomanyrequests",
)  # fmt: skip


class BoundTarget(Protocol):
    """A target with its parameters bound to parts of a row by name."""

    @property
    def is_async(self) -> bool:
        """Whether `start` returns coroutines."""

    @property
    def keeps_limit(self) -> bool:
        """Whether a call ends by itself when its time is over."""

    def text(self, row: Row) -> str:
        """Return its arguments as text."""

    def start(self, row: Row, repeat: int, timeout_s: float, trace_id: str) -> Callable[[], object]:
        """Return the call for a row."""

    def read(self, value: Any) -> Returned:
        """Return a call's result. Raises: ModelError."""


class Target(Protocol):
    """An interface through which an application is called."""

    @property
    def name(self) -> str:
        """The name under which its results are shown."""

    @property
    def kind(self) -> str:
        """function, endpoint or command."""

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """Those of its arguments that can change an answer."""

    @property
    def source_hash(self) -> str | None:
        """A hash of its source; None if that is not visible, as for a server. Raises: UsageError."""

    @property
    def base(self) -> Path | None:
        """The folder to which names of files are relative."""

    def bind(self, rows: Sequence[Row]) -> BoundTarget:
        """Return it with its parameters bound to rows. Raises: UsageError naming a parameter that fits nothing."""


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """How a target is identified and called.

    version: of parts outside the source, such as a deployed release; files: prompts that it reads, which are part of
    its identity.
    """

    name: str | None = None
    version: str | None = None
    files: tuple[str, ...] = ()
    body: JsonValue = None  # of an endpoint
    answer_path: str | None = None  # of an endpoint
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # of an endpoint
    public_only: bool = False  # of an endpoint: refuse addresses that are not public
    rules: CallRules = field(default_factory=CallRules)


def target_of(target: object, options: TargetOptions) -> Target:
    """Return the target that a user named or gave.

    Raises: UsageError if it is none, or cannot be imported.
    """
    is_endpoint = isinstance(target, str) and target.startswith(("http://", "https://"))
    for name in ("body", "answer_path", "headers", "public_only"):
        if getattr(options, name) and not is_endpoint:
            raise UsageError(f"{name} is of an HTTP endpoint, and the target is {target!r:.80}; omit it, or name a URL")
    if isinstance(target, str) and is_endpoint:
        public_only = options.public_only or settings.public_only()
        return EndpointTarget(target, options.body, options.answer_path, options.headers, options.name, public_only)
    if isinstance(target, str) and target.startswith("exec:"):
        return CommandTarget(target.removeprefix("exec:").strip(), options.name)
    if isinstance(target, str):
        function, name = load_named(target)
        return FunctionTarget(function, options.name or name)
    if callable(target):
        return FunctionTarget(target, options.name or name_of_function(target))
    raise UsageError(
        f"the target is {target!r:.80}, of type {type(target).__name__}; expected a function, FILE.py:NAME, "
        "module:name, a URL, or exec:COMMAND"
    )


class TargetModel:
    """A target as the model of a run: it calls the target with the rows of its requests."""

    takes_messages = False

    def __init__(self, target: Target, rows: Sequence[Row], options: TargetOptions) -> None:
        """Bind the target to the rows. Raises: UsageError naming a parameter that fits nothing."""
        self.target, self.options = target, options
        self.bound = target.bind(rows)
        self._rows = rows
        self._n_coloured = 0  # outputs from which a terminal's control sequences were removed

    @cached_property
    def identity(self) -> ModelIdentity:
        """The identity: a hash of its source, of the files it is said to read, and its version."""
        options = self.options
        try:
            source = self.target.source_hash
        except UsageError:
            if options.version is None:
                raise
            source = None
        files = files_hash(options.files, self.target.base)
        visible: dict[str, JsonValue] = {"source": source, "files": files, "version": options.version}
        is_known = source is not None or options.version is not None
        version = () if options.version is None else (("version", options.version),)
        name = self.target.name if options.version is None else f"{self.target.name}@{options.version}"
        return ModelIdentity(
            name=name,
            kind=KIND,
            content_hash=content_hash({**visible, "options": list(self.target.options)}) if is_known else None,
            tokenizer_hash=None,
            template_hash=None,
            dtype="unknown",
            numerics="numerics unknown",
            options=(("target", self.target.kind), *self.target.options, *version),
        )

    @property
    def answers(self) -> frozenset[QueryKind]:
        """It generates answers."""
        return frozenset({QueryKind.GENERATE})

    def check(self) -> None:
        """Do nothing: faults of a target were refused when it was bound."""

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: str | None = None) -> str:  # noqa: ARG002
        """Refuse: an application takes inputs, not chats."""
        raise UsageError(
            f"{self.target.name} is an application, which is called with a row's inputs; it has no chat template"
        )

    def answer(
        self,
        requests: Sequence[Request],
        *,
        cache: OutputCache | None = None,
        observe: Callable[[Progress], None] | None = None,
    ) -> Iterator[Output]:
        """Call the target for each request and repeat; yield each output as soon as it is finished.

        Raises: ModelUnavailable where so many calls hang that no more can be made.
        """
        started = time.monotonic()
        tally = _Tally(sum(request.n_outputs for request in requests))

        def report() -> None:
            if observe is not None:
                note = f"{tally.n_failed:,} failed" if tally.n_failed else ""
                observe(Progress(tally.n_done, tally.n_all, 0, 0, 0, tally.n_cached, time.monotonic() - started, note))

        asked: list[_AskedRepeat] = []
        for output_or_asked in self._from_cache(requests, cache):
            if isinstance(output_or_asked, _AskedRepeat):
                asked.append(output_or_asked)
                continue
            tally.n_done, tally.n_cached = tally.n_done + 1, tally.n_cached + 1
            yield output_or_asked
        report()
        for ended in run_calls((self._call(each) for each in asked), self.options.rules, report):
            output = self._output(ended)
            tally.n_done += 1
            tally.n_failed += output.error is not None
            yield output
            report()

    def _from_cache(self, requests: Sequence[Request], cache: OutputCache | None) -> "Iterator[Output | _AskedRepeat]":
        """Yield the known outputs, and the repeats that have to be asked."""
        for at in range(0, len(requests), LOOKED_UP):
            asked = [each for request in requests[at : at + LOOKED_UP] for each in self._asked(request)]
            keys = [each.cache_key for each in asked if each.cache_key is not None]
            known = cache.find(keys) if cache is not None and keys else {}
            for each in asked:
                stored = known.get(each.cache_key) if each.cache_key is not None else None
                if stored is None:
                    yield each
                else:
                    yield replace(
                        stored, request_id=each.request.id, ask_index=each.index, repeat=each.repeat, from_cache=True
                    )

    def _asked(self, request: Request) -> "Iterator[_AskedRepeat]":
        identity = self.identity
        for query in request.queries:
            for repeat in range(n_outputs_of(query)):
                key = None
                if identity.content_hash is not None:
                    key = "application:" + content_hash([identity.content_hash, request.prompt, repeat])
                yield _AskedRepeat(request, query.index, repeat, key, secrets.token_hex(16))

    def _call(self, asked: "_AskedRepeat") -> "Call[_AskedRepeat]":
        row, rules = self._rows[asked.request.sample_index], self.options.rules
        start = self.bound.start(row, asked.repeat, rules.timeout_s, asked.trace_id)
        return Call(asked, start, self.bound.is_async, self.bound.keeps_limit)

    def _output(self, ended: "CallEnd[_AskedRepeat]") -> Output:
        asked = ended.about
        facts = CallFacts(latency_s=round(ended.seconds, 6), trace_id=asked.trace_id, n_tries=ended.n_tries)
        plain = Output(asked.request.id, asked.index, asked.repeat, call=facts.to_json())
        if ended.is_timed_out:
            limit = self.options.rules.timeout_s
            message = f"{self.target.name} did not return within {limit:g} s; raise the time limit, or find out why"
            return replace(plain, error=message, error_kind=TimedOut.__name__)
        error = ended.error
        if error is None:
            try:
                returned = self.bound.read(ended.value)
            except ModelError as refused:
                error = refused
        if error is not None:
            return replace(plain, error=_message(error, self.target.name), error_kind=_kind(error))
        self._n_coloured += returned.had_colours
        facts = replace(
            facts,
            cost=returned.cost,
            n_tokens=returned.n_tokens,
            contexts=returned.contexts,
            is_json=not isinstance(returned.value, str),
        )
        n_prompt = returned.n_prompt_tokens or 0
        return replace(
            plain,
            text=returned.text,
            finish_reason="stop",
            n_context_tokens=n_prompt,
            n_tokens=max(0, (returned.n_tokens or 0) - n_prompt),
            cache_key=asked.cache_key,
            call=facts.to_json(),
        )

    def stream(self, request: Request) -> Iterator[str]:
        """Yield the whole answer: what a function returns comes at once.

        Raises: ModelError where the call fails.
        """
        for output in self.answer([request]):
            if output.error is not None:
                raise Permanent(output.error)
            yield output.text or ""

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the number of calls; nothing else is known of a target."""
        n = sum(request.n_outputs for request in requests)
        return WorkEstimate(len(requests), n, None, None)

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:  # noqa: ARG002
        """Return None: a target has no tokenizer."""
        return None

    def describe(self) -> Mapping[str, JsonValue]:
        """Return how the target was called."""
        rules, n_coloured = self.options.rules, self._n_coloured
        note = f"{counted(n_coloured, 'answer')} with colours or other codes of a terminal, which were removed"
        return {
            **({"note": note} if n_coloured else {}),
            "target": self.target.name,
            "kind_of_target": self.target.kind,
            "concurrency": rules.concurrency,
            "timeout_s": rules.timeout_s,
            "retries": rules.retries,
        }

    def close(self) -> None:
        """Free nothing: threads end with their calls."""


@dataclass(frozen=True, slots=True)
class _AskedRepeat:
    """One repeat of one query of a request."""

    request: Request
    index: int
    repeat: int
    cache_key: str | None
    trace_id: str


@dataclass(slots=True)
class _Tally:
    n_all: int
    n_done: int = 0
    n_cached: int = 0
    n_failed: int = 0


def _message(error: BaseException, name: str) -> str:
    """Return an exception in a line: its type, its message, and where it was raised."""
    text = exception_message(error)[:LONGEST_ERROR]
    if isinstance(error, AssaymarkError):
        return text
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(str(Path(__file__).parent))
    ]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{name} raised {type(error).__name__}{': ' if text else ''}{text}{where}"


def _kind(error: BaseException) -> str:
    """Return the kind of failure: the next equal command retries temporary ones; others would fail again."""
    if isinstance(error, ModelError):
        return type(error).__name__
    if isinstance(error, TimeoutError):
        return TimedOut.__name__
    names = [kind.__name__.lower() for kind in type(error).__mro__]
    is_temporary = isinstance(error, ConnectionError) or any(word in name for name in names for word in _TEMPORARY)
    return Retryable.__name__ if is_temporary else Permanent.__name__
