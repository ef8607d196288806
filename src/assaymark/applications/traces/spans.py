"""Spans of the user's code: `@assaymark.trace`, `assaymark.span` and the destination of spans.

Spans are made by OpenTelemetry's SDK and named by OpenInference's conventions, so any backend that reads those shows
them. Without a destination, decorators and blocks do nothing. Spans go

- to the tracer provider that the program has set up itself, if any;
- else to the receiver of `send_traces`, or of OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS.

A function that `assaymark.evaluate` calls is within the trace of its row; a command finds the trace in TRACEPARENT.
"""

import functools
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, overload
from urllib.parse import unquote

from assaymark.errors import MissingExtra, UsageError
from assaymark.limits.characters import exception_text
from assaymark.records.json_values import MOST_OF_INT

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

F = TypeVar("F", bound=Callable[..., object])

KINDS = ("llm", "embedding", "retriever", "reranker", "tool", "agent", "chain", "guardrail", "evaluator", "span")
"""Kinds of step: a call of a model, of an embedding model, a search, ...; `span` is anything else."""

LONGEST = 100_000  # characters of a recorded value
MOST_ATTRIBUTES = 4096  # of a span; OpenTelemetry's own limit of 128 loses the messages of a longer chat
_SETTINGS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_lock = threading.Lock()
_sent_to: "list[Destination]" = []  # as set by `send_traces`, at most one


@dataclass(frozen=True, slots=True)
class Destination:
    """A server that receives spans: its address without a path, and the headers that it wants."""

    base: str
    headers: Mapping[str, str]

    @property
    def token(self) -> str:
        """The token in the headers; "" without one."""
        named = next((value for name, value in self.headers.items() if name.lower() == "authorization"), "")
        scheme, _, token = named.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


class ActiveSpan:
    """The span of a `with` block; every method does nothing if spans are not sent."""

    def __init__(self, otel: "Span | None") -> None:
        self._span = otel

    @property
    def trace_id(self) -> str | None:
        """The id of its trace, 32 hexadecimal digits; None where nothing is sent."""
        return None if self._span is None else f"{self._span.get_span_context().trace_id:032x}"

    def set(self, **attributes: object) -> None:
        """Set attributes; a double underscore in a name is a dot, as in `set(user__id="ada")`."""
        for name, value in attributes.items():
            self._attribute(name.replace("__", "."), value)

    def input(self, value: object) -> None:
        """Record the input of the step."""
        self._value("input", value)

    def output(self, value: object) -> None:
        """Record the output of the step."""
        self._value("output", value)

    def model(self, name: str, n_input: int | None = None, n_output: int | None = None) -> None:
        """Record the model that answered, with the tokens read and generated."""
        self._attribute("llm.model_name", name)
        self._attribute("llm.token_count.prompt", n_input)
        self._attribute("llm.token_count.completion", n_output)

    def messages(self, sent: "str | Sequence[object]", answered: "str | Sequence[object]" = ()) -> None:
        """Record the messages of a chat, each with role and content, as chat APIs have them.

        A text is a message too: of the user, or as the answer of the assistant.
        """
        for side, role, messages in (("input", "user", sent), ("output", "assistant", answered)):
            for at, message in enumerate([messages] if isinstance(messages, str | Mapping) else messages):
                fields = message if isinstance(message, Mapping) else {"role": role, "content": message}
                self._message(f"llm.{side}_messages.{at}.message", fields)

    def documents(self, documents: Sequence[object]) -> None:
        """Record the documents that a search returned: texts, or mappings with id, content and score."""
        for at, document in enumerate(documents):
            fields = document if isinstance(document, Mapping) else {"content": str(document)}
            for name in ("id", "content", "score"):
                self._attribute(f"retrieval.documents.{at}.document.{name}", fields.get(name))

    def error(self, error: BaseException | str) -> None:
        """Record that the step failed."""
        if self._span is None:
            return
        from opentelemetry.trace import Status, StatusCode

        if isinstance(error, BaseException):
            with suppress(Exception):  # a user's class, whose __str__ may fail
                self._span.record_exception(error)
        text = exception_text(error) if isinstance(error, BaseException) else error
        self._span.set_status(Status(StatusCode.ERROR, _sendable(text)))

    def _message(self, prefix: str, message: Mapping[str, object]) -> None:
        self._attribute(f"{prefix}.role", message.get("role"))
        self._attribute(f"{prefix}.content", message.get("content"))
        self._attribute(f"{prefix}.tool_call_id", message.get("tool_call_id"))
        calls = message.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list | tuple) else ()):
            if not isinstance(call, Mapping) or not isinstance(function := call.get("function", {}), Mapping):
                continue
            place = f"{prefix}.tool_calls.{at}.tool_call"
            self._attribute(f"{place}.id", call.get("id"))
            self._attribute(f"{place}.function.name", function.get("name"))
            self._attribute(f"{place}.function.arguments", function.get("arguments"))

    def _value(self, side: str, value: object) -> None:
        if isinstance(value, str):
            self._attribute(f"{side}.value", value)
        elif value is not None:
            self._attribute(f"{side}.value", _json(value))
            self._attribute(f"{side}.mime_type", "application/json")

    def _attribute(self, name: str, value: object) -> None:
        if self._span is None or value is None:
            return
        if isinstance(value, float) or (isinstance(value, int) and abs(value) < MOST_OF_INT):
            self._span.set_attribute(name, value)
        else:
            self._span.set_attribute(name, _sendable(value if isinstance(value, str) else _json(value)))


