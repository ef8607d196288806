"""Running the application: on this machine only unless another address is named, with limits on its connections.

Slow clients are disconnected, and idle connections take no capacity from others. uvicorn's `limit_concurrency` counts
every open connection, and nothing in uvicorn bounds how long a request's headers may take; so its protocol is extended
here, and requests in progress are counted instead.
"""

import asyncio
import ipaddress
import math
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Literal

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from assaymark.errors import UsageError
from assaymark.platforms import take_address
from assaymark.records.json_values import dataclass_within
from assaymark.web.app import Feature, create_app
from assaymark.web.operations import AccessLog, RequestMetrics, metrics_address, serve_metrics
from assaymark.web.security import LOOPBACK, plain_response

_LARGEST_DISCARDED = 16 << 20  # bytes read from a refused client, so that it reads the answer


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits on connections and requests; times in seconds."""

    request_seconds: float = 10  # from the first wait for a request until it is complete
    unread_seconds: float = 60  # for which an answer waits for a client that does not read it
    linger_seconds: float = 2  # for which a refused client's input is discarded before the connection is closed
    n_requests: int = 200  # in progress; more get 503
    n_connections: int = 512  # open, of all addresses
    n_per_address: int = 128  # open, of one address


class AtMost:
    """An application that answers 503 while too many of its requests are in progress."""

    def __init__(self, app: ASGIApp, n_requests: int) -> None:
        self._app = app
        self._most = n_requests
        self._now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._now >= self._most:
            text = "this server is answering too many requests; try again in a few seconds"
            await plain_response(send, 503, text, {"retry-after": "2", "connection": "close"})
            return
        self._now += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._now -= 1


class _Connection(H11Protocol):
    """A connection with deadlines; if there are too many, the one that has waited longest is closed."""

    limits: ClassVar[ServerLimits] = ServerLimits()
    _numbers: ClassVar["count[int]"] = count()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless this client has too many."""
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._is_refused = False
        self._n_discarded = 0
        self.waiting_since = next(self._numbers)
        self._watch()
        address = self.client[0] if self.client else ""
        everyone = [
            connection
            for connection in self.connections
            if isinstance(connection, _Connection) and not connection.transport.is_closing()
        ]
        of_address = [
            connection for connection in everyone if (connection.client[0] if connection.client else "") == address
        ]
        if len(of_address) > self.limits.n_per_address:
            self._close_one(of_address)
        elif len(everyone) > self.limits.n_connections:
            self._close_one(everyone)

    def _close_one(self, among: "list[_Connection]") -> None:
        """Close the connection that waits for its client longest; this one, if every other has a request running."""
        waiting = [connection for connection in among if connection is not self and connection.is_waiting]
        min(waiting, key=lambda connection: connection.waiting_since, default=self).transport.abort()

    @property
    def is_waiting(self) -> bool:
        """Whether no request of it is being answered."""
        return self._is_refused or self.cycle is None or self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_deadline()
        self._stop_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; of a refused one, discard it."""
        if not self._is_refused:
            super().data_received(data)
            return
        self._n_discarded += len(data)
        if self._n_discarded > _LARGEST_DISCARDED:
            self.transport.abort()

    def handle_events(self) -> None:
        """Handle the bytes that were read, then check whether the rest of a request is awaited."""
        super().handle_events()
        self._watch()

    def _watch(self) -> None:
        is_complete = self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}
        if is_complete or self._is_refused or self.transport.is_closing():
            self._stop_deadline()
            self.waiting_since = next(self._numbers)
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.limits.request_seconds, self.transport.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def pause_writing(self) -> None:
        """Wait for the client to read, but not for ever."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        self._stop_unread()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or too long (414 for the address, 431 for the headers), and let the client read it.

        Closing at once, with input unread, would reset the connection before the client sees the answer.
        """
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        status = 400
        if getattr(sys.exc_info()[1], "error_status_hint", None) == 431:
            is_address = b"\n" not in self.conn.trailing_data[0]
            status, msg = (414, "the address is too long") if is_address else (431, "the headers are too long")
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self._is_refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(self.limits.linger_seconds, self.transport.abort)


def protocol(limits: ServerLimits) -> type[H11Protocol]:
    """Return uvicorn's protocol with these limits."""
    return type("Connection", (_Connection,), {"limits": limits})


