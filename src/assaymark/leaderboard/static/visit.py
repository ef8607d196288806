"""Visits to the pages of an application in this process, as a browser would request them, without a socket."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Receive, Scope, Send

from assaymark.errors import DataError

HOST = "http://localhost"
MOST_REDIRECTS = 5


@contextmanager
def visiting(app: ASGIApp) -> Iterator["PageReader"]:
    """Yield a reader of an ASGI application's pages, which know that they become files (their `live` is false).

    The application runs in a thread with a loop of its own, so this works inside a running loop too (a notebook).
    """

    async def as_files(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {**scope.get("state", {}), "context": {"live": False}}
        await app(scope, receive, send)

    headers = {"accept-encoding": "identity"}
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=as_files), base_url=HOST, headers=headers)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as entered:
        yield PageReader(entered, portal)


class PageReader:
    """A reader of an application's pages. May be used by one thread."""

    def __init__(self, client: httpx.AsyncClient, portal: BlockingPortal) -> None:
        """Args: client: of the application; portal: to the loop that the client lives in."""
        self._client, self._portal = client, portal

    def get(self, address: str) -> httpx.Response:
        """Return the answer at an address; redirections are not followed.

        Raises: DataError for a page that failed.
        """
        response = self._portal.call(self._client.get, address)
        if response.status_code >= 500:
            raise DataError(
                f"the page {address} cannot be exported: the application answered {response.status_code} "
                f"({response.reason_phrase}); `assaymark serve` shows the page and logs the reason"
            )
        return response

    def final(self, address: str) -> str:
        """Return the address that an address leads to, redirections followed."""
        for _ in range(MOST_REDIRECTS):
            response = self.get(address)
            if not response.is_redirect:
                return address
            target = urlsplit(response.headers["location"])
            address = f"{target.path}?{target.query}" if target.query else target.path
        return address
