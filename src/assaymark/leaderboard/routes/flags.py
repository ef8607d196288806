"""Reports on models: anyone may make one, the submitter and others reply, and moderators settle it.

Also the moderators' actions, each with a reason, and their public log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastapi import HTTPException, Request, Response

from assaymark.leaderboard.routes.queue_app import QueueApp
from assaymark.leaderboard.submission.choices import is_model_name
from assaymark.leaderboard.submission.moderation import Moderation
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import FlagReply, FlagRow, LogEntry
from assaymark.web.accounts import Account
from assaymark.web.posts import Form, Posted
from assaymark.web.render import wants_json


@dataclass(frozen=True)
class ModerationPage:
    """The log, and for moderators the forms."""

    entries: tuple[LogEntry, ...]
    problems: tuple[str, ...]  # of the log's hashes

    json_keys = "log=entries problems"


def add_moderation(queue: QueueApp) -> None:
    """Add the routes."""
    app, moderation = queue.app, Moderation(queue.store)

    @app.get("/moderation")
    @app.get("/moderation.json")
    def log(request: Request) -> Response:
        page = ModerationPage(tuple(moderation.entries()), tuple(moderation.verify_log()))
        return queue.page(request, "moderation.html", page, as_json=wants_json(request))

    @app.post("/moderation/rename")
    def rename(request: Request, form: Form) -> Response:
        moderator = queue.accounts.need_moderator(request)
        old, new = form.text("old"), form.text("new")
        if not 0 < len(old) <= 200:
            raise HTTPException(400, "name the model that gets another name")
        if not is_model_name(new):
            raise HTTPException(400, f"'{new[:80]}' is not a name of a model; expected organisation/model")
        moderation.rename(old, new, moderator.name)
        return queue.done(form, "/moderation", name=new)

    @app.post("/moderation/revoke")
    def revoke(request: Request, form: Form) -> Response:
        moderator = queue.accounts.need_moderator(request)
        token = form.text("id")
        if not (token.isalnum() and len(token) <= 64):
            raise HTTPException(400, "give the id of the token, which `assaymark board token` printed with it")
        moderation.revoke(token, moderator.name)
        return queue.done(form, "/moderation", revoked=token)

    _add_actions(queue)


def _add_actions(queue: QueueApp) -> None:
    """Add the route of a moderator's actions on one submission."""

    @queue.app.post("/submission/{name}/{action}")
    def act(request: Request, name: str, action: str, form: Form) -> Response:
        moderator = queue.accounts.need_moderator(request)
        row = SubmissionQueue(queue.store).submission(name)
        acts: dict[str, Callable[[str], object]] = {
            "relaunch": SubmissionQueue(queue.store).relaunch,
            "withdraw": SubmissionQueue(queue.store).withdraw,
            "reproduce": SubmissionQueue(queue.store).reproduce,
        }
        if action not in acts:
            raise HTTPException(404, "there is no such action")
        why = queue.text(form, "why", least=1 if action == "withdraw" else 0)[:500]  # which the log shows to everybody
        acts[action](name)
        Moderation(queue.store).log(moderator.name, action, row.new.model, {"submission": name, "why": why})
        return queue.done(form, f"/submission/{name}", action=action)


KINDS: Mapping[str, str] = {
    "contamination": "trained on the questions",
    "copy": "an unattributed copy of another model",
    "failure": "its evaluation failed or is wrong",
    "other": "something else",
}
LONGEST_NAME = 200
READER = "reader-"  # beginning of the name of someone without an account
STATES = ("open", "upheld", "rejected")
MOST_SETTLED = 150  # at once, below the most fields of a form


@dataclass(frozen=True)
class FlagsPage:
    """The reports on a model, or on all."""

    model: str
    kind: str
    text: str
    flags: tuple[FlagRow, ...]
    reporter: str = ""
    state: str = ""

    json_keys = "model~ flags"
    kinds = KINDS


@dataclass(frozen=True)
class FlagPage:
    """One report."""

    flag: FlagRow
    replies: tuple[FlagReply, ...]

    json_keys = "*flag replies"
    kinds = KINDS


