"""Live monitoring as a part of the server: feedback (`routes`), the pages of raters, and rows made from traces.

Pages and routes of raters and data sets need a token of the project, as all pages of traces do. Raters enter a name,
which the browser keeps; whoever can read the project may rate under any name.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from assaymark.applications.live.annotation import QueueAgreement, Rubric, agreement_of, rating_score, rubric_of
from assaymark.applications.live.annotation_log import LONGEST_RATER, AnnotationLog, AnnotationQueue
from assaymark.applications.live.answered_traces import contexts_of, inputs_and_output, read_trace
from assaymark.applications.live.dataset_log import DatasetLog
from assaymark.applications.live.datasets import row_of_trace
from assaymark.applications.live.feedback import LONGEST_COMMENT
from assaymark.applications.live.routes import LARGEST_BODIES, add_feedback
from assaymark.applications.traces.pages import trace_of
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.routes import Readers, private
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import Token, TraceRow
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields
from assaymark.store import Store
from assaymark.web.app import Feature
from assaymark.web.posts import Form, Posted
from assaymark.web.render import Drawing, respond, wants_json
from assaymark.web.security import safe_path

ANNOTATE = "/traces/annotate"
COOKIE = "rater"
COOKIE_SECONDS = 180 * 86_400
HOLD_SECONDS = 900.0  # for which a rater has an item
LONGEST_CORRECTION = 20_000
MOST_CHOSEN = 200  # traces of a list at once
LONGEST_SHOWN = 50_000  # characters of one text
MOST_CONTEXTS = 20
_SIGNS = "_.@+ -"  # of names, beside letters, digits and marks on them
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_NAMELESS = f"Type the name that you rate under: letters, digits and spaces, at most {LONGEST_RATER}."
DRAWING = Drawing(Path(__file__).resolve().parent / "templates")


@dataclass(frozen=True)
class QueuesPage:
    """The queues of a project, each with its raters' agreement."""

    project: str
    queues: tuple[tuple[AnnotationQueue, QueueAgreement], ...]
    datasets: dict[str, int]  # rows by name
    rater: str
    token: str  # of the forms
    problem: str = ""
    finished: str = ""  # the queue in which nothing is left for this rater

    json_keys = "project queues=listed datasets"

    @property
    def listed(self) -> list[dict[str, object]]:
        """The queues with how far their raters agree."""
        return [{**json_fields(queue), "agreement": agreement.to_json()} for queue, agreement in self.queues]


def queues_page(
    store: Store, token: Token, rater: str, form: str, *, problem: str = "", finished: str = ""
) -> QueuesPage:
    """Return the queues of a project.

    Args:
        rater: name of the rater; "" if not known.
        form: token of the forms.
        problem: of the form that was sent last.
        finished: the queue in which nothing is left for this rater.
    """
    queues = AnnotationLog(store).queues(token.project)
    with_agreement = tuple((queue, agreement_of(queue, AnnotationLog(store).ratings(queue))) for queue in queues)
    sizes = DatasetLog(store).sizes(token.project)
    return QueuesPage(token.project_name, with_agreement, sizes, rater, form, problem, finished)


@dataclass(frozen=True)
class RatingPage:
    """A trace to rate: the application's input, retrieved documents and answer."""

    project: str
    queue: AnnotationQueue
    rubric: Rubric
    trace: TraceRow
    asked: str
    answered: str
    contexts: tuple[str, ...]
    error: str
    problem: str
    rater: str
    token: str
    n_own: int  # ratings of this rater in the queue
    choice: str = ""  # of a form that was refused, as are the texts
    comment: str = ""
    correction: str = ""

    json_keys = "queue=queue.name choices=rubric.names trace_id=id asked answered contexts error"

    @property
    def id(self) -> str:
        """The trace's id."""
        return self.trace.trace_id.hex()


