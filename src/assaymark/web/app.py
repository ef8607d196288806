"""The application's routes: which page answers which path. What a page shows is made in `pages`."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from assaymark.errors import AssaymarkError, StoreError, UnknownName, UsageError
from assaymark.leaderboard.evidence import sources_of
from assaymark.leaderboard.exports import rows_csv, rows_jsonl, rows_parquet
from assaymark.leaderboard.shown import all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.withheld import TextsWithheld
from assaymark.limits.shown_paths import without_folders
from assaymark.web.clients import Clients
from assaymark.web.page_cache import PageCache
from assaymark.web.pages.board import about_page, board_page, boards_page, view_of
from assaymark.web.pages.charts import charts_page
from assaymark.web.pages.compare import compare_page
from assaymark.web.pages.correlations import correlations_page
from assaymark.web.pages.failure import FailurePage
from assaymark.web.pages.guide import guide_page
from assaymark.web.pages.model import model_page
from assaymark.web.pages.recommend import recommend_page
from assaymark.web.pages.run import group_page, run_page, samples_page
from assaymark.web.pages.sample import sample_image, sample_page
from assaymark.web.pages.series import series_page
from assaymark.web.pages.task import task_page
from assaymark.web.posts import Posts
from assaymark.web.render import model_path, respond
from assaymark.web.secret import server_secret
from assaymark.web.security import LOOPBACK, Guard, safe_path
from assaymark.web.static_files import image_response, logo_response, static_response

__all__ = ["Part", "create_app"]

LONGEST_NAME = 300  # characters of anything in a path
JSON = ".json"
LARGEST_INDEX = 10**9  # of a sample


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the application beside the leaderboards: the queue, the arena, the chat."""

    add: Callable[[FastAPI], None]  # adds its routes; `app.state` has `clients` and `posts`
    links: Sequence[tuple[str, str]] = ()  # (path, text) for the top of every page
    largest_bodies: Mapping[str, int] = field(default_factory=dict)  # bytes, of paths that take more than a form


