"""Running the application: on this machine only unless another address is named."""

import ipaddress
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from assaymark.errors import UsageError
from assaymark.platforms import take_address
from assaymark.records.json_values import dataclass_of
from assaymark.web.app import Feature, create_app
from assaymark.web.connections import AtMost, ServerLimits, protocol
from assaymark.web.operations import AccessLog, RequestMetrics, metrics_address, serve_metrics
from assaymark.web.security import LOOPBACK


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
        where = dataclass_of(cls, {each.name: options[each.name] for each in fields(cls) if each.name in options})
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

    Args:
        features: to serve; see `web.app.create_app`.
        where: to listen.
        ready: called with the address before the first request is taken.
        listening: called once the address is bound.

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
    app: ASGIApp,
    listening: socket.socket,
    ready: Callable[[str], None],
    limits: ServerLimits | None = None,
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
