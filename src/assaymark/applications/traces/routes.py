"""The routes of the pages of traces, and who may read them: whoever has a token of the project.

In a browser the token is exchanged for a cookie that names it by its id, signed; a token that is removed later opens
nothing any more. Programs send the token itself, in the Authorization header. Tokens of senders read nothing.
"""

import json
from collections.abc import Callable

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.otlp import spans_json
from assaymark.applications.traces.pages import SignInPage, list_page, sessions_page, trace_of, trace_page
from assaymark.applications.traces.receiver import bearer_of
from assaymark.store import Store
from assaymark.store.trace_rows import Token
from assaymark.web.clients import Rate
from assaymark.web.posts import Form
from assaymark.web.render import respond, wants_json
from assaymark.web.secret import Signer, server_secret
from assaymark.web.security import safe_path

__all__ = ["add_pages", "reader_of"]

COOKIE = "traces"
COOKIE_SECONDS = 30 * 86_400
TRIES, TRY_SECONDS = 20, 60.0  # of tokens, from one network


class _Readers:
    """Recognises who may read which project."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._signer = Signer(server_secret(), "traces")

    def of(self, request: Request) -> Token | None:
        """Return what a request's token allows; None without a valid one. Raises: HTTPException 401, 403."""
        if text := bearer_of(request):
            token = self._store.traces.token(text)
            if token is None:
                raise HTTPException(401, "this token is not valid here or was removed", {"www-authenticate": "Bearer"})
            if token.scope != "all":
                raise HTTPException(403, "this token stores spans and reads nothing; use another of the project")
            return token
        name, _, signature = request.cookies.get(COOKIE, "").partition(".")
        if not name or not self._signer.is_signed(name, signature):
            return None
        token = self._store.traces.token_of_id(name)
        return token if token is not None and token.scope == "all" else None

    def remember(self, response: Response, token: Token, *, secure: bool) -> None:
        """Keep in the browser which token was shown."""
        cookie = f"{token.id}.{self._signer.sign(token.id)}"
        response.set_cookie(COOKIE, cookie, max_age=COOKIE_SECONDS, httponly=True, samesite="lax", secure=secure)


class _SignInFirst(HTTPException):
    """The visitor has yet to show a token."""


def reader_of(store: Store) -> Callable[[Request], Token]:
    """Return what recognises a reader: of a request, what its token allows; it raises what leads to signing in."""
    readers = _Readers(store)

    def need(request: Request) -> Token:
        token = readers.of(request)
        if token is None:
            raise _SignInFirst(401, "show a token of the project: in a browser at /traces/sign-in, else in the header "
                                    "Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})  # fmt: skip
        return token

    return need


def add_pages(app: FastAPI, store: Store) -> None:
    """Add the routes."""
    readers, need = _Readers(store), reader_of(store)

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
        is_live = request.query_params.get("live") == "1"
        page = list_page(store, need(request), query, is_live=is_live)
        return _private(respond(request, "traces.html", page, as_json=wants_json(request)))

    @app.get("/traces/sessions")
    @app.get("/traces/sessions.json")
    def sessions(request: Request) -> Response:
        page = sessions_page(store, need(request))
        return _private(respond(request, "trace_sessions.html", page, as_json=wants_json(request)))

    @app.get("/trace/{trace}/otlp")
    def otlp(request: Request, trace: str) -> Response:
        token = need(request)
        made = spans_json(store.traces.spans(token.project, trace_of(store, token, trace)))
        return _private(Response(json.dumps(made), media_type="application/json"))

    @app.get("/trace/{trace}")
    def trace(request: Request, trace: str) -> Response:
        as_json = wants_json(request)
        span, number = request.query_params.get("span", ""), request.query_params.get("page", "")
        at = int(number) if number.isascii() and number.isdigit() and len(number) < 7 else None
        page = trace_page(store, need(request), trace.removesuffix(".json"), span, at, is_whole=as_json)
        return _private(respond(request, "trace.html", page, as_json=as_json))


def _private(response: Response) -> Response:
    """Keep a page out of caches that others use."""
    response.headers["cache-control"] = "private, no-store"
    return response


def _add_sign_in(app: FastAPI, store: Store, readers: _Readers) -> None:
    tries = Rate(TRIES, TRY_SECONDS)

    def form_page(request: Request, back: str, problem: str = "", status: int = 200) -> Response:
        token = readers.of(request)
        name = "" if token is None else token.project_name
        page = SignInPage(back, app.state.posts.token(request), problem, name)
        return _private(respond(request, "trace_sign_in.html", page, status=status))

    @app.get("/traces/sign-in")
    def sign_in_page(request: Request, back: str = "/traces") -> Response:
        return form_page(request, safe_path(back))

    @app.post("/traces/sign-in")
    def sign_in(request: Request, form: Form) -> Response:
        tries.take(app.state.clients.network(request), "attempts from your network")
        back = safe_path(form.text("back") or "/traces")
        token = store.traces.token(form.text("key"))
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
