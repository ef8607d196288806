"""The routes of leaderboards; the contents of pages are made in `pages`."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from assaymark.arena.arena_log import ArenaLog
from assaymark.leaderboard.columns import model_type
from assaymark.leaderboard.evidence import sources_of, votes_of
from assaymark.leaderboard.exports import rows_csv, rows_jsonl, rows_parquet
from assaymark.leaderboard.pages.board import about_page, board_page, boards_page, view_of
from assaymark.leaderboard.pages.board_document import correlations_page, win_rates_page
from assaymark.leaderboard.pages.charts import charts_page
from assaymark.leaderboard.pages.compare import compare_page
from assaymark.leaderboard.pages.model import card_page, model_page, series_page
from assaymark.leaderboard.pages.recommend import guide_page, recommend_page
from assaymark.leaderboard.pages.run import group_page, run_page, samples_page
from assaymark.leaderboard.pages.sample import sample_image, sample_page, with_replies
from assaymark.leaderboard.pages.task import questions_page, task_page
from assaymark.leaderboard.shown import all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import TextsWithheld, model_label
from assaymark.records import content_hash
from assaymark.web.app import Feature, image_response, logo_response
from assaymark.web.render import JSON, Drawing, model_path, respond, viewer_of, wants_json

MARKDOWN = ".md"  # the end of a model card's address under which it is a file
LONGEST_NAME = 300  # characters of anything in a path
LARGEST_INDEX = 10**9  # of a sample
LINKS = (("/boards", "Leaderboards"), ("/compare", "Compare runs"), ("/recommend", "Recommend"))
DRAWING = Drawing(Path(__file__).resolve().parents[1] / "templates", {"model_type": model_type, "label": model_label})
MOST_BYTES = 64 << 20


def board_feature(site: Site) -> Feature:
    """Return the pages of boards, models and runs as a part of the application; they only read."""

    def add(app: FastAPI) -> None:
        _add_boards(app, site)
        _add_about(app, site)
        _add_runs(app, site)
        _add_named_pages(app, site)
        _add_guide(app, site)

    links = (*LINKS, ("/guide", "Guide"))
    return Feature(add, links, drawing=DRAWING, statuses={TextsWithheld: 403}, only_reads=True, ready=site.stored_runs)


def _pairs(request: Request) -> list[tuple[str, str]]:
    return list(request.query_params.multi_items())


def _named(path: str) -> tuple[str, bool]:
    """Return a name from a path, and whether its JSON twin is requested."""
    if len(path) > LONGEST_NAME:
        raise HTTPException(404, f"a name has at most {LONGEST_NAME} characters")
    return (path.removesuffix(JSON), True) if path.endswith(JSON) else (path, False)


def _add_boards(app: FastAPI, site: Site) -> None:
    cache = _PageCache()

    @app.get("/")
    def boards(request: Request) -> Response:
        page = boards_page(site)
        if len(page.boards) == 1:
            return RedirectResponse(f"/board/{page.boards[0].board.name}", 307)
        return respond(request, "boards.html", page)

    @app.get("/boards")
    @app.get("/boards.json")
    def all_boards(request: Request) -> Response:
        return respond(request, "boards.html", boards_page(site), as_json=wants_json(request))

    @app.get("/board/{name}")
    def board(request: Request, name: str) -> Response:
        name, kind = _table_format(site, name)
        if kind in {"csv", "jsonl", "parquet"}:
            return _export(site, name, kind, _pairs(request))
        version = f"{site.table(site.board(name)).version} {site.seal_state()}".strip()

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
    cache = _PageCache()

    def cached(request: Request, name: str, template: str, page: Callable[[], object]) -> Response:
        """Return a page, which is cached for each version of the board's table."""

        def made() -> Response:
            return respond(request, template, page(), as_json=wants_json(request))

        return cache.respond(request, site.table(site.board(name)).version, made)

    @app.get("/board/{name}/charts")
    @app.get("/board/{name}/charts.json")
    def charts(request: Request, name: str) -> Response:
        return cached(request, name, "charts.html", lambda: charts_page(site, name, _pairs(request)))

    @app.get("/board/{name}/correlations")
    @app.get("/board/{name}/correlations.json")
    def correlations(request: Request, name: str) -> Response:
        return cached(request, name, "board_document.html", lambda: correlations_page(site, name))

    @app.get("/board/{name}/win-rates")
    @app.get("/board/{name}/win-rates.json")
    def win_rates(request: Request, name: str) -> Response:
        return cached(request, name, "board_document.html", lambda: win_rates_page(site, name))

    @app.get("/board/{name}/about")
    @app.get("/board/{name}/about.json")
    def about(request: Request, name: str) -> Response:
        return respond(request, "about.html", about_page(site, name), as_json=wants_json(request))