def rating_page(
    store: Store, token: Token, queue: AnnotationQueue, trace_id: bytes, rater: str, form: str, problem: str = ""
) -> RatingPage:
    """Return the page of an item; see `queues_page`. Raises: UnknownName for a trace that is gone."""
    trace = TraceLog(store).trace(token.project, trace_id)
    asked = answered = error = ""
    contexts: tuple[str, ...] = ()
    try:
        _, steps = read_trace(store, token.project, trace_id)
        inputs, output = inputs_and_output(steps)
        asked, answered = _text_for_rater(inputs), _text_for_rater(output)
        contexts = tuple(text[:LONGEST_SHOWN] for text in (contexts_of(steps) or ())[:MOST_CONTEXTS])
        error = next((step.error for step in steps if step.error), "")[:LONGEST_SHOWN]
    except DataError as cause:
        error = str(cause)
    return RatingPage(
        token.project_name,
        queue,
        rubric_of(queue.rubric),
        trace,
        asked,
        answered,
        contexts,
        error,
        problem,
        rater,
        form,
        sum(rating.rater == rater for rating in AnnotationLog(store).ratings(queue)),
    )


def _text_for_rater(value: JsonValue) -> str:
    """Return a value in readable form: the text of a mapping with one entry, else JSON over several lines."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, str):
        return value[:LONGEST_SHOWN]
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=1)[:LONGEST_SHOWN]


def add_annotation(app: FastAPI, store: Store, redaction: Redaction) -> None:
    """Add the pages of raters."""
    readers = Readers(store)

    def rater_of(request: Request) -> str:
        return _rater_name(unquote(request.cookies.get(COOKIE, "")))

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
        typed, action = form.text("rater"), form.text("action")
        rater = _rater_name(typed) if typed else rater_of(request)
        if not rater and action not in {"rate", "skip"}:
            page = queues_page(store, token, "", app.state.posts.token(request), problem=_NAMELESS)
            return private(respond(request, "trace_queues.html", page, status=400))
        queue = AnnotationLog(store).queue(token.project, form.text("queue"))
        if action in {"rate", "skip"}:
            trace_id = trace_of(store, token, form.text("trace"))
            try:
                if not rater:
                    raise UsageError(_NAMELESS)  # noqa: TRY301 - answered with what was said, as the other refusals
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
                choice, comment, correction = (form.text(name) for name in ("choice", "comment", "correction"))
                again = replace(again, choice=choice, comment=comment, correction=correction)
                return private(respond(request, "annotate.html", again, status=400))
        elif action != "next":
            raise HTTPException(400, f"the action is '{action[:40]}'; expected next, rate or skip")
        item = AnnotationLog(store).claim(queue, rater, HOLD_SECONDS)
        query = {"finished": queue.name} if item is None else {"queue": queue.name, "trace": item.trace_id.hex()}
        response = RedirectResponse(f"{ANNOTATE}?{QueryParams(query)}", 303)
        response.set_cookie(COOKIE, quote(rater, safe=""), max_age=COOKIE_SECONDS, httponly=True, samesite="lax",
                            secure=app.state.clients.is_secure(request))  # fmt: skip
        return private(response)


def _rater_name(text: str) -> str:
    """Return a rater's name in the one form that it has in Unicode (NFC); "" for what is none.

    Two names that look alike would be two raters, so a name has no characters that are not seen.
    """
    name = unicodedata.normalize("NFC", text.strip())
    kinds = "".join("L" if each in _SIGNS else unicodedata.category(each)[0] for each in name)
    is_name = re.fullmatch("[LN][LMN]*", kinds) and len(name) <= LONGEST_RATER and not _UNSEEN.search(name)
    return name if is_name else ""


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


def live_feature(store: Store, redaction: Redaction, origins: Sequence[str] = ()) -> Feature:
    """Return the features that follow traces: feedback by programs and people, raters, and data sets.

    redaction: of what people write, before it is stored. origins: sites that may embed the form of feedback, checked.
    """

    def add(app: FastAPI) -> None:
        add_feedback(app, store, redaction, origins)
        add_annotation(app, store, redaction)
        add_datasets(app, store, redaction)

    return Feature(add, largest_bodies=LARGEST_BODIES, drawing=DRAWING)
