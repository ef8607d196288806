"""The routes of submissions and the queue; `queue_feature` makes them a part of the application.

Signing in with a token, and out.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from assaymark.errors import AssaymarkError, DataError, Retryable, UsageError
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.pages.queue import public_problems, queue_page, submission_page, submit_page
from assaymark.leaderboard.routes.flags import add_flags, add_moderation
from assaymark.leaderboard.routes.queue_app import QueueApp
from assaymark.leaderboard.submission.checks import CheckOutcome, Policy, check_submission
from assaymark.leaderboard.submission.choices import SubmissionProblem, read_choices
from assaymark.leaderboard.submission.moderation import Moderation
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import NewSubmission
from assaymark.leaderboard.submission.sources import ModelSource
from assaymark.leaderboard.submission.uploads import LARGEST_RESULTS, store_results
from assaymark.records.json_values import json_of
from assaymark.store import Store
from assaymark.web.accounts import COOKIE, Accounts, AccountTokens
from assaymark.web.app import Feature
from assaymark.web.posts import Form, Posted
from assaymark.web.rate import Rate
from assaymark.web.render import wants_json
from assaymark.web.secret import server_secret
from assaymark.web.security import safe_path


@dataclass(frozen=True)
class QueueSignInPage:
    """The form for a token."""

    back: str
    problem: str = ""


def add_sign_in(queue: QueueApp) -> None:
    """Add the routes."""
    app = queue.app

    @app.get("/sign-in")
    def sign_in_page(request: Request, back: str = "/queue") -> Response:
        return queue.page(request, "sign_in.html", QueueSignInPage(safe_path(back)))

    @app.post("/sign-in")
    def sign_in(request: Request, form: Form) -> Response:
        queue.acts.take(queue.network(request), "attempts from your network")
        token = form.text("account")
        account = queue.accounts.of_token(token)
        if account is None:
            problem = "This token is not valid here, has ended or was revoked. Ask the host for a new one."
            return queue.page(
                request, "sign_in.html", QueueSignInPage(safe_path(form.text("back")), problem), status=401
            )
        response = queue.done(form, safe_path(form.text("back") or "/queue"), name=account.name)
        queue.accounts.remember(response, token, account, secure=app.state.clients.is_secure(request))
        return response

    @app.post("/sign-out")
    def sign_out(request: Request, form: Form) -> Response:
        if queue.accounts.of(request) is None:
            raise HTTPException(401, "you are not signed in")
        response = queue.done(form, "/queue")
        response.delete_cookie(COOKIE)
        return response


FIELDS = ("board", "model", "revision", "precision", "preset", "weights", "base", "base_revision", "kind")
STREAM_SECONDS = 600.0  # after which a browser connects again
MOST_STREAMS = 60
MOST_OF_NETWORK = 6
POLL_SECONDS = 1.0


def queue_feature(
    store: Store,
    boards: Mapping[str, Board],
    sources: Sequence[ModelSource],
    policy: Policy,
    *,
    user_header: str = "",
    proxies: Sequence[str] = (),
    moderators: Sequence[str] = (),
) -> Feature:
    """Return the queue as a part of the application.

    Args:
        store: open for writing.
        boards: those that take submissions, by name.
        policy: what the host asks of submissions.
        user_header: header in which the proxies pass the signed-in user; "" for none.
        proxies: their addresses.
        moderators: names of those signed in by a proxy who moderate.
    """

    def add(app: FastAPI) -> None:
        accounts = Accounts(
            AccountTokens(server_secret()),
            Moderation(store).is_revoked,
            user_header=user_header,
            proxies=proxies,
            moderators=moderators,
        )
        queue = QueueApp(
            app, store, boards, sources, policy, accounts, Rate(60, 3600), Rate(120, 3600), Rate(20, 86400)
        )
        app.state.takes_flags = True
        app.state.accounts = accounts
        _add_submitting(queue)
        _add_queue(queue)
        _add_live(queue)
        add_flags(queue)
        add_moderation(queue)
        add_sign_in(queue)

    links = (("/queue", "Queue"), ("/submit", "Submit"), ("/flags", "Reports"))

    def gauges() -> Mapping[str, Mapping[str, float]]:
        return {"jobs": {state: float(number) for state, number in SubmissionQueue(store).counts().by_state.items()}}

    return Feature(add, links, {"/api/results": LARGEST_RESULTS + (64 << 10)}, gauges=gauges)


def _check(queue: QueueApp, form: Posted, submitter: str) -> CheckOutcome:
    """Return the outcome of all checks. Raises: HTTPException 503 while a place of models cannot be reached."""
    chosen, problems = read_choices(form.text, queue.boards)
    try:
        return check_submission(chosen, problems, queue.sources, queue.policy, submitter)
    except Retryable as error:
        raise HTTPException(503, str(error), headers={"retry-after": "60"}) from error


def _add_submitting(queue: QueueApp) -> None:
    app = queue.app

    @app.get("/submit")
    @app.get("/submit.json")
    def form_page(request: Request) -> Response:
        values = {name: request.query_params.get(name, "")[:200] for name in FIELDS}
        page = submit_page(queue.boards, queue.sources, values)
        return queue.page(request, "submit.html", page, as_json=wants_json(request))

    @app.post("/submit")
    def submit(request: Request, form: Form) -> Response:
        values = {name: form.text(name)[:200] for name in FIELDS}
        if queue.accounts.of(request) is None and not form.is_json:  # the form's values come back after signing in
            back = "/submit?" + urlencode({name: value for name, value in values.items() if value})
            return RedirectResponse(f"/sign-in?back={quote(back, safe='')}", 303)
        submission, checked = _submit(queue, request, form)
        if submission:
            return queue.done(form, f"/submission/{submission}", submission=submission)
        page = submit_page(queue.boards, queue.sources, values, checked.problems)
        return queue.page(request, "submit.html", page, status=422)

    _add_api(queue)


def _submit(queue: QueueApp, request: Request, form: Posted) -> tuple[str, CheckOutcome]:
    """Check and store a submission; return its id, or "" with the problems."""
    account = queue.accounts.need(request)
    queue.submissions.take(queue.network(request), "submissions from your network")
    checked = _check(queue, form, account.name)
    if checked.new is None:
        return "", checked
    limit = None if account.is_moderator else queue.policy.per_submitter
    try:
        return SubmissionQueue(queue.store).submit(checked.new, at_most=limit), checked
    except UsageError as error:
        return "", CheckOutcome((SubmissionProblem("model", "was not accepted", str(error)),), checked.passed)


def _add_api(queue: QueueApp) -> None:
    app = queue.app

    @app.post("/api/check")
    def check(request: Request, form: Form) -> Response:
        account = queue.accounts.need(request)
        queue.acts.take(queue.network(request), "checks from your network")
        checked = _check(queue, form, account.name)
        return JSONResponse({"problems": json_of(public_problems(checked.problems)), "passed": list(checked.passed)})

    @app.post("/api/submissions")
    def submit_by_program(request: Request, form: Form) -> Response:
        submission, checked = _submit(queue, request, form)
        if not submission:
            return JSONResponse({"problems": json_of(public_problems(checked.problems))}, 422)
        return JSONResponse({"submission": submission, "url": f"/submission/{submission}"}, 201)

    @app.post("/api/results")
    def results(request: Request, form: Form) -> Response:
        account = queue.accounts.need(request)
        queue.submissions.take(queue.network(request), "submissions from your network")
        checked = _check(queue, form, account.name)
        if checked.new is None:
            return JSONResponse({"problems": json_of(public_problems(checked.problems))}, 422)
        submission = _report(queue, form, checked.new, is_free=account.is_moderator)
        return JSONResponse({"submission": submission, "url": f"/submission/{submission}"}, 201)


def _report(queue: QueueApp, form: Posted, checked: NewSubmission, *, is_free: bool) -> str:
    """Store results that were made elsewhere, and the job that verifies them. Raises: HTTPException 400 or 422."""
    values = form.fields.get("results", ())
    try:
        run_id = store_results(queue.store, values[0] if values else None, checked.model)
    except DataError as error:
        raise HTTPException(422, str(error)) from error
    try:
        new = replace(checked, reported_run=run_id)
        limit = None if is_free else queue.policy.per_submitter
        return SubmissionQueue(queue.store).submit(new, kind="reproduce", at_most=limit)
    except UsageError as error:
        queue.store.remove(run_id)
        raise HTTPException(422, str(error)) from error


def _add_queue(queue: QueueApp) -> None:
    app, store = queue.app, queue.store

    @app.get("/queue")
    @app.get("/queue.json")
    def queued(request: Request) -> Response:
        return queue.page(request, "queue.html", queue_page(store, queue.titles), as_json=wants_json(request))

    @app.get("/submission/{name}")
    def submission(request: Request, name: str) -> Response:
        as_json = wants_json(request)
        page = submission_page(store, queue.titles, name.removesuffix(".json"))
        return queue.page(request, "submission.html", page, as_json=as_json)

    @app.post("/submission/{name}/vote")
    def vote(request: Request, name: str, form: Form) -> Response:
        account = queue.accounts.need(request)
        queue.acts.take(queue.network(request), "actions from your network")
        n_votes = SubmissionQueue(store).vote(name, account.name)
        return queue.done(form, f"/submission/{name}", votes=n_votes)

    @app.post("/submission/{name}/cancel")
    def cancel(request: Request, name: str, form: Form) -> Response:
        account = queue.accounts.need(request)
        row = SubmissionQueue(store).submission(name)
        if row.new.submitter != account.name and not account.is_moderator:
            raise HTTPException(403, "only its submitter and moderators may cancel a submission")
        is_done = SubmissionQueue(store).cancel(name)
        if account.is_moderator and row.new.submitter != account.name:
            Moderation(store).log(account.name, "cancel", row.new.model, {"submission": name})
        return queue.done(form, f"/submission/{name}", cancelled=is_done)


def _add_live(queue: QueueApp) -> None:
    """Add the stream of a submission's progress, as server-sent events."""
    streams: Counter[str] = Counter()  # open ones by network

    def state(name: str) -> dict[str, object]:
        page = submission_page(queue.store, queue.titles, name)
        entry = page.entry
        return {"state": entry.job.state, "stage": entry.job.stage, "done": entry.share, "ahead": entry.n_ahead,
                "votes": entry.submission.n_votes, "standing": page.standing}  # fmt: skip

    async def events(request: Request, name: str) -> AsyncIterator[str]:
        before: dict[str, object] = {}
        ends = time.monotonic() + STREAM_SECONDS
        while time.monotonic() < ends and not await request.is_disconnected():
            now: dict[str, object] = {}
            with suppress(AssaymarkError):
                now = await run_in_threadpool(state, name)
            if now and now != before:
                yield f"data: {json.dumps(now)}\n\n"
                before = now
            else:
                yield ": waiting\n\n"
            if now.get("state") not in {"pending", "running"}:
                return
            await asyncio.sleep(POLL_SECONDS)

    @queue.app.get("/submission/{name}/events")
    async def live(request: Request, name: str) -> Response:
        await run_in_threadpool(SubmissionQueue(queue.store).submission, name)  # 404 before the stream begins
        network = queue.network(request)  # counted at once, so that nothing else runs between check and count
        if streams.total() >= MOST_STREAMS:
            raise HTTPException(503, "too many pages are watching; reload this one instead")
        if streams[network] >= MOST_OF_NETWORK:
            raise HTTPException(429, "too many pages of your network are watching; reload this one instead")
        return _Stream(events(request, name), streams, network)


class _Stream(StreamingResponse):
    """A stream of events that counts as open until it ends in any way."""

    def __init__(self, events: AsyncIterator[str], streams: Counter[str], network: str) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._streams, self._network = streams, network
        streams[network] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._network] -= 1
            if not self._streams[self._network]:
                del self._streams[self._network]
