"""Traces as a part of the server: the receiver of OTLP, and the pages, which need a token of the project.

In a browser the token is exchanged for a signed cookie with its id, which is invalid once the token is removed.
Programs send the token itself, in the Authorization header. Tokens that only write read nothing.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from assaymark.applications.live.annotation_log import AnnotationLog
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.otlp import spans_json
from assaymark.applications.traces.pages import (
    SessionsPage,
    TraceSignInPage,
    indented,
    list_page,
    shown_cost,
    shown_instant,
    shown_seconds,
    trace_of,
    trace_page,
)
from assaymark.applications.traces.receiver import LARGEST_BODIES, add_receiver, bearer_of
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import Token
from assaymark.store import Store
from assaymark.web.app import Feature
from assaymark.web.posts import Form
from assaymark.web.rate import Rate
from assaymark.web.render import Drawing, respond, wants_json
from assaymark.web.secret import Signer, server_secret
from assaymark.web.security import safe_path

TRIES, TRY_SECONDS = 20, 60.0  # of tokens, from one network
LINKS = (("/traces", "Traces"),)
FILTERS: dict[str, Callable[..., object]] = {
    "instant": shown_instant,
    "took": shown_seconds,
    "money": shown_cost,
    "indented": indented,
}
DRAWING = Drawing(Path(__file__).resolve().parent / "templates", FILTERS)
COOKIE = "traces"
COOKIE_SECONDS = 30 * 86_400


class _SignInFirst(HTTPException):
    """The visitor has yet to show a token."""


class Readers:
    """Finds the rights of requests."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._signer = Signer(server_secret(), "traces")

    def of(self, request: Request) -> Token | None:
        """Return the rights of a request's token; None without a valid one. Raises: HTTPException 401, 403."""
        if text := bearer_of(request):
            token = TraceLog(self._store).token(text)
            if token is None:
                raise HTTPException(401, "this token is not valid here or was removed", {"www-authenticate": "Bearer"})
            if token.scope != "all":
                raise HTTPException(403, "this token stores spans and reads nothing; use another of the project")
            return token
        name, _, signature = request.cookies.get(COOKIE, "").partition(".")
        if not name or not self._signer.is_signed(name, signature):
            return None
        token = TraceLog(self._store).token_of_id(name)
        return token if token is not None and token.scope == "all" else None

    def remember(self, response: Response, token: Token, *, secure: bool) -> None:
        """Set the cookie that names the token."""
        cookie = f"{token.id}.{self._signer.sign(token.id)}"
        response.set_cookie(COOKIE, cookie, max_age=COOKIE_SECONDS, httponly=True, samesite="lax", secure=secure)

    def need(self, request: Request) -> Token:
        """Return the rights of a request's token. Raises: SignInFirst without one, HTTPException 401, 403."""
        token = self.of(request)
        if token is None:
            raise _SignInFirst(401, "show a token of the project: in a browser at /traces/sign-in, else in the header "
                                   "Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})  # fmt: skip
        return token


def private(response: Response) -> Response:
    """Keep a page out of shared caches."""
    response.headers["cache-control"] = "private, no-store"
    return response


def _add_pages(app: FastAPI, store: Store) -> None:
    readers = Readers(store)
    need = readers.need

    @app.exception_handler(_SignInFirst)
    def sign_in_first(request: Request, error: _SignInFirst) -> Response:
        if wants_json(request) or request.url.path.endswith("/otlp"):
            headers = {"www-authenticate": "Bearer"}
            return Response(json.dumps({"error": error.detail}), 401, headers, media_type="application/json")
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/traces/sign-in?{QueryParams({'back': back})}", 303)

    _add_sign_in(app, store, readers)

    @app.get("/traces")
    @app.get("/traces.json")
    def traces(request: Request) -> Response:
        query = ListQuery.of(request.query_params)
        is_live, token = request.query_params.get("live") == "1", need(request)
        as_json = wants_json(request)
        if not as_json and "" in request.query_params.values():  # a form sends its empty fields too
            address = query.address()
            return RedirectResponse(f"{address}{'&' if '?' in address else '?'}live=1" if is_live else address, 303)
        page = list_page(store, token, query, is_live=is_live)
        if not as_json:
            queues = tuple(queue.name for queue in AnnotationLog(store).queues(token.project))
            page = replace(page, form_token=app.state.posts.token(request), queues=queues, note=_of_chosen(request))
        return private(respond(request, "traces.html", page, as_json=as_json))

    @app.get("/traces/sessions")
    @app.get("/traces/sessions.json")
    def sessions(request: Request) -> Response:
        token = need(request)
        page = SessionsPage(token.project_name, tuple(TraceLog(store).sessions(token.project)))
        return private(respond(request, "trace_sessions.html", page, as_json=wants_json(request)))

    @app.get("/trace/{trace}/otlp")
    def otlp(request: Request, trace: str) -> Response:
        token = need(request)
        made = spans_json(TraceLog(store).spans(token.project, trace_of(store, token, trace)))
        return private(Response(json.dumps(made), media_type="application/json"))

    @app.get("/trace/{trace}")
    def trace(request: Request, trace: str) -> Response:
        as_json = wants_json(request)
        span, number = request.query_params.get("span", ""), request.query_params.get("page", "")
        at = int(number) if number.isascii() and number.isdigit() and len(number) < 7 else None
        page = trace_page(store, need(request), trace.removesuffix(".json"), span, at, is_whole=as_json)
        if not as_json:
            dataset, note = _of_row(request.query_params)
            page = replace(page, form_token=app.state.posts.token(request), dataset=dataset, row_note=note)
        return private(respond(request, "trace.html", page, as_json=as_json))


def _of_chosen(request: Request) -> str:
    """Return a message about the traces that were chosen just now; "" if none were."""
    added, name = request.query_params.get("added", ""), request.query_params.get("to", "")[:128]
    return f"{added[:6]} of the chosen traces are new in {name}." if name and added.isdecimal() else ""


def _of_row(query: QueryParams) -> tuple[str, str]:
    """Return the data set to which a row was added just now, and the outcome; "" if none was."""
    dataset, same = query.get("dataset", "")[:128], query.get("same", "")[:8]
    if not dataset:
        return "", ""
    if query.get("added"):
        return dataset, f"It is a row of {dataset} now."
    return dataset, f"{dataset} has a row with the same inputs already, from trace {same}; it stays as it is."


def _add_sign_in(app: FastAPI, store: Store, readers: Readers) -> None:
    tries = Rate(TRIES, TRY_SECONDS)

    def form_page(request: Request, back: str, problem: str = "", status: int = 200) -> Response:
        token = readers.of(request)
        name = "" if token is None else token.project_name
        page = TraceSignInPage(back, app.state.posts.token(request), problem, name)
        return private(respond(request, "trace_sign_in.html", page, status=status))

    @app.get("/traces/sign-in")
    def sign_in_page(request: Request, back: str = "/traces") -> Response:
        return form_page(request, safe_path(back))

    @app.post("/traces/sign-in")
    def sign_in(request: Request, form: Form) -> Response:
        tries.take(app.state.clients.network(request), "attempts from your network")
        back = safe_path(form.text("back") or "/traces")
        token = TraceLog(store).token(form.text("key"))
        if token is None or token.scope != "all":
            problem = (
                "This token is not valid here or was removed. `assaymark traces project token NAME` makes one."
                if token is None
                else "This token stores spans and reads nothing. Show another token of the project."
            )
            return form_page(request, back, problem, 401)
        response = RedirectResponse(back, 303)
        readers.remember(response, token, secure=app.state.clients.is_secure(request))
        return response

    @app.post("/traces/sign-out")
    def sign_out(request: Request, form: Form) -> Response:  # noqa: ARG001 - its token is checked
        response = RedirectResponse("/traces/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response


def trace_feature(store: Store, redaction: Redaction) -> Feature:
    """Return the receiver of traces, and their pages, whose form (of `live_feature`) makes rows from traces."""

    def add(app: FastAPI) -> None:
        add_receiver(app, store, redaction)
        _add_pages(app, store)

    return Feature(add, LINKS, LARGEST_BODIES, DRAWING, ready=TraceLog(store).projects)