@contextmanager
def span(
    name: str,
    *,
    kind: str = "chain",
    input: object = None,  # noqa: A002 - what traces call it
    **attributes: object,
) -> Iterator[ActiveSpan]:
    """Record the block as a step of the present trace, or of a new one; an exception in it is recorded and goes on.

    Args:
        name: of the step.
        kind: llm, embedding, retriever, reranker, tool, agent, chain, guardrail, evaluator or span.
        input: of the step.
        attributes: as for `ActiveSpan.set`, such as `user__id="ada"` and `session__id="s1"`.

    Raises: UsageError for an unknown kind; MissingExtra if spans are to be sent without the extra `traces`.
    """
    _check(kind)
    tracer = _tracer()
    if tracer is None:
        yield ActiveSpan(None)
        return
    with tracer.start_as_current_span(
        _sendable(name), context=_parent(), record_exception=False, set_status_on_exception=False
    ) as it:
        active = ActiveSpan(it)
        if kind != "span":
            active.set(openinference__span__kind=kind.upper())
        active.input(input)
        active.set(**attributes)
        try:
            yield active
        except BaseException as error:
            active.error(error)
            raise


@overload
def trace(function: F, /) -> F: ...


@overload
def trace(*, name: str | None = None, kind: str = "chain", **attributes: object) -> Callable[[F], F]: ...


def trace(
    function: object = None, /, *, name: str | None = None, kind: str = "chain", **attributes: object
) -> F | Callable[[F], F]:
    """Record each call of a function as a step: its arguments by name, and its result or exception.

    Functions, coroutine functions and generators of both kinds can be decorated; the values that a generator yields are
    its output.

    Args:
        function: the function, where the decorator is used without parentheses.
        name: of the step (default: the function's).
        kind: as for `span`.
        attributes: as for `span`.

    Raises: UsageError for an unknown kind.
    """
    _check(kind)
    if function is None:
        return functools.partial(_traced, name=name, kind=kind, attributes=attributes)
    traced: F = _traced(function, name=name, kind=kind, attributes=attributes)
    return traced


def _traced(function: Any, *, name: str | None, kind: str, attributes: Mapping[str, object]) -> Any:
    step_name = name or str(getattr(function, "__name__", type(function).__name__))

    def step(args: tuple[object, ...], keywords: Mapping[str, object]) -> AbstractContextManager[ActiveSpan]:
        return span(step_name, kind=kind, input=_arguments(function, args, keywords), **attributes)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaiting(*args: object, **keywords: object) -> object:
            with step(args, keywords) as active:
                value = await function(*args, **keywords)
                active.output(value)
                return value

        return awaiting
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def yielding_later(*args: object, **keywords: object) -> object:
            pieces: list[object] = []
            with step(args, keywords) as active:
                try:
                    async for piece in function(*args, **keywords):
                        pieces.append(piece)
                        yield piece
                finally:
                    active.output(_joined(pieces))

        return yielding_later
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def yielding(*args: object, **keywords: object) -> object:
            pieces: list[object] = []
            with step(args, keywords) as active:
                try:
                    for piece in function(*args, **keywords):
                        pieces.append(piece)
                        yield piece
                finally:
                    active.output(_joined(pieces))

        return yielding

    @functools.wraps(function)
    def calling(*args: object, **keywords: object) -> object:
        with step(args, keywords) as active:
            value = function(*args, **keywords)
            active.output(value)
            return value

    return calling


