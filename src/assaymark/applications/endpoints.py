"""Targets behind HTTP: a URL that receives a body made from each row, and the path of the answer in its response.

The server is not trusted: a response is read within limits of time and size, redirects are not followed, and its error
messages are quoted only in part. Values of headers are never stored, nor shown in errors.
"""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypedDict
from urllib.parse import urlsplit

import httpx

from assaymark.applications.arguments import names_in, prompt_of
from assaymark.applications.functions import traceparent
from assaymark.applications.returned import Returned, read_returned
from assaymark.applications.rows import Row
from assaymark.errors import (
    ConnectionLost,
    ModelError,
    Permanent,
    RateLimited,
    RequestRefused,
    ServerFailed,
    TimedOut,
    Unreachable,
    UsageError,
)
from assaymark.limits.addresses import NotPublic, checked_addresses
from assaymark.limits.nesting import parse_json
from assaymark.models.server.failures import HttpFailure, KeyHider, failure_within
from assaymark.models.server.public_only import PublicTransport, RefusedAddress
from assaymark.models.server.response_limits import ACCEPT_ENCODING, ResponseBody, ResponseLimits, decoded
from assaymark.records import JsonValue, canonical_json, content_hash

_NAME = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")  # {{question}}
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(-?\d+)\]")  # of a path: answers[0].text
_ENVIRONMENT = re.compile(r"\$\{(\w+)\}")  # in values of headers
_SECRET = ("auth", "key", "token", "secret", "cookie")  # in names of headers
_KEPT_OPEN = 32  # connections
_QUOTED = 300  # characters of a response in a message


