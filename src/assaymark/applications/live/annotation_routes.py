"""The routes of raters and of data sets: they need a token of the project, as all pages of traces do.

Raters enter a name, which the browser keeps; whoever can read the project may rate under any name.
"""

import json
import re

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from assaymark.applications.live.annotation import rating_score
from assaymark.applications.live.annotation_log import LONGEST_RATER, AnnotationLog
from assaymark.applications.live.answered_traces import read_trace
from assaymark.applications.live.dataset_log import DatasetLog
from assaymark.applications.live.datasets import row_of_trace
from assaymark.applications.live.feedback import LONGEST_COMMENT
from assaymark.applications.live.pages import queues_page, rating_page
from assaymark.applications.traces.pages import trace_of
from assaymark.applications.traces.readers import Readers, private
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.store import Store
from assaymark.web.posts import Form, Posted
from assaymark.web.render import respond, wants_json
from assaymark.web.security import safe_path

ANNOTATE = "/traces/annotate"
COOKIE = "rater"
COOKIE_SECONDS = 180 * 86_400
HOLD_SECONDS = 900.0  # for which a rater has an item
LONGEST_CORRECTION = 20_000
MOST_CHOSEN = 200  # traces of a list at once
_NAME = re.compile(r"[\w.@+ -]{1,64}")


def add_annotation(app: FastAPI, store: Store, redaction: Redaction) -> None:
    """Add the pages of raters."""
    readers = Readers(store)

    def rater_of(request: Request) -> str:
        name = request.cookies.get(COOKIE, "").replace("%20", " ")
        return name if _NAME.fullmatch(name) and name.strip() == name else ""

    @app.get(ANNOTATE)
    @app.get(f"{ANNOTATE}.json")
    def queues(request: Request) -> Response:
        token, rater = readers.need(request), rater_of(request)
        form = app.state.posts.token(request)
        name, trace = request.query_params.get("queue", ""), request.query_params.get("trace", "")
        as_json = wants_json(request)
        if name and trace:
            queue = AnnotationLog(store).queue(token.project, name)
            page = rating_page(store, token, queue, trace_of(store, token, trace), rater, form)
            return private(respond(request, "annotate.html", page, as_json=as_json))
        finished = request.query_params.get("finished", "")
        made = queues_page(store, token, rater, form, finished=finished[:128])
        return private(respond(request, "trace_queues.html", made, as_json=as_json))

    @app.post(ANNOTATE)
    def act(request: Request, form: Form) -> Response:
        token = readers.need(request)
        rater = form.text("rater") or rater_of(request)
        if not _NAME.fullmatch(rater):
            problem = f"Type the name that you rate under: letters, digits and spaces, at most {LONGEST_RATER}."
            page = queues_page(store, token, "", app.state.posts.token(request), problem=problem)
            return private(respond(request, "trace_queues.html", page, status=400))
        queue = AnnotationLog(store).queue(token.project, form.text("queue"))
        action = form.text("action")
        if action in {"rate", "skip"}:
            trace_id = trace_of(store, token, form.text("trace"))
            try:
                if action == "skip":
                    AnnotationLog(store).skip(queue, rater, trace_id)
                else:
                    comment, correction = _said(form, redaction)
                    score = rating_score(queue, trace_id, form.text("choice"), comment, correction)
                    AnnotationLog(store).rate(queue, rater, score)
            except UnknownName:
                raise
            except UsageError as error:
                form_token = app.state.posts.token(request)
                again = rating_page(store, token, queue, trace_id, rater, form_token, str(error))
                return private(respond(request, "annotate.html", again, status=400))
        elif action != "next":
            raise HTTPException(400, f"the action is '{action[:40]}'; expected next, rate or skip")
        item = AnnotationLog(store).claim(queue, rater, HOLD_SECONDS)
        query = {"finished": queue.name} if item is None else {"queue": queue.name, "trace": item.trace_id.hex()}
        response = RedirectResponse(f"{ANNOTATE}?{QueryParams(query)}", 303)
        response.set_cookie(COOKIE, rater.replace(" ", "%20"), max_age=COOKIE_SECONDS, httponly=True, samesite="lax",
                            secure=app.state.clients.is_secure(request))  # fmt: skip
        return private(response)