def _table_format(site: Site, path: str) -> tuple[str, str]:
    """Return a board's name and the format of its table: the ending counts unless a board is called so."""
    name, _, kind = path.rpartition(".")
    is_format = kind in {"json", "jsonl", "csv", "parquet"} and path not in site.boards
    return (name, kind) if is_format else (path, "html")


def _export(site: Site, name: str, kind: str, pairs: Sequence[tuple[str, str]]) -> Response:
    board = site.board(name)
    table = site.table(board)
    rows = all_rows(table, view_of(board, table, pairs), board.shown_columns)
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
        page = sample_page(site, name, task, index, _pairs(request))
        return respond(request, "sample.html", page, as_json=wants_json(request))

    @app.get("/run/{name}/samples/{task:path}/{index:int}/images/{sha256}")
    def image(name: str, task: str, index: int, sha256: str) -> Response:
        return image_response(sample_image(site, name, task, index, sha256) if index <= LARGEST_INDEX else None)

    @app.get("/run/{name}/samples/{task:path}")
    def samples(request: Request, name: str, task: str) -> Response:
        task, as_json = _named(task)
        if (group := group_page(site, name, task)) is not None:
            return respond(request, "group.html", group, as_json=as_json)
        page = with_replies(site, samples_page(site, name, task, _pairs(request)))
        response = respond(request, "samples.html", page, as_json=as_json)
        response.headers["HX-Push-Url"] = f"{quote(request.url.path)}{page.query().rstrip('?')}"
        return response

    @app.get("/compare")
    @app.get("/compare.json")
    def compare(request: Request) -> Response:
        as_json = wants_json(request)
        return respond(
            request, "compare.html", compare_page(site, _pairs(request), with_texts=as_json), as_json=as_json
        )


def _add_named_pages(app: FastAPI, site: Site) -> None:
    cache = _PageCache()

    @app.get("/model/{path:path}")
    def model(request: Request, path: str) -> Response:
        path, as_json = _named(path)
        if (present := site.marks().names.get(path)) is not None:
            return RedirectResponse(model_path(present) + (JSON if as_json else ""), 308)
        return respond(request, "model.html", model_page(site, path), as_json=as_json)

    @app.get("/card/{path:path}")
    def card(request: Request, path: str) -> Response:
        if len(path) > LONGEST_NAME:
            raise HTTPException(404, f"a name has at most {LONGEST_NAME} characters")

        def made() -> Response:
            page = card_page(site, path.removesuffix(MARKDOWN))
            if not path.endswith(MARKDOWN):
                return respond(request, "card.html", page)
            headers = {"content-disposition": 'attachment; filename="README.md"'}
            text = page.text.encode("utf-8", "backslashreplace")
            return Response(text, media_type="text/markdown; charset=utf-8", headers=headers)

        version = content_hash([site.seal_state(), *(f"{run.run_id} {run.state}" for run in site.stored_runs())])
        return cache.respond(request, version, made)

    @app.get("/task/{name:path}")
    def task(request: Request, name: str) -> Response:
        name, as_json = _named(name)
        return respond(request, "task.html", task_page(site, name), as_json=as_json)

    @app.get("/questions/{name:path}")
    def questions(request: Request, name: str) -> Response:
        name, as_json = _named(name)
        return respond(request, "questions.html", questions_page(site, name), as_json=as_json)

    @app.get("/series/{name:path}")
    def series(request: Request, name: str) -> Response:
        name, as_json = _named(name)
        return respond(request, "series.html", series_page(site, name), as_json=as_json)


def _add_guide(app: FastAPI, site: Site) -> None:
    cache = _PageCache()

    @app.get("/recommend")
    @app.get("/recommend.json")
    def recommend(request: Request) -> Response:
        sources = sources_of(site)
        votes = votes_of(site)
        batch = None if votes is None else ArenaLog(votes.store).last_batch()
        version = " ".join([*(source.table.version for source in sources), str(batch and batch.sequence)])
        page = partial(recommend_page, sources, _pairs(request), votes)
        return cache.respond(
            request, version, lambda: respond(request, "recommend.html", page(), as_json=wants_json(request))
        )

    @app.get("/guide")
    @app.get("/guide.json")
    def guide(request: Request) -> Response:
        return respond(request, "guide.html", guide_page(), as_json=wants_json(request))


class _Page(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class _PageCache:
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
