"""The receiver of OTLP over HTTP: `/v1/traces` and `/v1/logs`, as specified.

An answer of 200 means that the spans are on the disk. Exporters retry only after 429, 502, 503 and 504, and drop a
batch at any other refusal, including 500. So a store that is busy or cannot be written gives 503 with a Retry-After of
one second.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from assaymark.applications.traces.message_size import SMALLER, TooLarge
from assaymark.applications.traces.otlp import (
    JSON,
    LARGEST_BODY,
    PROTOBUF,
    encoded_answer,
    encoded_status,
    logs_request,
    traces_request,
    unpacked,
    unpacked_size,
)
from assaymark.applications.traces.receiving import Received, receive_logs, receive_spans
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import Token
from assaymark.errors import DataError, StoreError
from assaymark.store import Store

LARGEST_BODIES = {"/v1/traces": LARGEST_BODY + 1024, "/v1/logs": LARGEST_BODY + 1024}
AT_ONCE = 8  # requests that are unpacked and stored at the same time
BYTES_AT_ONCE = 2 * LARGEST_BODY  # of these, unpacked
WAIT_SECONDS = 2.0  # for one of these places
_INVALID, _DENIED, _EXHAUSTED, _UNAVAILABLE, _UNAUTHENTICATED = 3, 7, 8, 14, 16  # gRPC's codes
_log = logging.getLogger("uvicorn.error")


class _RefusedRequest(Exception):
    """A refusal: status, gRPC's code and reason."""

    def __init__(self, status: int, code: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.code, self.reason = status, code, reason


class _Places:
    """Admits requests up to a number and a total size. Used by one event loop."""

    def __init__(self) -> None:
        self._n, self._n_bytes = 0, 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, n_bytes: int) -> AsyncIterator[None]:
        """Hold a place for the block. Raises: _RefusedRequest if none becomes free in time."""

        def is_free() -> bool:
            return self._n < AT_ONCE and self._n_bytes + n_bytes <= BYTES_AT_ONCE

        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(is_free), WAIT_SECONDS)
            except TimeoutError:
                raise _RefusedRequest(503, _UNAVAILABLE, "too many batches are being stored; send it again") from None
            self._n, self._n_bytes = self._n + 1, self._n_bytes + n_bytes
        try:
            yield
        finally:
            self._n, self._n_bytes = self._n - 1, self._n_bytes - n_bytes
            async with self._changed:
                self._changed.notify_all()


def bearer_of(request: Request) -> str:
    """Return the token of a request's Authorization header, "" without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def add_receiver(app: FastAPI, store: Store, redaction: Redaction) -> None:
    """Add the routes."""
    places = _Places()

    def spans(token: Token, body: bytes, kind: str) -> Received:
        notes: list[str] = []
        message = traces_request(body, kind, notes)
        return receive_spans(TraceLog(store), token.project, message, redaction).with_notes(notes)

    def logs(token: Token, body: bytes, kind: str) -> Received:
        notes: list[str] = []
        message = logs_request(body, kind, notes)
        return receive_logs(TraceLog(store), token.project, message, redaction).with_notes(notes)

    async def answer(request: Request, noun: str, receive: Callable[[Token, bytes, str], Received]) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        shown_kind = kind if kind in {PROTOBUF, JSON} else JSON
        try:
            token = await run_in_threadpool(_allowed, store, bearer_of(request))
            packed = await _body(request, kind)
            async with places.taken(unpacked_size(packed, _encoding(request))):
                received = await run_in_threadpool(_received, request, packed, lambda body: receive(token, body, kind))
        except _RefusedRequest as refused:
            headers = {503: {"retry-after": "1"}, 401: {"www-authenticate": "Bearer"}}.get(refused.status, {})
            body = encoded_status(shown_kind, refused.code, refused.reason)
            return Response(body, refused.status, headers, media_type=shown_kind)
        return Response(encoded_answer(kind, noun, received.n_rejected, received.message), 200, media_type=kind)

    @app.post("/v1/traces")
    async def take_spans(request: Request) -> Response:
        return await answer(request, "spans", spans)

    @app.post("/v1/logs")
    async def take_logs(request: Request) -> Response:
        return await answer(request, "logs", logs)


def _allowed(store: Store, text: str) -> Token:
    """Return a token's rights. Raises: _Refused without a valid one."""
    hint = "send the header Authorization: Bearer TOKEN, with a token of `assaymark traces project add`"
    if not text:
        raise _RefusedRequest(401, _UNAUTHENTICATED, f"there is no token; {hint}")
    try:
        token = TraceLog(store).token(text)
    except StoreError as error:
        raise _unavailable(error) from None
    if token is None:
        raise _RefusedRequest(401, _UNAUTHENTICATED, f"the token is not valid here; {hint}")
    return token


async def _body(request: Request, kind: str) -> bytes:
    """Return the request's message. Raises: _Refused for another type, or too much."""
    if kind not in {PROTOBUF, JSON}:
        raise _RefusedRequest(415, _INVALID, f"the content type is '{kind[:100]}'; expected {PROTOBUF} or {JSON}")
    try:
        body = await request.body()
    except ClientDisconnect:
        body = b"\0" * (LARGEST_BODY + 1)  # the guard ends a body that is too long as if its sender had left
    if len(body) > LARGEST_BODY:
        raise _RefusedRequest(413, _EXHAUSTED, f"the body has more than {LARGEST_BODY:,} bytes; {SMALLER}")
    return body


def _encoding(request: Request) -> str:
    return request.headers.get("content-encoding", "").strip().lower()


def _received(request: Request, packed: bytes, receive: Callable[[bytes], Received]) -> Received:
    """Unpack a body and store its content. Raises: _Refused."""
    try:
        return receive(unpacked(packed, _encoding(request)))
    except TooLarge as error:
        raise _RefusedRequest(413, _EXHAUSTED, str(error)) from None
    except DataError as error:
        raise _RefusedRequest(400, _INVALID, str(error)) from None
    except StoreError as error:
        raise _unavailable(error) from None


def _unavailable(error: StoreError) -> _RefusedRequest:
    """Return the answer for a batch that cannot be stored now; the reason is for the operator."""
    _log.error("traces: %s", error)
    return _RefusedRequest(503, _UNAVAILABLE, "the store cannot be written now; send it again")
