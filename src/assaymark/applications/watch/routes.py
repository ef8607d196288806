"""The routes of watching: quality over time, for whoever has a token of the project."""

from collections.abc import Callable

from fastapi import FastAPI, Request, Response

from assaymark.applications.traces.trace_rows import Token
from assaymark.applications.watch.pages import quality_page
from assaymark.applications.watch.quality import QualityQuery
from assaymark.store import Store
from assaymark.web.render import respond, wants_json

__all__ = ["add_watch_pages"]


def add_watch_pages(app: FastAPI, store: Store, need: Callable[[Request], Token]) -> None:
    """Add the routes. need: returns what a request's token allows, or raises what sends the visitor to sign in."""

    @app.get("/traces/quality")
    @app.get("/traces/quality.json")
    def quality(request: Request) -> Response:
        page = quality_page(store, need(request), QualityQuery.of(request.query_params))
        response = respond(request, "trace_quality.html", page, as_json=wants_json(request))
        response.headers["cache-control"] = "private, no-store"
        return response
