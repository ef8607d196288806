"""The models that pages may ask: OpenAI-compatible endpoints on the operator's list, and no others.

A visitor names an endpoint of the list and never an address. Answers are read as they are generated, within limits of
size and time; an endpoint's own words never reach a visitor except as the answer, since errors may contain addresses
or keys.

Source: OpenAI's API reference (chat completions, streaming).
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from assaymark.errors import UsageError
from assaymark.models.plain_prompts import STOP, transcript
from assaymark.models.server.failures import failure_within

NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}", re.ASCII)
CONNECT_SECONDS = 5.0
LARGEST_ANSWER = 1 << 20  # characters
LARGEST_STREAM = 16 << 20  # bytes
LONGEST_LINE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model that pages may ask. url: the API's base, such as http://127.0.0.1:7600/v1; model: None: its first one."""

    name: str
    url: str = field(repr=False)
    model: str | None = None
    key: str | None = field(default=None, repr=False)
    is_base: bool = False  # it continues texts: a conversation is sent to /completions as a plain transcript


@dataclass(frozen=True, slots=True)
class AskSettings:
    """How an answer is generated. Units: seconds, of the whole answer and without any piece."""

    max_tokens: int = 512
    temperature: float = 0.7
    top_p: float | None = None
    seed: int | None = None
    user: str | None = None  # told to the endpoint, so that a host serves visitors in turn
    seconds: float = 120.0
    silent_seconds: float = 60.0


class EndpointFailed(Exception):
    """An endpoint gave no whole answer; the message may be shown to visitors. is_busy: it may later."""

    def __init__(self, message: str, *, is_busy: bool = False) -> None:
        super().__init__(message)
        self.is_busy = is_busy


def read_endpoints(texts: Sequence[str], keys: Sequence[str] = ()) -> tuple[Endpoint, ...]:
    """Return the endpoints in NAME=URL, or NAME=URL#MODEL, with the keys in NAME=@FILE.

    A URL that ends with /completions, and not with /chat/completions, is of a base model.

    Raises: UsageError for anything else.
    """
    files: dict[str, str] = {}
    for text in keys:
        name, _, path = text.partition("=@")
        try:
            files[name] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--endpoint_key {name}: expected NAME=@FILE with a readable file ({error})") from error
        if not files[name].isascii() or not files[name].isprintable() or not files[name]:
            raise UsageError(f"--endpoint_key {name}: the file holds no key; expected one line of printable ASCII")
    endpoints: dict[str, Endpoint] = {}
    for text in texts:
        name, _, whole = text.partition("=")
        url, _, model = whole.partition("#")
        parts = urlsplit(url)
        if not NAME.fullmatch(name) or parts.scheme not in {"http", "https"} or not parts.netloc:
            raise UsageError(f"--endpoint {text!r}; expected NAME=URL such as small=http://127.0.0.1:7600/v1")
        if parts.username or parts.password or parts.query:
            raise UsageError(f"--endpoint {name}: the URL holds a user or a query; give a key with --endpoint_key")
        if name in endpoints:
            raise UsageError(f"two endpoints are called '{name}'; give one of them another name")
        plain = url.rstrip("/")
        is_base = plain.endswith("/completions") and not plain.endswith("/chat/completions")
        base = plain.removesuffix("/completions").removesuffix("/chat")
        endpoints[name] = Endpoint(
            name, base if urlsplit(base).path else f"{base}/v1", model or None, files.pop(name, None), is_base
        )
    if files:
        raise UsageError(f"--endpoint_key {next(iter(files))}: there is no --endpoint of this name")
    return tuple(endpoints.values())