def add_flags(queue: QueueApp) -> None:
    """Add the routes."""
    app, moderation = queue.app, Moderation(queue.store)

    @app.get("/flags")
    @app.get("/flags.json")
    def flags(
        request: Request, model: str = "", kind: str = "", text: str = "", by: str = "", state: str = ""
    ) -> Response:
        model = moderation.names().get(model, model)[:LONGEST_NAME]
        flag_rows = moderation.flags(model or None, reporter=by[:LONGEST_NAME] or None, state=state[:20] or None)
        page = FlagsPage(model, kind, text[:1000], tuple(flag_rows), by[:LONGEST_NAME], state[:20])
        return queue.page(request, "flags.html", page, as_json=wants_json(request))

    @app.post("/flags")
    def report(request: Request, form: Form) -> Response:
        queue.reports.take(queue.network(request), "reports from your network")
        model, kind = form.text("model"), form.text("kind")
        if kind not in KINDS:
            raise HTTPException(400, f"kind '{kind[:40]}'; expected one of {', '.join(KINDS)}")
        if not 0 < len(model) <= LONGEST_NAME:
            raise HTTPException(400, "name the model that the report is about")
        name = moderation.names().get(model, model)
        flag = moderation.flag(name, kind, queue.text(form, "text", least=20), _writer(queue, request)[0])
        return queue.done(form, f"/flag/{flag}", flag=flag)

    @app.post("/flags/settle")
    def settle(request: Request, form: Form) -> Response:
        moderator = queue.accounts.need_moderator(request)
        chosen = form.texts("flag")
        if not 1 <= len(chosen) <= MOST_SETTLED:
            raise HTTPException(400, f"{len(chosen)} reports were chosen; choose 1 to {MOST_SETTLED}")
        n_settled = moderation.settle(chosen, _state(form), moderator.name)
        return queue.done(form, "/flags?state=open", settled=n_settled)

    _add_flag(queue)


def _state(form: Posted) -> str:
    """Return the state that a moderator chose. Raises: HTTPException 400."""
    state = form.text("state")
    if state not in STATES:
        raise HTTPException(400, f"state '{state[:40]}'; expected open, upheld or rejected")
    return state


def _writer(queue: QueueApp, request: Request) -> tuple[str, Account | None]:
    """Return the name under which a request writes, and its account if it has one.

    Without an account it is made from the network, not the cookie, so that a new cookie does not make a new reader.
    """
    account = queue.accounts.of(request)
    if account is not None:
        return account.name, account
    return READER + (queue.app.state.clients.network_hash(request)[:8] or "unknown"), None


def _add_flag(queue: QueueApp) -> None:
    app, moderation = queue.app, Moderation(queue.store)

    @app.get("/flag/{name}")
    def flag_page(request: Request, name: str) -> Response:
        name = name.removesuffix(".json")
        page = FlagPage(moderation.flag_of(name), tuple(moderation.replies(name)))
        return queue.page(request, "flag.html", page, as_json=wants_json(request))

    @app.post("/flag/{name}/reply")
    def reply(request: Request, name: str, form: Form) -> Response:
        queue.acts.take(queue.network(request), "replies from your network")
        flag = moderation.flag_of(name)
        who, account = _writer(queue, request)
        moderation.reply(name, who, _role(queue, account, flag.model), queue.text(form, "text"))
        return queue.done(form, f"/flag/{name}", flag=name)

    @app.post("/flag/{name}/settle")
    def settle(request: Request, name: str, form: Form) -> Response:
        moderator = queue.accounts.need_moderator(request)
        state = _state(form)
        moderation.settle([name], state, moderator.name)
        return queue.done(form, f"/flag/{name}", state=state)


def _role(queue: QueueApp, account: Account | None, model: str) -> str:
    """Return the role in which an account replies: submitter of the model, moderator, or reader."""
    if account is None:
        return "reader"
    names = Moderation(queue.store).names()
    earlier = [old for old, new in names.items() if new == model]
    if SubmissionQueue(queue.store).has_submitted(account.name, [model, *earlier]):
        return "owner"
    return "moderator" if account.is_moderator else "reader"
