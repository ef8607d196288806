"""A cache of pages, keyed by everything they depend on: version of the data, address, colours, signed-in user."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import NamedTuple

from fastapi import Request, Response

from assaymark.web.render import viewer_of

MOST_BYTES = 64 << 20


class _Page(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class PageCache:
    """The latest pages, up to a number of bytes. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pages: OrderedDict[tuple[str, ...], _Page] = OrderedDict()
        self._bytes = 0

    def respond(self, request: Request, version: str, make: Callable[[], Response]) -> Response:
        """Return the page at an address for this version of its data, or 304 if the browser has it already."""
        key = (version, request.url.path, request.url.query, request.cookies.get("theme", "")[:8],
               viewer.name if (viewer := viewer_of(request)) else "")  # fmt: skip
        tag = f'W/"{sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()[:20]}"'
        headers = {"etag": tag, "cache-control": "no-cache", "vary": "Cookie"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        with self._lock:
            known = self._pages.get(key)
            if known is not None:
                self._pages.move_to_end(key)
        if known is None:
            page = make()
            page.headers.update(headers)
            known = _Page(page.status_code, bytes(page.body), dict(page.headers))
            self._keep(key, known)
        # a new response each time, since compression changes its headers
        return Response(known.body, known.status, dict(known.headers))

    def _keep(self, key: tuple[str, ...], page: _Page) -> None:
        with self._lock:
            if key not in self._pages:
                self._pages[key] = page
                self._bytes += len(page.body)
            while self._bytes > MOST_BYTES:
                self._bytes -= len(self._pages.popitem(last=False)[1].body)