@dataclass(frozen=True)
class EndpointTarget:
    """An HTTP endpoint.

    body: a template: a mapping, list or text, or its JSON, in which `{{name}}` stands for an input, `{{inputs}}` for
    all and `{{prompt}}` for their text; None: the inputs by name, or {"input": text}. answer_path: of the answer in the
    response, such as `choices[0].message.content`; None: the whole response. headers: their values may name environment
    variables, `Bearer ${TOKEN}`. public_only: refuse addresses of this machine and its network.
    """

    url: str
    body: JsonValue = None
    answer_path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    given_name: str | None = None
    public_only: bool = False

    kind = "endpoint"
    base = None
    source_hash = None  # a server does not show its code, so answers without a version are not reused by other runs

    @property
    def name(self) -> str:
        """The name under which its results are shown: the URL without credentials and query."""
        parts = urlsplit(self.url)
        return self.given_name or f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"

    @cached_property
    def template(self) -> JsonValue:
        """The body with its placeholders. Raises: UsageError for a text that looks like JSON but is invalid."""
        if not isinstance(self.body, str) or self.body.strip()[:1] not in ("{", "["):
            return self.body
        try:
            return parse_json(self.body)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f'the body of {self.name} is not valid JSON: {error}; placeholders stand in texts: "{{{{question}}}}"'
            ) from None

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """URL without credentials and query, body, path of the answer, and names of headers."""
        parts = urlsplit(self.url)
        public_url = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        query = (("query", content_hash(parts.query)),) if parts.query else ()  # it may hold a key
        body = (("body", self.template), ("answer_path", self.answer_path), ("headers", sorted(self.headers)))
        return (("url", public_url), *query, *body)

    def bind(self, rows: Sequence[Row]) -> "_BoundEndpoint":
        """Return the endpoint, to be called with rows.

        Raises: UsageError for a URL, a path, a placeholder or a header that does not fit.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"the target is '{self.url}'; expected http://HOST/PATH or https://HOST/PATH")
        known = set(names_in(rows))
        for text in _texts_of(self.template):
            for name in _NAME.findall(text):
                if name.partition(".")[0] not in known:
                    raise UsageError(
                        f"the body of {self.name} has {{{{{name}}}}}, and the rows have no such input; expected one of "
                        f"{', '.join(sorted(known))}"
                    )
        steps = None if self.answer_path is None else _steps(self.answer_path)
        headers = {name: _filled(name, value) for name, value in self.headers.items()}
        pool = httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_OPEN)
        if self.public_only:
            self._refuse_private(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
            client = httpx.Client(transport=PublicTransport(limits=pool), follow_redirects=False, trust_env=False)
        else:
            client = httpx.Client(follow_redirects=False, limits=pool)
        return _BoundEndpoint(self.url, self.name, self.template, steps, headers, client, self._secrets(headers))

    def _refuse_private(self, host: str, port: int) -> None:
        """Refuse a host that is not at a public address, before the first call; calls check it again.

        Raises: UsageError. A name that cannot be resolved now is left to the calls, which report it.
        """
        try:
            checked_addresses(host, port)
        except NotPublic as refused:
            raise UsageError(
                f"the target {self.name} may not be called: {refused} (--public_only, or ASSAYMARK_PUBLIC_ONLY is set)"
            ) from None
        except (OSError, UnicodeError):
            return

    def _secrets(self, headers: Mapping[str, str]) -> KeyHider:
        """Return a function that removes secrets from responses: values of secret headers, credentials in the URL."""
        values = [
            value
            for name, value in headers.items()
            if _ENVIRONMENT.search(self.headers[name]) or any(word in name.lower() for word in _SECRET)
        ]
        parts = urlsplit(self.url)
        return KeyHider(
            tuple(filter(None, (*values, *(word for value in values for word in value.split()), parts.password)))
        )


class _SentBody(TypedDict, total=False):
    """The argument of httpx for a body: its bytes where it is a text, else a value that it sends as JSON."""

    content: bytes
    json: JsonValue


@dataclass(frozen=True, slots=True)
class _BoundEndpoint:
    url: str
    name: str
    template: JsonValue
    steps: tuple[str | int, ...] | None
    headers: Mapping[str, str] = field(repr=False)
    client: httpx.Client = field(repr=False)
    keys: KeyHider = field(repr=False)
    is_async = False
    keeps_limit = True

    def text(self, row: Row) -> str:
        """Return the body that is sent."""
        body = self._body(row)
        return body if isinstance(body, str) else canonical_json(body)

    def _body(self, row: Row) -> JsonValue:
        inputs = row.inputs
        if self.template is None:
            return dict(inputs) if isinstance(inputs, Mapping) else {"input": inputs}
        values = {"input": inputs, "inputs": inputs, "prompt": prompt_of(row), "id": row.id}
        values |= dict(inputs) if isinstance(inputs, Mapping) else {}
        return _with_values(self.template, values)

    def start(self, row: Row, repeat: int, timeout_s: float, trace_id: str) -> Callable[[], object]:  # noqa: ARG002
        """Return the call for a row."""
        body = self._body(row)
        headers = {"Accept-Encoding": ACCEPT_ENCODING, "traceparent": traceparent(trace_id), **self.headers}
        sent: _SentBody = {"content": body.encode()} if isinstance(body, str) else {"json": body}
        return lambda: self._send(sent, headers, timeout_s)

    def _send(self, sent: _SentBody, headers: Mapping[str, str], timeout_s: float) -> str:
        """Send a request and return the response's text. Raises: ModelError."""
        deadline = time.monotonic() + timeout_s
        try:
            with self.client.stream("POST", self.url, headers=dict(headers), timeout=timeout_s, **sent) as response:
                body = ResponseBody(response.headers, ResponseLimits(), for_quoting=not response.is_success)
                for chunk in response.iter_raw():
                    if time.monotonic() > deadline:  # httpx limits the time between two chunks only
                        raise httpx.ReadTimeout("the response is sent too slowly")
                    if not body.add(chunk):
                        break
            text = decoded(body.content) if response.is_success else body.text
        except HttpFailure as failure:
            raise Permanent(f"{self.name}: {failure}") from None
        except httpx.TimeoutException:
            raise TimedOut(f"{self.name} did not answer within {timeout_s:g} s; raise the time limit") from None
        except RefusedAddress as refused:
            raise Permanent(f"{self.name} may not be called: {refused}") from None
        except httpx.ConnectError as error:
            raise Unreachable(f"{self.name} cannot be reached: {error}") from None
        except httpx.TransportError as error:
            raise ConnectionLost(f"{self.name}: the connection broke: {type(error).__name__}") from None
        if not response.is_success:
            raise _refused(self.name, response.status_code, self.keys.text(text))
        _refuse_failure(self.name, self.keys.text(text))
        return text

    def read(self, value: str) -> Returned:
        """Return the answer in a response. Raises: Permanent if it is not at its path."""
        try:
            content: JsonValue = self.keys.value(parse_json(value))
        except (ValueError, RecursionError):
            value = self.keys.text(value)
            if self.steps is None:
                return read_returned(value)
            raise Permanent(f"{self.name} answered {value[:_QUOTED]!r}, which is no JSON") from None
        around = read_returned(content)
        if self.steps is None:
            return around
        at = content
        for step in self.steps:
            try:
                at = _inside(at, step)
            except LookupError:
                path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
                raise Permanent(
                    f"{self.name}: the response has no {path.removeprefix('.')}; "
                    f"it is {canonical_json(content)[:_QUOTED]}"
                ) from None
        answer = read_returned(at)
        return Returned(
            answer.value, around.cost, around.n_tokens, around.n_prompt_tokens, around.contexts or answer.contexts
        )


