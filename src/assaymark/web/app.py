"""The application: the pages of all features, error pages, and static files.

The URLs of static files change with their bytes, so browsers may keep them for ever.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp

from assaymark.errors import AssaymarkError, StoreError, UnknownName, UsageError
from assaymark.limits.shown_paths import without_folders
from assaymark.records import ImagePart
from assaymark.web.clients import Clients, RememberVisitors
from assaymark.web.operations import AccessLog, Operations, RequestMetrics
from assaymark.web.posts import Posts
from assaymark.web.render import NO_DRAWING, STATIC, THEMES, Drawing, add_drawing, respond, wants_json
from assaymark.web.secret import server_secret
from assaymark.web.security import LOOPBACK, Guard, safe_path

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".txt": "text/plain; charset=utf-8",
}
FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}
# an SVG that is opened by itself may hold a script: nothing in it may run
RASTER = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
LOCKED = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


@cache
def _names() -> frozenset[str]:
    return frozenset(path.name for path in STATIC.iterdir() if path.suffix in TYPES)


def image_response(image: ImagePart | None) -> Response:
    """Return an image of a sample. Stored runs may come from elsewhere, so only raster types are served as images.

    Raises: HTTPException for None, and for a type that browsers might run.
    """
    if image is None or image.media_type not in RASTER:
        raise HTTPException(404, "there is no such image")
    return Response(image.data, media_type=image.media_type, headers=LOCKED)


def logo_response(path: Path | None) -> Response:
    """Return a board's logo. Raises: HTTPException where it has none."""
    if path is None or not path.is_file():
        raise HTTPException(404, "this board has no logo")
    return Response(path.read_bytes(), media_type=TYPES[path.suffix.lower()], headers=LOCKED)


HEADINGS = {
    400: "This was not accepted",
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    409: "This is settled already",
    413: "Too large",
    414: "Too long",
    415: "This cannot be read",
    421: "Another host",
    429: "Too often",
    503: "Not available now",
}


@dataclass(frozen=True)
class FailurePage:
    """A status and a line that says what happened."""

    status: int
    error: str

    @property
    def heading(self) -> str:
        """The heading of the page: only a failure of the server is called one."""
        return HEADINGS.get(self.status, "This page failed" if self.status >= 500 else "This was not accepted")


STATUSES: Mapping[type[AssaymarkError], int] = {UnknownName: 404, UsageError: 400, StoreError: 503}


@dataclass(frozen=True, slots=True)
class Feature:
    """The part that one feature adds to the application: boards, the queue, the arena, the chat."""

    add: Callable[[FastAPI], None]  # adds its routes; `app.state` has `clients` and `posts` unless all only read
    links: Sequence[tuple[str, str]] = ()  # (path, text) for the top of every page
    largest_bodies: Mapping[str, int] = field(default_factory=dict)  # bytes, of paths that take more than a form
    drawing: Drawing = NO_DRAWING
    statuses: Mapping[type[AssaymarkError], int] = field(default_factory=dict)  # of errors of its own
    only_reads: bool = False  # it takes no forms, so it needs no secret
    ready: Callable[[], object] | None = None  # raises where its pages cannot be answered now
    gauges: Callable[[], Mapping[str, Mapping[str, float]]] | None = None  # for `--metrics`: name -> state -> value


def create_app(
    features: Sequence[Feature],
    hosts: Sequence[str] = LOOPBACK,
    proxies: Sequence[str] = (),
    log: AccessLog | None = None,
    metrics: RequestMetrics | None = None,
) -> ASGIApp:
    """Return the application, as a server takes it.

    Args:
        features: what it shows and does; the first link of the first one is its start page, unless it has a page `/`.
        hosts: names, without port, that requests may be addressed to.
        proxies: addresses of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
        log: of requests; None for none.
        metrics: that count requests; None for none.

    Raises: UsageError if features need the server's secret and it cannot be read or written.
    """
    app = FastAPI(title="Assaymark", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.state.links = [link for feature in features for link in feature.links]
    app.state.home = app.state.links[0][0] if app.state.links else "/"
    if not all(feature.only_reads for feature in features):
        secret = server_secret()
        app.state.clients = Clients(secret, proxies)
        app.state.posts = Posts(secret, app.state.clients)
        app.add_middleware(RememberVisitors, clients=app.state.clients)
    for feature in features:
        add_drawing(feature.drawing)
        feature.add(app)
    _add_rest(app)
    _add_failures(app, {kind: status for feature in features for kind, status in feature.statuses.items()})
    guarded = Guard(app, hosts, {path: size for feature in features for path, size in feature.largest_bodies.items()})
    return Operations(guarded, [feature.ready for feature in features if feature.ready is not None], log, metrics)


def _add_rest(app: FastAPI) -> None:
    @app.get("/")
    def start() -> Response:  # if no feature has a page at that address
        if app.state.home == "/":
            raise HTTPException(404, "there is no such page")
        return RedirectResponse(app.state.home, 307)

    @app.get("/theme")
    def theme(to: str = "auto", back: str = "/") -> Response:
        response = RedirectResponse(safe_path(back), 303)
        chosen = to if to in THEMES else "auto"
        response.set_cookie("theme", chosen, max_age=31_536_000, samesite="lax", httponly=True)
        return response

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in _names():
            raise HTTPException(404, "there is no such file")
        path = STATIC / name
        return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers=FOR_EVER)


_log = logging.getLogger("uvicorn.error")


def _add_failures(app: FastAPI, statuses: Mapping[type[AssaymarkError], int]) -> None:
    @app.exception_handler(AssaymarkError)
    def of_ours(request: Request, error: AssaymarkError) -> Response:
        known = {**statuses, **STATUSES}  # features' errors first, since they derive from ours
        status = next((status for kind, status in known.items() if isinstance(error, kind)), 500)
        if status >= 500:  # only the operator can fix it
            _log.error("%s %s: %s", request.method, quote(request.url.path), error)
        if isinstance(error, StoreError):  # its text has the store's location and the database driver's message
            return _failure(request, status, "the server's store cannot be used now; the server's log has the reason")
        return _failure(request, status, str(error))

    @app.exception_handler(HTTPException)
    def of_routes(request: Request, error: HTTPException) -> Response:
        response = _failure(request, error.status_code, str(error.detail or "there is no such page"))
        response.headers.update(error.headers or {})
        if response.headers.get("allow") == "GET":
            response.headers["allow"] = "GET, HEAD"  # which the guard answers
        return response

    @app.exception_handler(Exception)
    def unexpected(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the traceback goes to the log
        return _failure(request, 500, "this page failed; the server's log has the reason")


def _failure(request: Request, status: int, text: str) -> Response:
    as_json = wants_json(request) or request.url.path.startswith("/api/")
    return respond(request, "failure.html", FailurePage(status, without_folders(text)), as_json=as_json, status=status)
