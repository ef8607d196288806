"""The routes of the pages of traces, which need a token of the project.

In a browser the token is exchanged for a signed cookie with its id, which is invalid once the token is removed.
Programs send the token itself, in the Authorization header. Tokens that only write read nothing.
"""

import json
from dataclasses import replace

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from assaymark.applications.live.annotation_log import AnnotationLog
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.otlp import spans_json
from assaymark.applications.traces.pages import SessionsPage, TraceSignInPage, list_page, trace_of, trace_page
from assaymark.applications.traces.readers import COOKIE, Readers, SignInFirst, private
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.store import Store
from assaymark.web.posts import Form
from assaymark.web.rate import Rate
from assaymark.web.render import respond, wants_json
from assaymark.web.security import safe_path

TRIES, TRY_SECONDS = 20, 60.0  # of tokens, from one network


def add_pages(app: FastAPI, store: Store, *, has_rows: bool = False) -> None:
    """Add the routes. has_rows: whether `/trace/ID/row` makes rows of data sets from traces."""
    readers = Readers(store)
    need = readers.need

    @app.exception_handler(SignInFirst)
    def sign_in_first(request: Request, error: SignInFirst) -> Response:
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
        if not as_json and has_rows:
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
        if not as_json and has_rows:
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
