"""The application: routes of an OpenAI-compatible API over one scheduler.

Only this process's engine answers; nothing is stored and nothing is sent anywhere. A key, where one is set, is compared
in constant time. Requests must be JSON and addressed to a known host name, so that a page of another site in the
user's browser cannot use a host on loopback.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from assaymark.errors import ModelUnavailable
from assaymark.hosting.answer_bodies import error_body
from assaymark.hosting.bad_request import BadRequest
from assaymark.hosting.exchange import Exchange, RequestFailed
from assaymark.hosting.fair_queue import QueueFull
from assaymark.hosting.hosted_model import HostedModel
from assaymark.hosting.request_bodies import Kind, parse_body, read_ask
from assaymark.hosting.responses import ResponseExchange, chat_body_of, chat_error
from assaymark.hosting.scheduler import Event, Handle, Scheduler, User

LARGEST_BODY = 16 << 20
BODY_SECONDS = 30.0
LARGE = 64 << 10  # bodies above are read and tokenised in a thread, so that others' streams go on meanwhile
RETRY_SECONDS = 2


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Who may use the host and how many requests may wait. names: host names, without port; empty: any."""

    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    most_waiting: int = 256


def create_app(model: HostedModel, settings: HostSettings = HostSettings()) -> Starlette:
    """Return the application. Its engine's thread starts with the server and ends with it."""
    service = _Service(model, settings)
    routes = [
        Route("/health", service.health),
        Route("/v1/models", service.models),
        Route("/v1/models/{name:path}", service.model),
        Route("/v1/completions", service.completions, methods=["POST"]),
        Route("/v1/chat/completions", service.chat, methods=["POST"]),
        Route("/v1/responses", service.responses, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=service.running, exception_handlers=_HANDLERS)


def _error(status: int, message: str, kind: str = "invalid_request_error", param: str | None = None,
           code: str | None = None, headers: dict[str, str] | None = None) -> JSONResponse:  # fmt: skip
    return JSONResponse(error_body(message, kind, param, code), status, headers=headers)


async def _bad_request(_request: Request, error: Exception) -> Response:
    if not isinstance(error, BadRequest):
        raise error
    return _error(error.status, str(error), param=error.param, code=error.code)


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    known = "GET of models, and POST to completions, chat/completions and responses, below /v1"
    return _error(status, f"{request.method} {request.url.path[:100]} is not offered; there are {known}")


async def _failure(_request: Request, error: Exception) -> Response:
    return _error(500, f"internal error: {type(error).__name__}", "server_error")


_HANDLERS: dict[int | type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    BadRequest: _bad_request,
    HTTPException: _http_error,
    Exception: _failure,
}


class _Service:
    """The handlers and their shared state."""

    def __init__(self, model: HostedModel, settings: HostSettings) -> None:
        self._model = model
        self._settings = settings
        self._digests = [hashlib.sha256(key.encode()).digest() for key in settings.keys]
        self._created = int(time.time())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduler = Scheduler(
            model.engine.open_batch, model.thread, self._deliver, most_waiting=settings.most_waiting
        )

    @asynccontextmanager
    async def running(self, _app: Starlette) -> AsyncIterator[None]:
        """Run the engine's thread as long as the server."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._scheduler.start)
        yield
        await asyncio.to_thread(self._scheduler.close)

    def _deliver(self, events: Sequence[tuple[Handle, Event]]) -> None:
        """Pass a step's events from the engine's thread to the event loop, all at once."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                self._loop.call_soon_threadsafe(_dispatch, events)

    # ------------------------------------------------------------------------------------------- handlers

    async def health(self, request: Request) -> Response:
        """Tell whether the host answers, and its load."""
        self._check_name(request)
        return JSONResponse({"status": "ok", "model": self._model.name, **self._scheduler.load})

    async def models(self, request: Request) -> Response:
        """List the one model."""
        self._admit(request)
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def model(self, request: Request) -> Response:
        """Describe the model."""
        self._admit(request)
        self._check_model(request.path_params["name"])
        return JSONResponse(self._card())

    async def completions(self, request: Request) -> Response:
        """Continue texts."""
        return await self._answer(request, "completion")

    async def chat(self, request: Request) -> Response:
        """Answer a conversation."""
        return await self._answer(request, "chat")

    async def responses(self, request: Request) -> Response:
        """Answer a conversation in the form of Responses; nothing is stored."""
        return await self._answer(request, "response")

    def _card(self) -> dict[str, object]:
        model = self._model
        return {
            "id": model.name, "object": "model", "created": self._created, "owned_by": "assaymark",
            "max_model_len": model.max_length,
            "has_chat_template": getattr(model.tokenizer, "chat_template", None) is not None,
        }  # fmt: skip

    async def _answer(self, request: Request, kind: Kind | Literal["response"]) -> Response:
        key = self._admit(request)
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            raise BadRequest(f"Content-Type is {media[:60] or 'missing'}; expected application/json", status=415)
        content = await _content(request)
        prepare = self._prepare
        takes_long = len(content) > LARGE or any(name in content for name in (b"format", b"tool_choice"))
        exchange = await asyncio.to_thread(prepare, kind, content) if takes_long else prepare(kind, content)
        address = request.client.host if request.client else ""
        try:
            client = key if len(self._digests) > 1 else address
            exchange.submit(User(f"{client}/{exchange.user or address}", client))
        except QueueFull:
            waits = f"{self._settings.most_waiting} requests wait already; send this one again in a few seconds"
            return _error(503, waits, "server_error", code="queue_full", headers={"Retry-After": str(RETRY_SECONDS)})
        except ModelUnavailable as error:
            return _error(503, str(error), "server_error", headers={"Retry-After": str(RETRY_SECONDS)})
        headers = {"X-Queue-Position": str(exchange.position)}
        return _EventStream(exchange, headers) if exchange.is_stream else await _whole(request, exchange, headers)

    def _prepare(self, kind: Kind | Literal["response"], content: bytes) -> Exchange | ResponseExchange:
        """Return the work of a request. Raises: BadRequest."""
        body = parse_body(content)
        if kind != "response":
            return self._exchange(kind, body)
        chat = chat_body_of(body)
        try:
            return ResponseExchange(self._exchange("chat", chat), body, self._model.name)
        except BadRequest as error:
            raise chat_error(error) from error

    def _exchange(self, kind: Kind, body: dict[str, object]) -> Exchange:
        ask = read_ask(kind, body)
        self._check_model(ask.model)
        return Exchange(self._model, self._scheduler, ask)

    # ------------------------------------------------------------------------------------- who may ask what

    def _check_name(self, request: Request) -> None:
        names = self._settings.names
        name = (request.url.hostname or "").lower()
        if names and name not in names:
            raise BadRequest(
                f"this host does not answer for the name '{name[:80]}'; use the one it was started with", status=421
            )

    def _admit(self, request: Request) -> str:
        """Return which key a request has. Raises: BadRequest."""
        self._check_name(request)
        if not self._digests:
            return ""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(key.strip().encode("utf-8", "replace")).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]  # all are compared
        if scheme.lower() != "bearer" or not any(matches):
            raise BadRequest("the API key is missing or wrong; send it as Authorization: Bearer KEY", None,
                             "invalid_api_key", 401)  # fmt: skip
        return str(matches.index(True))

    def _check_model(self, name: str | None) -> None:
        if name is not None and name != self._model.name:
            raise BadRequest(
                f"there is no model '{name[:100]}' here; this host offers '{self._model.name}'", "model",
                "model_not_found", 404,
            )  # fmt: skip