def send_traces(
    endpoint: str, token: str | None = None, *, service: str = "application", version: str | None = None
) -> None:
    """Send spans to a receiver of OTLP over HTTP from now on: ours, or any other backend.

    Unsent spans are sent when the program ends.

    Args:
        endpoint: such as `http://127.0.0.1:7500`; `/v1/traces` is appended where it is not there.
        token: of the project; None where the backend needs none.
        service: name of the application.
        version: of the application, by which traces can be listed.

    Raises: MissingExtra; UsageError for an address that is none, or where the program has set up a provider already.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"the endpoint is '{endpoint}'; expected http://HOST:PORT of a server that receives OTLP")
    address = endpoint.rstrip("/")
    address = address if address.endswith("/v1/traces") else f"{address}/v1/traces"
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with _lock:
        if _has_provider():
            raise UsageError(
                "this program has a tracer provider already; give it an exporter for this endpoint instead"
            )
        _set_up(
            address, headers, {"service.name": service, **({} if version is None else {"service.version": version})}
        )
        _sent_to[:] = [Destination(address.removesuffix("/v1/traces"), headers)]


def destination() -> Destination | None:
    """Return the destination of spans: as set by `send_traces`, else by OpenTelemetry's variables; None without one."""
    if _sent_to:
        return _sent_to[0]
    address = next((value for name in reversed(_SETTINGS) if (value := os.environ.get(name))), None)
    if address is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    names = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    pairs = next((value for name in names if (value := os.environ.get(name))), "").split(",")
    headers = {
        name.strip(): unquote(value.strip()) for name, _, value in (pair.partition("=") for pair in pairs) if name
    }
    return Destination(address.rstrip("/").removesuffix("/v1/traces"), headers)


def current_trace_id() -> str | None:
    """Return the id of the present trace, 32 hexadecimal digits; None outside of one."""
    otel = sys.modules.get("opentelemetry.trace")  # without which there is none
    context = None if otel is None else otel.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context is not None and context.is_valid else None


@contextmanager
def within_trace(traceparent: str | None) -> Iterator[None]:
    """Make spans of the block part of a trace that another program began, named by W3C's header."""
    if traceparent is None or not _is_installed():
        yield
        return
    from opentelemetry import context as contexts

    token = contexts.attach(_extracted(traceparent))
    try:
        yield
    finally:
        contexts.detach(token)


# ------------------------------------------------------------------------------------------- the SDK


@functools.cache
def _is_installed() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None


def _has_provider() -> bool:
    """Return whether the program has a provider that records spans."""
    otel = sys.modules.get("opentelemetry.trace")  # without which there is none
    return otel is not None and not isinstance(otel.get_tracer_provider(), otel.ProxyTracerProvider)


def _tracer() -> "Tracer | None":
    """Return the tracer; None without a destination. Raises: MissingExtra."""
    is_configured = any(os.environ.get(name) for name in _SETTINGS)
    if not _has_provider():
        if not is_configured or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return None
        with _lock:
            if not _has_provider():
                _set_up(None, None, {})
    from opentelemetry import trace as otel

    return otel.get_tracer("assaymark")


def _set_up(address: str | None, headers: Mapping[str, str] | None, resource: Mapping[str, str]) -> None:
    """Make the program's provider; values that are None come from OpenTelemetry's variables. Raises: MissingExtra."""
    if not _is_installed() or find_spec("opentelemetry.exporter") is None:
        raise MissingExtra("sending traces", "traces")
    from opentelemetry import trace as otel
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporter = OTLPSpanExporter(endpoint=address, headers=None if headers is None else dict(headers))
    limits = SpanLimits(max_attributes=MOST_ATTRIBUTES)
    provider = TracerProvider(resource=Resource.create(dict(resource)), span_limits=limits)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    otel.set_tracer_provider(provider)


def _parent() -> "Context | None":
    """Return the context of a trace that TRACEPARENT names, for a span that has no parent in this program."""
    from opentelemetry import trace as otel

    header = os.environ.get("TRACEPARENT")
    if header is None or otel.get_current_span().get_span_context().is_valid:
        return None
    return _extracted(header)


def _extracted(traceparent: str) -> "Context":
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})


# -------------------------------------------------------------------------------------------- values


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise UsageError(f"the kind of step is '{kind}'; expected one of {', '.join(KINDS)}")


def _arguments(function: Callable[..., object], args: Sequence[object], keywords: Mapping[str, object]) -> object:
    """Return the arguments of a call by name, without `self`; as they are if they do not fit the function."""
    try:
        bound = inspect.signature(function).bind(*args, **keywords)
    except (TypeError, ValueError):
        return {"args": list(args), **keywords}
    return {name: value for name, value in bound.arguments.items() if name not in {"self", "cls"}}


def _joined(pieces: Sequence[object]) -> object:
    """Return a generator's values, joined to one text if all are texts."""
    texts = [piece for piece in pieces if isinstance(piece, str)]
    return "".join(texts) if texts and len(texts) == len(pieces) else list(pieces)


def _json(value: object) -> str:
    """Return a value as JSON, with the representations of parts that JSON cannot hold.

    Nothing that a value does when it is looked at may end the program that is recorded.
    """
    try:
        return json.dumps(value, ensure_ascii=False, default=lambda part: _representation(part)[:1000])
    except Exception:  # noqa: BLE001 - of a user's class, or what JSON cannot hold
        return _representation(value)


def _representation(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - as of an object whose database session is closed
        return f"({type(value).__name__}, whose __repr__ raised {type(error).__name__})"


def _sendable(text: str) -> str:
    """Return what can be sent of a text: a bounded part, without halves of surrogate pairs, which UTF-8 has not."""
    return text[:LONGEST].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
