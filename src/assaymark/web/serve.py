"""Running the application: on this machine only unless another address is named."""

import ipaddress
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn

from assaymark.errors import UsageError
from assaymark.web.connections import AtMost, Limits, protocol
from assaymark.web.security import LOOPBACK

__all__ = ["configured", "hosts_for", "listen", "serve"]


class _Server(uvicorn.Server):
    """A server that ends when a signal says so; uvicorn's own raises the signal again afterwards."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that end it, and put back what handled them before."""
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
    if _is_loopback(bare):
        return [*LOOPBACK, own, *also]
    if not also:
        raise UsageError(
            f"--host {address} lets other machines reach this server; name what it is called there with --allow_host, "
            "for example --allow_host leaderboard.example.org (without the port)"
        )
    return [*LOOPBACK, own, *also]


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes any free one.

    Raises: UsageError where the address or port cannot be had.
    """
    bare = address.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    # with the protocol named, asyncio sends headers and body without waiting 40 ms for an acknowledgement (TCP_NODELAY)
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((bare, port))
        found.listen(1024)  # so that whoever reads the address printed can connect
    except (OSError, OverflowError) as error:
        found.close()
        raise UsageError(f"cannot listen on {address}, port {port}: {error}; choose another with --port") from error
    return found


def serve(
    app: Any,
    listening: socket.socket,
    ready: Callable[[str], None],
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> None:
    """Serve until a signal stops the process.

    Args:
        app: from `create_app`.
        listening: from `listen`.
        ready: called with the address before the first request is taken.
        limits: on connections and requests.
    """
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{port}/")
    _Server(configured(app, limits)).run(sockets=[listening])


def configured(app: Any, limits: Limits) -> uvicorn.Config:
    """Return how uvicorn serves the application: HTTP/1.1 only, no word about itself, within the limits."""
    return uvicorn.Config(
        AtMost(app, limits.n_requests),
        http=protocol(limits),
        ws="none",
        log_level="error",  # its warnings tell of each bad request
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_keep_alive=math.ceil(limits.request_seconds),
        h11_max_incomplete_event_size=64 << 10,
    )