def _dispatch(events: Sequence[tuple[Handle, Event]]) -> None:
    for handle, event in events:
        if not handle.is_cancelled:
            handle.deliver(event)


async def _content(request: Request) -> bytes:
    """Return the body. Raises: BadRequest for one that is too large or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise BadRequest(f"the body has more than {LARGEST_BODY >> 20} MiB", status=413)
    except TimeoutError:
        raise BadRequest(f"the body was not complete after {BODY_SECONDS:.0f} s", status=408) from None
    except ClientDisconnect:
        raise BadRequest("the client disconnected") from None
    return bytes(body)


async def _until_gone(receive: Receive, exchange: Exchange | ResponseExchange) -> None:
    """Wait until the client disconnects, then drop its work."""
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.cancel()


async def _whole(request: Request, exchange: Exchange | ResponseExchange, headers: dict[str, str]) -> Response:
    gone = asyncio.create_task(_until_gone(request.receive, exchange))
    try:
        return JSONResponse(await exchange.whole(), headers=headers)
    except RequestFailed as failure:
        return _error(failure.status, str(failure), failure.error_type, code=failure.kind.__name__)
    finally:
        gone.cancel()
        exchange.cancel()


class _EventStream(Response):
    """An answer as server-sent events; a client that disconnects ends the work."""

    media_type = "text/event-stream"

    def __init__(self, exchange: Exchange | ResponseExchange, headers: dict[str, str]) -> None:
        super().__init__(headers={**headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._exchange = exchange

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events as they come."""
        gone = asyncio.create_task(_until_gone(receive, self._exchange))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for piece in self._exchange.stream():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._exchange.cancel()