def create_app(
    site: Site, hosts: Sequence[str] = LOOPBACK, parts: Sequence[Part] = (), proxies: Sequence[str] = ()
) -> Any:
    """Return the application, as a server takes it. Without parts it only reads, and needs no secret.

    Args:
        site: the boards to show.
        hosts: names, without port, that requests may be addressed to.
        parts: what else it does.
        proxies: addresses of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.

    Raises: UsageError where parts need the server's secret and it cannot be had.
    """
    app = FastAPI(title="Assaymark", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.state.links = [link for part in parts for link in part.links]
    app.state.has_boards = site.runs is not None or bool(site.boards)
    _add_boards(app, site)
    _add_about(app, site)
    _add_runs(app, site)
    _add_rest(app, site)
    _add_failures(app)
    if parts:
        secret = server_secret()
        app.state.clients = Clients(secret, proxies)
        app.state.posts = Posts(secret, app.state.clients)
    for part in parts:
        part.add(app)
    return Guard(app, hosts, {path: size for part in parts for path, size in part.largest_bodies.items()})


def _pairs(request: Request) -> list[tuple[str, str]]:
    return list(request.query_params.multi_items())


def _wants_json(request: Request) -> bool:
    return request.url.path.endswith(JSON)


def _named(path: str) -> tuple[str, bool]:
    """Return a name from a path, and whether its JSON twin is requested."""
    if len(path) > LONGEST_NAME:
        raise HTTPException(404, f"a name has at most {LONGEST_NAME} characters")
    return (path.removesuffix(JSON), True) if path.endswith(JSON) else (path, False)


def _add_boards(app: FastAPI, site: Site) -> None:
    cache = PageCache()

    @app.get("/")
    def boards(request: Request) -> Response:
        page = boards_page(site)
        if not page.boards and app.state.links:  # a server of the arena or the chat alone
            return RedirectResponse(app.state.links[0][0], 307)
        if len(page.boards) == 1:
            return RedirectResponse(f"/board/{page.boards[0][0].name}", 307)
        return respond(request, "boards.html", page)

    @app.get("/boards")
    @app.get("/boards.json")
    def all_boards(request: Request) -> Response:
        return respond(request, "boards.html", boards_page(site), as_json=_wants_json(request))

    @app.get("/board/{name}")
    def board(request: Request, name: str) -> Response:
        name, kind = _table_format(site, name)
        if kind in {"csv", "jsonl", "parquet"}:
            return _export(site, name, kind, _pairs(request))
        version = site.table(site.board(name)).version

        def made() -> Response:
            page = board_page(site, name, _pairs(request))
            response = respond(request, "board.html", page, as_json=kind == "json")
            response.headers["HX-Push-Url"] = f"/board/{name}{page.view.query(page=page.view.page)}"
            return response

        return cache.respond(request, version, made)

    @app.get("/board/{name}/logo")
    def logo(name: str) -> Response:
        return logo_response(site.board(name).logo)


def _add_about(app: FastAPI, site: Site) -> None:
    cache = PageCache()

    @app.get("/board/{name}/charts")
    @app.get("/board/{name}/charts.json")
    def charts(request: Request, name: str) -> Response:
        def made() -> Response:
            page = charts_page(site, name, _pairs(request))
            return respond(request, "charts.html", page, as_json=_wants_json(request))

        return cache.respond(request, site.table(site.board(name)).version, made)

    @app.get("/board/{name}/correlations")
    @app.get("/board/{name}/correlations.json")
    def correlations(request: Request, name: str) -> Response:
        def made() -> Response:
            page = correlations_page(site, name)
            return respond(request, "correlations.html", page, as_json=_wants_json(request))

        return cache.respond(request, site.table(site.board(name)).version, made)

    @app.get("/board/{name}/about")
    @app.get("/board/{name}/about.json")
    def about(request: Request, name: str) -> Response:
        return respond(request, "about.html", about_page(site, name), as_json=_wants_json(request))


def _table_format(site: Site, path: str) -> tuple[str, str]:
    """Return a board's name and the format of its table: the ending counts unless a board is called so."""
    name, _, kind = path.rpartition(".")
    is_format = kind in {"json", "jsonl", "csv", "parquet"} and path not in site.boards
    return (name, kind) if is_format else (path, "html")


def _export(site: Site, name: str, kind: str, pairs: Sequence[tuple[str, str]]) -> Response:
    board = site.board(name)
    table = site.table(board)
    rows = all_rows(table, view_of(board, table, pairs), board.shown)
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
    if kind == "csv":
        return Response(rows_csv(rows, table.columns), media_type="text/csv; charset=utf-8", headers=headers)
    if kind == "jsonl":
        body = rows_jsonl(rows, table.columns).encode("utf-8", "backslashreplace")
        return Response(body, media_type="application/x-ndjson", headers=headers)
    return Response(rows_parquet(rows, table.columns), media_type="application/vnd.apache.parquet", headers=headers)


def _add_runs(app: FastAPI, site: Site) -> None:
    @app.get("/run/{name}")
    def run(request: Request, name: str) -> Response:
        name, as_json = _named(name)
        return respond(request, "run.html", run_page(site, name), as_json=as_json)

    @app.get("/run/{name}/samples/{task:path}/{index:int}")
    @app.get("/run/{name}/samples/{task:path}/{index:int}.json")
    def sample(request: Request, name: str, task: str, index: int) -> Response:
        if index > LARGEST_INDEX:
            raise HTTPException(404, "there is no such sample")
        return respond(request, "sample.html", sample_page(site, name, task, index), as_json=_wants_json(request))

    @app.get("/run/{name}/samples/{task:path}/{index:int}/images/{sha256}")
    def image(name: str, task: str, index: int, sha256: str) -> Response:
        return image_response(sample_image(site, name, task, index, sha256) if index <= LARGEST_INDEX else None)

    @app.get("/run/{name}/samples/{task:path}")
    def samples(request: Request, name: str, task: str) -> Response:
        task, as_json = _named(task)
        if (group := group_page(site, name, task)) is not None:
            return respond(request, "group.html", group, as_json=as_json)
        return respond(request, "samples.html", samples_page(site, name, task, _pairs(request)), as_json=as_json)

    @app.get("/compare")
    @app.get("/compare.json")
    def compare(request: Request) -> Response:
        return respond(request, "compare.html", compare_page(site, _pairs(request)), as_json=_wants_json(request))


def _add_rest(app: FastAPI, site: Site) -> None:
    _add_named_pages(app, site)
    _add_guide(app, site)

    @app.get("/theme")
    def theme(to: str = "auto", back: str = "/") -> Response:
        response = RedirectResponse(safe_path(back), 303)
        chosen = to if to in {"light", "dark"} else "auto"
        response.set_cookie("theme", chosen, max_age=31_536_000, samesite="lax", httponly=True)
        return response

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return static_response(name)


def _add_named_pages(app: FastAPI, site: Site) -> None:
    @app.get("/model/{path:path}")
    def model(request: Request, path: str) -> Response:
        path, as_json = _named(path)
        if (present := site.marks().names.get(path)) is not None:
            return RedirectResponse(model_path(present) + (JSON if as_json else ""), 308)
        return respond(request, "model.html", model_page(site, path), as_json=as_json)

    @app.get("/task/{name:path}")
    def task(request: Request, name: str) -> Response:
        name, as_json = _named(name)
        return respond(request, "task.html", task_page(site, name), as_json=as_json)

    @app.get("/series/{name:path}")
    def series(request: Request, name: str) -> Response:
        name, as_json = _named(name)
        return respond(request, "series.html", series_page(site, name), as_json=as_json)


def _add_guide(app: FastAPI, site: Site) -> None:
    cache = PageCache()

    @app.get("/recommend")
    @app.get("/recommend.json")
    def recommend(request: Request) -> Response:
        sources = sources_of(site)
        version = " ".join(source.table.version for source in sources)
        page = partial(recommend_page, sources, _pairs(request))
        return cache.respond(
            request, version, lambda: respond(request, "recommend.html", page(), as_json=_wants_json(request))
        )

    @app.get("/guide")
    @app.get("/guide.json")
    def guide(request: Request) -> Response:
        return respond(request, "guide.html", guide_page(), as_json=_wants_json(request))


_log = logging.getLogger("uvicorn.error")


def _add_failures(app: FastAPI) -> None:
    @app.exception_handler(AssaymarkError)
    def of_ours(request: Request, error: AssaymarkError) -> Response:
        status = _status_of(error)
        if status >= 500:  # the visitor cannot mend it, the operator can
            _log.error("%s %s: %s", request.method, quote(request.url.path), error)
        if isinstance(error, StoreError):  # its text says where the store is, and what the database's driver said
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


def _status_of(error: AssaymarkError) -> int:
    kinds: tuple[tuple[type[AssaymarkError], int], ...] = (
        (UnknownName, 404),
        (TextsWithheld, 403),
        (UsageError, 400),
        (StoreError, 503),
    )
    return next((status for kind, status in kinds if isinstance(error, kind)), 500)


def _failure(request: Request, status: int, text: str) -> Response:
    as_json = request.url.path.endswith(JSON) or request.url.path.startswith("/api/")
    return respond(request, "failure.html", FailurePage(status, without_folders(text)), as_json=as_json, status=status)