def _said(form: Posted, redaction: Redaction) -> tuple[str | None, str | None]:
    """Return comment and correction of a form. Raises: UsageError for one that is too long."""
    texts = []
    for name, longest in (("comment", LONGEST_COMMENT), ("correction", LONGEST_CORRECTION)):
        text = form.text(name).replace("\r\n", "\n")
        if len(text) > longest:
            raise UsageError(f"the {name} has {len(text):,} characters; expected at most {longest:,}")
        texts.append(redaction.text(text) if text else None)
    return texts[0], texts[1]


def _added_rows(store: Store, project: int, dataset: str, chosen: list[bytes], *, accepts: bool) -> int:
    """Make rows of traces; return how many are new. Raises: HTTPException 400, before any row is stored."""
    rows = []
    for trace_id in chosen:
        try:
            row_trace, steps = read_trace(store, project, trace_id)
            scores = TraceLog(store).scores(project, trace_id)
            rows.append((trace_id, row_of_trace(row_trace, steps, scores, accept_output=accepts)))
        except DataError as error:
            raise HTTPException(400, f"trace {trace_id.hex()[:8]} can be no row, so none was added: {error}") from None
    return sum(DatasetLog(store).add(project, dataset, trace_id, row.content) is None for trace_id, row in rows)


def add_datasets(app: FastAPI, store: Store, redaction: Redaction) -> None:
    """Add the button that makes a trace a row of a data set, and the data sets as files."""
    readers = Readers(store)

    @app.post("/trace/{trace}/row")
    def add_row(request: Request, trace: str, form: Form) -> Response:
        token = readers.need(request)
        trace_id = trace_of(store, token, trace)
        _, correction = _said(form, redaction)
        try:
            row_trace, steps = read_trace(store, token.project, trace_id)
            scores = TraceLog(store).scores(token.project, trace_id)
            accepts = form.text("accept_output") == "yes"
            row = row_of_trace(row_trace, steps, scores, accept_output=accepts, correction=correction)
        except DataError as error:
            raise HTTPException(400, f"this trace can be no row: {error}") from None
        dataset = form.text("dataset")
        same = DatasetLog(store).add(token.project, dataset, trace_id, row.content)
        query = {"dataset": dataset, "same" if same is not None else "added": "1" if same is None else same.hex()}
        return private(RedirectResponse(f"/trace/{trace_id.hex()}?{QueryParams(query)}#row", 303))

    @app.post("/traces/chosen")
    def add_chosen(request: Request, form: Form) -> Response:
        token = readers.need(request)
        chosen = [trace_of(store, token, trace) for trace in form.texts("trace")[:MOST_CHOSEN]]
        if not chosen:
            raise HTTPException(400, "no trace is chosen; tick the boxes before their names")
        name = form.text("queue" if form.text("to") == "queue" else "dataset")
        if form.text("to") == "queue":
            n_new = AnnotationLog(store).add_items(AnnotationLog(store).queue(token.project, name), chosen, "chosen")
        else:
            n_new = _added_rows(store, token.project, name, chosen, accepts=form.text("accept_output") == "yes")
        back = safe_path(form.text("back"))
        back = "/traces" if back == "/" else back  # an address that is too long too
        query = QueryParams({"added": str(n_new), "to": name})
        return private(RedirectResponse(f"{back}{'&' if '?' in back else '?'}{query}", 303))

    @app.get("/traces/dataset/{name}.jsonl")
    def rows(request: Request, name: str) -> Response:
        token = readers.need(request)
        stored_rows = DatasetLog(store).rows(token.project, name)
        if not stored_rows:
            raise UnknownName("data set", name[:128], list(DatasetLog(store).sizes(token.project))[:5])
        lines = "".join(f"{json.dumps(row.content, ensure_ascii=False)}\n" for row in stored_rows)
        headers = {"content-disposition": 'attachment; filename="rows.jsonl"'}
        body = lines.encode("utf-8", "backslashreplace")
        return private(Response(body, media_type="application/jsonl", headers=headers))