async def stream_chat(
    endpoint: Endpoint, messages: Sequence[Mapping[str, str]], settings: AskSettings
) -> AsyncGenerator[str]:
    """Yield the pieces of one answer; the endpoint stops when the iteration is left.

    endpoint: of the operator's list. messages: each with `role` and `content`.

    Raises: EndpointFailed, also in the middle of an answer.
    """
    headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    timeout = httpx.Timeout(settings.silent_seconds, connect=CONNECT_SECONDS)
    try:
        async with (
            asyncio.timeout(settings.seconds),
            httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as client,
        ):
            body = _body(endpoint, endpoint.model or await _first_model(client, endpoint), messages, settings)
            path = "completions" if endpoint.is_base else "chat/completions"
            async with client.stream("POST", f"{endpoint.url}/{path}", json=body) as answer:
                if not answer.is_success:
                    raise _refusal(endpoint, answer.status_code)
                n_characters = 0
                async with aclosing(_pieces(endpoint, answer)) as pieces:
                    async for piece in pieces:
                        n_characters += len(piece)
                        if n_characters > LARGEST_ANSWER:
                            raise EndpointFailed(f"the answer of {endpoint.name} is too long")
                        yield piece
    except TimeoutError:
        raise EndpointFailed(f"{endpoint.name} did not finish within {settings.seconds:.0f} seconds") from None
    except httpx.TimeoutException:
        raise EndpointFailed(f"{endpoint.name} does not answer", is_busy=True) from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise EndpointFailed(f"{endpoint.name} cannot be reached", is_busy=True) from None


def _body(
    endpoint: Endpoint, model: str, messages: Sequence[Mapping[str, str]], settings: AskSettings
) -> dict[str, object]:
    asked: dict[str, object] = {"messages": list(messages)}
    if endpoint.is_base:
        asked = {"prompt": transcript(messages), "stop": list(STOP)}
    body: dict[str, object] = {
        "model": model, **asked, "max_tokens": settings.max_tokens, "temperature": settings.temperature, "stream": True,
    }  # fmt: skip
    more = {"top_p": settings.top_p, "seed": settings.seed, "user": settings.user}
    return body | {name: value for name, value in more.items() if value is not None}


async def _first_model(client: httpx.AsyncClient, endpoint: Endpoint) -> str:
    """Return the first model that an endpoint lists. Raises: EndpointFailed."""
    async with client.stream("GET", f"{endpoint.url}/models") as answer:
        if not answer.is_success:
            raise _refusal(endpoint, answer.status_code)
        content = b""
        async for chunk in answer.aiter_bytes():
            content += chunk
            if len(content) > LONGEST_LINE:
                raise EndpointFailed(f"{endpoint.name} lists too many models")
    try:
        return str(json.loads(content)["data"][0]["id"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise EndpointFailed(f"{endpoint.name} lists no models") from None


def _refusal(endpoint: Endpoint, status: int) -> EndpointFailed:
    if status in {429, 503}:
        return EndpointFailed(f"{endpoint.name} is busy; try again in a few seconds", is_busy=True)
    if status in {400, 413, 422}:
        return EndpointFailed(f"{endpoint.name} refused the conversation ({status}); it may be too long for the model")
    return EndpointFailed(f"{endpoint.name} failed ({status})", is_busy=status >= 500)


async def _pieces(endpoint: Endpoint, answer: httpx.Response) -> AsyncGenerator[str]:
    """Yield the texts of the events of a stream. Raises: EndpointFailed."""
    is_complete = has_begun = False
    async for data in _data(endpoint, answer):
        if data == b"[DONE]":
            is_complete = is_complete or has_begun  # some servers give no finish reason
            break
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise EndpointFailed(f"{endpoint.name} sent something that is not an answer") from None
        if not isinstance(body, dict) or failure_within(body):
            raise EndpointFailed(f"{endpoint.name} failed while it answered")
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        is_complete = is_complete or choice.get("finish_reason") is not None
        piece = _text_of(choice, endpoint)
        if endpoint.is_base and not has_begun:
            piece = piece.lstrip()  # the space after `Assistant:`
        if piece:
            has_begun = True
            yield piece
    if not is_complete:
        raise EndpointFailed(f"{endpoint.name} broke off its answer")


def _text_of(choice: Mapping[str, object], endpoint: Endpoint) -> str:
    """Return the text of one event's choice; empty without one."""
    delta = choice.get("delta")
    piece = choice.get("text") if endpoint.is_base else delta.get("content") if isinstance(delta, dict) else None
    return piece if isinstance(piece, str) else ""


async def _data(endpoint: Endpoint, answer: httpx.Response) -> AsyncGenerator[bytes]:
    """Yield the data of each event. Raises: EndpointFailed for a stream over a limit."""
    n_bytes, rest = 0, b""
    async for chunk in answer.aiter_bytes():
        n_bytes += len(chunk)
        *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        if n_bytes > LARGEST_STREAM or len(rest) > LONGEST_LINE:
            raise EndpointFailed(f"the answer of {endpoint.name} is too long")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
