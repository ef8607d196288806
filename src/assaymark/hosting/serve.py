"""Run a host: on this machine only unless another address is named; the first signal lets requests finish."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from assaymark.errors import UsageError
from assaymark.web import serve as web_serve

LOOPBACK = ("localhost", "127.0.0.1", "::1")
GRACE_SECONDS = 30  # that requests in progress get after the first signal
KEEP_ALIVE_SECONDS = 30
READ_SECONDS = 30.0  # that an answer waits for a client that does not read
SEND_BUFFER = 64 << 10  # bytes of each connection that the system keeps; by default megabytes, which hide who reads


def names_for(address: str, also: Sequence[str], *, has_key: bool) -> tuple[str, ...]:
    """Return the host names that requests may be addressed to.

    Raises: UsageError for an address that others can reach, without a key or without a name.
    """
    bare = address.strip("[]").lower()
    if web_serve.is_loopback(bare):
        return (*LOOPBACK, bare, *(name.lower() for name in also))
    if not has_key or not also:
        raise UsageError(
            f"--host {address} lets other machines use this model; set a key with --api_key and name the host with "
            "--allow_host, for example --api_key @key.txt --allow_host gpu1.example.org (without the port)"
        )
    return (*LOOPBACK, bare, *(name.lower() for name in also))


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes any free one. Raises: UsageError where it cannot be had."""
    listener = web_serve.listen(address, port)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # inherited by each connection
    return listener


class _HostServer(web_serve.SignalServer):
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


def _protocol(read_seconds: float, log: Callable[[str], None]) -> type[H11Protocol]:
    """Return the protocol of a connection that is closed once its client is behind with reading for so long."""

    class Connection(H11Protocol):
        """asyncio pauses writing while more than its buffer waits for the client; then a deadline runs."""

        deadline: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            """Begin the deadline."""
            super().pause_writing()
            self.deadline = self.loop.call_later(read_seconds, self.give_up)

        def resume_writing(self) -> None:
            """End the deadline: the client has read."""
            super().resume_writing()
            self.forget_deadline()

        def connection_lost(self, exc: Exception | None) -> None:
            """End the deadline with the connection."""
            super().connection_lost(exc)
            self.forget_deadline()

        def forget_deadline(self) -> None:
            """Cancel the deadline, if one runs."""
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def give_up(self) -> None:
            """Close the connection without what it was to send; the application drops its work when it is told."""
            address = "{}:{}".format(*self.client) if self.client else "a client"
            log(f"closed the connection of {address}: it has not read its answer for {read_seconds:g} s")
            self.transport.abort()

    return Connection


def serve(
    app: ASGIApp,
    listening: socket.socket,
    on_stop: Callable[[], None],
    *,
    read_seconds: float = READ_SECONDS,
    log: Callable[[str], None] = lambda _line: None,
) -> None:
    """Serve until a signal stops the process. `on_stop` is called at the first one.

    read_seconds: how long an answer waits for a client that does not read, until its work is dropped and its
        connection closed; `log` gets a line for each.
    """
    config = uvicorn.Config(
        app, http=_protocol(read_seconds, log), ws="none", log_level="error", access_log=False, server_header=False,
        proxy_headers=False, lifespan="on", timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS, h11_max_incomplete_event_size=64 << 10, limit_concurrency=2048,
    )  # fmt: skip
    _HostServer(config, on_stop).run(sockets=[listening])
