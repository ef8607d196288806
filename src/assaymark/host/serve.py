"""Run a host: on this machine only unless another address is named; the first signal lets requests finish."""

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

from assaymark.errors import UsageError

__all__ = ["GRACE_SECONDS", "listen", "names_for", "serve"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
GRACE_SECONDS = 30  # that requests in progress get after the first signal
KEEP_ALIVE_SECONDS = 30


def names_for(address: str, also: Sequence[str], *, has_key: bool) -> tuple[str, ...]:
    """Return the host names that requests may be addressed to.

    Raises: UsageError for an address that others can reach, without a key or without a name.
    """
    bare = address.strip("[]").lower()
    if bare == "localhost" or _is_loopback(bare):
        return (*LOOPBACK, bare, *(name.lower() for name in also))
    if not has_key or not also:
        raise UsageError(
            f"--host {address} lets other machines use this model; set a key with --api_key and name the host with "
            "--allow_host, for example --api_key @key.txt --allow_host gpu1.example.org (without the port)"
        )
    return (*LOOPBACK, bare, *(name.lower() for name in also))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes any free one. Raises: UsageError where it cannot be had."""
    bare = address.strip("[]")
    found = socket.socket(socket.AF_INET6 if ":" in bare else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((bare, port))
        found.listen(1024)
    except (OSError, OverflowError) as error:
        found.close()
        raise UsageError(f"cannot listen on {address}, port {port}: {error}; choose another with --port") from error
    return found


class _Server(uvicorn.Server):
    """A server that ends with a signal and does not raise it again; the first one is announced."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting; a second signal ends at once."""
        if not self.should_exit:
            self._on_stop()
            self.should_exit = True
        else:
            self.force_exit = True
        del sig, frame

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that end it, and restore the former handlers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(app: Any, listening: socket.socket, on_stop: Callable[[], None]) -> None:
    """Serve until a signal stops the process. `on_stop` is called at the first one."""
    config = uvicorn.Config(
        app, http="h11", ws="none", log_level="error", access_log=False, server_header=False, proxy_headers=False,
        lifespan="on", timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=64 << 10, limit_concurrency=2048,
    )  # fmt: skip
    _Server(config, on_stop).run(sockets=[listening])