@dataclass(frozen=True, slots=True)
class Where:
    """The address and host names of a server, as given by a command's options."""

    host: str
    port: int  # 0: any free one
    allow_host: tuple[str, ...] = ()
    proxy: tuple[str, ...] = ()  # addresses whose X-Forwarded-For and X-Forwarded-Proto are believed
    access_log: Literal["text", "json"] | None = None
    metrics: str | None = None  # [ADDRESS:]PORT

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Where":
        """Return the values of a command's options.

        Raises: UsageError for options that cannot be served, before anything is opened.
        """
        where = dataclass_within(cls, options)
        hosts_for(where.host, where.allow_host)
        if where.metrics is not None:
            metrics_address(where.metrics)
        return where


def serve_features(
    features: Sequence[Feature],
    where: Where,
    ready: Callable[[str], None],
    listening: Callable[[], object] = lambda: None,
) -> None:
    """Serve features until a signal stops the process.

    ready: called with the address before the first request is taken. listening: called once the address is bound.

    Raises: UsageError if an address cannot be bound.
    """
    log = None if where.access_log is None else AccessLog(where.access_log, proxies=frozenset(where.proxy))
    gauges = [feature.gauges for feature in features if feature.gauges is not None]
    metrics = None if where.metrics is None else RequestMetrics(gauges)
    app = create_app(features, hosts_for(where.host, where.allow_host), where.proxy, log, metrics)
    with ExitStack() as stack:
        opened = stack.enter_context(listen(where.host, where.port))
        if metrics is not None and where.metrics is not None:
            stack.callback(serve_metrics(metrics, metrics_address(where.metrics)))
        listening()
        serve(app, opened, ready)


class SignalServer(uvicorn.Server):
    """A server that ends on a signal; uvicorn's own server raises the signal again afterwards."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that end the server, and restore their previous handlers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def hosts_for(address: str, also: Sequence[str]) -> list[str]:
    """Return the names that requests may be addressed to: loopback's, the address's own, and those named.

    Raises: UsageError for an address that others can reach, without a name to answer for.
    """
    bare = address.strip("[]")
    own = f"[{bare}]" if ":" in bare else bare
    if is_loopback(bare):
        return [*LOOPBACK, own, *also]
    if not also:
        raise UsageError(
            f"--host {address} lets other machines reach this server; name what it is called there with --allow_host, "
            "for example --allow_host leaderboard.example.org (without the port)"
        )
    return [*LOOPBACK, own, *also]


def is_loopback(address: str) -> bool:
    """Return whether an address is of this machine alone."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes any free one.

    Raises: UsageError if the address or port cannot be bound.
    """
    bare = address.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    # with the protocol named, asyncio sends headers and body without waiting 40 ms for an acknowledgement (TCP_NODELAY)
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    take_address(listener)
    try:
        listener.bind((bare, port))
        listener.listen(1024)  # so that readers of the printed address can connect
    except (OSError, OverflowError) as error:
        listener.close()
        raise UsageError(f"cannot listen on {address}, port {port}: {error}; choose another with --port") from error
    return listener


def serve(
    app: ASGIApp, listening: socket.socket, ready: Callable[[str], None], limits: ServerLimits | None = None
) -> None:
    """Serve until a signal stops the process.

    Args:
        app: from `create_app`.
        listening: from `listen`.
        ready: called with the address before the first request is taken.
        limits: on connections and requests; None: the defaults.
    """
    host, port = listening.getsockname()[:2]
    host_text = f"[{host}]" if ":" in host else host
    ready(f"http://{host_text}:{port}/")
    SignalServer(configured(app, limits or ServerLimits())).run(sockets=[listening])


def configured(app: ASGIApp, limits: ServerLimits) -> uvicorn.Config:
    """Return uvicorn's configuration: HTTP/1.1 only, no Server header, within the limits."""
    return uvicorn.Config(
        AtMost(app, limits.n_requests),
        http=protocol(limits),
        ws="none",
        log_level="error",  # it warns of each bad request
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_keep_alive=math.ceil(limits.request_seconds),
        h11_max_incomplete_event_size=64 << 10,
    )
