"""Slow and many connections, with real sockets: they are closed in time, and others are answered meanwhile."""

import asyncio
import select
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.web.app import create_app
from assaymark.web.serve import AtMost, ServerLimits
from tests.served import running

HEAD_PART = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX"
QUICK = ServerLimits(request_seconds=1.5, n_per_address=400, n_connections=400)


@pytest.fixture
def address() -> Iterator[str]:
    """Serve a site without leaderboards, with short deadlines."""
    with running(create_app([board_feature(Site([]))]), QUICK) as url:
        yield url


def connect(url: str, n: int, sent: bytes) -> list[socket.socket]:
    """Return connections on which some bytes were sent."""
    host, _, port = url.removeprefix("http://").partition(":")
    results = [socket.create_connection((host, int(port)), timeout=10) for _ in range(n)]
    for each in results:
        each.sendall(sent)
    return results


def wait_closed(sockets: list[socket.socket], seconds: float) -> int:
    """Return how many of the connections the server closes within a time."""
    deadline, waiting = time.monotonic() + seconds, list(sockets)
    while waiting and (rest := deadline - time.monotonic()) > 0:
        for each in select.select(waiting, [], [], rest)[0]:
            try:
                is_closed = each.recv(1 << 16) == b""
            except OSError:
                is_closed = True
            if is_closed:
                waiting.remove(each)
    return len(sockets) - len(waiting)


def test_unfinished_headers_lock_nobody_out_and_are_closed(address: str) -> None:
    """300 connections that stop within a header: others get their page, and the 300 end at the deadline."""
    slow = connect(address, 300, HEAD_PART)
    assert httpx.get(f"{address}/boards", timeout=5).status_code == 200
    assert wait_closed(slow, 6) == len(slow)
    assert httpx.get(f"{address}/boards", timeout=5).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET /boards HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"])
def test_nothing_and_half_a_body_are_closed(address: str, sent: bytes) -> None:
    """Connections that send nothing, or less of a body than promised."""
    assert wait_closed(connect(address, 3, sent), 6) == 3


def test_sending_a_byte_now_and_then_does_not_extend_the_deadline(address: str) -> None:
    """The deadline is that of the whole request."""
    (item,) = connect(address, 1, HEAD_PART)
    start = time.monotonic()
    while time.monotonic() - start < 6:
        try:
            item.sendall(b"x")
        except OSError:
            break
        time.sleep(0.2)
    assert 1 < time.monotonic() - start < 4


def test_an_address_with_too_many_connections_loses_its_oldest() -> None:
    """The ones that wait longest are closed at once; a new one is answered."""
    with running(create_app([board_feature(Site([]))]), ServerLimits(request_seconds=60, n_per_address=10)) as url:
        slow = connect(url, 30, HEAD_PART)
        assert wait_closed(slow, 3) >= 20
        assert httpx.get(f"{url}/boards", timeout=5).status_code == 200


def test_too_many_requests_in_progress_get_503() -> None:
    """Requests count, connections do not; once they are answered, the next one is."""

    async def check() -> None:
        go_on = asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            await go_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        transport = httpx.ASGITransport(AtMost(slow, 2))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            busy = [asyncio.create_task(client.get("/")) for _ in range(2)]
            await asyncio.sleep(0.05)
            assert (await client.get("/")).status_code == 503
            go_on.set()
            assert [each.status_code for each in await asyncio.gather(*busy)] == [200, 200]
            assert (await client.get("/")).status_code == 200

    asyncio.run(check())