def _refused(name: str, status: int, text: str) -> ModelError:
    """Return the failure that a status stands for."""
    line = f"{name} answered with status {status}: {' '.join(text.split())[:_QUOTED] or 'without a text'}"
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return RateLimited(line)
    if status == httpx.codes.REQUEST_TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ServerFailed(line)
    return RequestRefused(line)


def _refuse_failure(name: str, text: str) -> None:
    """Raise the ModelError that a gateway reports in a chat completion although the status is 200."""
    try:
        content = parse_json(text)
    except (ValueError, RecursionError):
        return
    if isinstance(content, Mapping) and "choices" in content and (failure := failure_within(content)):
        raise failure.error(f"{name}: {failure.message}")


def _texts_of(template: JsonValue) -> list[str]:
    """Return all texts in a template."""
    if isinstance(template, Mapping):
        return [text for value in template.values() for text in _texts_of(value)]
    if isinstance(template, list | tuple):
        return [text for value in template for text in _texts_of(value)]
    return [template] if isinstance(template, str) else []


def _with_values(template: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """Return a template with its placeholders filled; a text that is only a placeholder becomes the value itself."""
    if isinstance(template, Mapping):
        return {name: _with_values(value, values) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [_with_values(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if whole := _NAME.fullmatch(template.strip()):
        return _looked_up(whole[1], values)
    return _NAME.sub(lambda match: _as_text(_looked_up(match[1], values)), template)


def _looked_up(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if name in values:
        return values[name]
    first, _, rest = name.partition(".")
    value = values.get(first)
    return _looked_up(rest, value) if isinstance(value, Mapping) else None


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _steps(path: str) -> tuple[str | int, ...]:
    """Return the steps of a path such as `choices[0].message.content`, with or without `$.` or `json.` before it."""
    plain = path.strip().removeprefix("$").removeprefix("json.").lstrip(".")
    steps: list[str | int] = []
    at = 0
    while at < len(plain):
        match = _STEP.match(plain, at)
        if match is None or match.end() == at:
            raise UsageError(
                f"the path of the answer is '{path}'; expected names and positions, as choices[0].message.content"
            )
        steps.append(match[1] if match[1] is not None else int(match[2]))
        at = match.end()
    return tuple(steps)


def _inside(value: JsonValue, step: str | int) -> JsonValue:
    """Return the value at a key or a position. Raises: LookupError if there is none."""
    if isinstance(value, Mapping):
        return value[step]
    if isinstance(value, list | str) and isinstance(step, int):
        return value[step]
    raise LookupError(step)


def _filled(name: str, value: str) -> str:
    """Return a header's value with environment variables filled in. Raises: UsageError for one that is not set."""

    def variable(match: re.Match[str]) -> str:
        if (setting := os.environ.get(match[1])) is None:
            raise UsageError(f"the header {name} names the environment variable {match[1]}, which is not set")
        return setting

    filled = _ENVIRONMENT.sub(variable, value)
    if "\n" in filled or "\r" in filled:
        raise UsageError(f"the header {name} has a line break; expected a value in one line")
    return filled
