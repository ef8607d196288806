"""The routes of live monitoring: feedback by programs and by a form that other sites may embed."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from assaymark.applications.live.feedback import LONGEST_COMMENT, store_feedback
from assaymark.applications.live.feedback_log import FeedbackLog
from assaymark.applications.live.links import FORM, FeedbackLink, read_link
from assaymark.applications.traces.receiver import bearer_of
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.routes import private
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.errors import StoreError, UsageError
from assaymark.limits.nesting import parse_json
from assaymark.store import Store
from assaymark.web.posts import Posted, SignedForm
from assaymark.web.rate import Rate
from assaymark.web.render import respond
from assaymark.web.secret import Signer, server_secret
from assaymark.web.security import CSP

API = "/v1/feedback"
LARGEST_BODY = 1 << 20
LARGEST_FORM = 256 << 10
LARGEST_BODIES = {API: LARGEST_BODY + 1024, FORM: LARGEST_FORM}
DEEPEST = 30  # levels of JSON in a body
MOST_AT_ONCE = 1000  # feedbacks of one request
PER_MINUTE = 1200  # requests of programs, from one network
TRIES_PER_MINUTE = 20  # with a wrong token, from one network
FORMS_PER_MINUTE = 30  # sent from one network
HASH_LENGTH = 32  # hexadecimal digits of a rater's hash
LONGEST_TYPED = 20_000  # characters of a correction that is typed into the form
_CHOICES = {"yes": True, "no": False}


def checked_origins(origins: Sequence[str]) -> tuple[str, ...]:
    """Return the sites that may embed the form, as browsers name them. Raises: UsageError for an invalid site."""
    sites = []
    for origin in origins:
        parts = urlsplit(origin)
        host = parts.netloc
        is_site = parts.scheme in {"http", "https"} and bool(host) and parts.path in {"", "/"}
        if not is_site or parts.query or parts.fragment or not all(c.isalnum() or c in ".-:[]" for c in host):
            raise UsageError(f"--feedback_origins '{origin[:80]}'; expected a site, as https://app.example.org")
        sites.append(f"{parts.scheme}://{host.lower()}")
    return tuple(sites)


def add_feedback(app: FastAPI, store: Store, redaction: Redaction, origins: Sequence[str] = ()) -> None:
    """Add the routes.

    origins: sites whose pages may embed the form, checked.
    """
    raters = Signer(server_secret(), "rater")

    def rater_of(project: int, text: str) -> str:
        return raters.sign(f"{project} {text}")[:HASH_LENGTH]

    _add_api(app, store, redaction, rater_of)
    _add_form(app, store, redaction, rater_of, origins)


def _add_api(app: FastAPI, store: Store, redaction: Redaction, rater_of: Callable[[int, str], str]) -> None:
    requests, tries = Rate(PER_MINUTE, 60.0), Rate(TRIES_PER_MINUTE, 60.0)

    def stored(request: Request, body: bytes) -> Response:
        network = app.state.clients.network(request)
        requests.take(network, "requests from your network")
        hint = "send the header Authorization: Bearer TOKEN, with a token of `assaymark traces project add`"
        try:
            token = TraceLog(store).token(text) if (text := bearer_of(request)) else None
            if token is None:
                tries.take(network, "attempts with a wrong token from your network")
                return _answer(401, {"error": f"there is no token that is valid here; {hint}"}, bearer="Bearer")
            sent = _sent(body)
            accepted = store_feedback(
                FeedbackLog(store), token.project, sent, redaction, lambda user: rater_of(token.project, user)
            )
        except StoreError:
            return _answer(503, {"error": "the store cannot be written now; send it again"}, retry="1")
        rejected = [{"index": at, "reason": reason} for at, reason in accepted.rejected]
        content = {"accepted": accepted.n_accepted, "new": accepted.n_new, "rejected": rejected}
        return _answer(400 if rejected and not accepted.n_accepted else 200, content)

    @app.post(API)
    async def take_feedback(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # which pages of other sites cannot send without permission
            return _answer(415, {"error": f"the content type is '{kind[:100]}'; expected application/json"})
        try:
            body = await request.body()
        except ClientDisconnect:
            return _answer(413, {"error": f"the body has more than {LARGEST_BODY:,} bytes; send less at once"})
        try:
            return await run_in_threadpool(stored, request, body)
        except HTTPException as error:
            return _answer(error.status_code, {"error": error.detail}, retry=(error.headers or {}).get("retry-after"))


def _sent(body: bytes) -> list[object]:
    """Return the feedbacks of a body: one object, or a list under `feedback`. Raises: HTTPException 400."""
    try:
        read = parse_json(body.decode(), DEEPEST)
    except ValueError:
        raise HTTPException(400, "the body is not valid JSON; expected an object, or {feedback: [...]}") from None
    if isinstance(read, dict) and set(read) == {"feedback"}:
        read = read["feedback"]
    elif isinstance(read, dict):
        read = [read]
    if not isinstance(read, list) or not read:
        raise HTTPException(400, "the body holds no feedback; expected an object, or {feedback: [...]}")
    if len(read) > MOST_AT_ONCE:
        raise HTTPException(400, f"there are {len(read):,} feedbacks; expected at most {MOST_AT_ONCE:,} at once")
    return read


def _answer(status: int, content: object, *, bearer: str | None = None, retry: str | None = None) -> Response:
    headers = {"cache-control": "no-store"}
    headers |= {"www-authenticate": bearer} if bearer else {}
    headers |= {"retry-after": retry} if retry else {}
    return Response(json.dumps(content), status, headers, media_type="application/json")


@dataclass(frozen=True)
class FormPage:
    """The form, thanks after it was sent, or the reason why there is none.

    It asks for thumbs, whether the task was completed, a comment, and what the answer should have been. It works
    without scripts and without cookies, so that a page of another site can embed it.
    """

    query: str  # of the link
    problem: str = ""
    is_done: bool = False
    is_refused: bool = False

    json_keys = "problem is_done is_refused"

    longest_comment = LONGEST_COMMENT
    longest_correction = LONGEST_TYPED

    @classmethod
    def refused(cls) -> "FormPage":
        """Return the page for an invalid link."""
        return cls("", is_refused=True)


def _fields_of_form(form: Posted) -> dict[str, object]:
    """Return the submitted form as fields of feedback. Raises: HTTPException 400 for an invalid choice."""
    fields: dict[str, object] = {}
    for name, field in (("thumbs", "value"), ("completed", "completed")):
        chosen = form.text(name)
        if chosen and chosen not in _CHOICES:
            raise HTTPException(400, f"'{name}' is '{chosen[:40]}'; expected yes or no")
        if chosen:
            fields[field] = _CHOICES[chosen]
    for name in ("comment", "correction"):
        if text := form.text(name):
            fields[name] = text.replace("\r\n", "\n")
    return fields


def _add_form(
    app: FastAPI, store: Store, redaction: Redaction, rater_of: Callable[[int, str], str], origins: Sequence[str]
) -> None:
    sent, looked = Rate(FORMS_PER_MINUTE, 60.0), Rate(10 * FORMS_PER_MINUTE, 60.0)
    ancestors = " ".join(origins) or "'none'"

    def answered(request: Request, page: FormPage, status: int = 200) -> Response:
        response = private(respond(request, "feedback_form.html", page, status=status))
        response.headers["content-security-policy"] = CSP.replace(
            "frame-ancestors 'none'", f"frame-ancestors {ancestors}"
        )
        if origins:
            response.headers["cross-origin-resource-policy"] = "cross-origin"
        return response

    def link_of(request: Request) -> FeedbackLink | None:
        names = request.query_params
        return read_link(lambda name: names.get(name, ""), FeedbackLog(store).tokens_of_hint, time.time())

    @app.get(FORM)
    def form(request: Request) -> Response:
        looked.take(app.state.clients.network(request), "pages from your network")
        link = link_of(request)
        if link is None:
            return answered(request, FormPage.refused(), 403)
        return answered(request, FormPage(link.query))

    @app.post(FORM)
    def take_form(request: Request, form: SignedForm) -> Response:
        sent.take(app.state.clients.network(request), "forms from your network")
        link = link_of(request)
        if link is None:
            return answered(request, FormPage.refused(), 403)
        return answered(request, *_stored_form(request, link, form))

    def _stored_form(request: Request, link: FeedbackLink, form: Posted) -> tuple[FormPage, int]:
        fields = _fields_of_form(form)
        if not fields:
            return FormPage(link.query, problem="Nothing is filled in."), 400
        feedback = {
            **fields,
            "id": f"form {hashlib.sha256(link.signature.encode()).hexdigest()}",
            "trace_id": link.trace_id.hex(),
        }
        if network := app.state.clients.network_hash(request):
            feedback["user"] = f"network {network}"
        accepted = store_feedback(
            FeedbackLog(store), link.project, [feedback], redaction, lambda user: rater_of(link.project, user)
        )
        if accepted.rejected:
            return FormPage(link.query, problem=accepted.rejected[0][1]), 400
        return FormPage(link.query, is_done=True), 200
