"""What moderators do, each with a reason, and the log of it that everyone may read."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import HTTPException, Request, Response

from assaymark.leaderboard.submission.choices import is_model_name
from assaymark.records import JsonValue
from assaymark.store.queue_rows import LogEntry
from assaymark.web.posts import Form
from assaymark.web.routes.queue_app import QueueApp, wants_json

__all__ = ["add_moderation"]


@dataclass(frozen=True)
class ModerationPage:
    """The log, and for moderators the forms."""

    entries: tuple[LogEntry, ...]
    problems: tuple[str, ...]  # of the log's hashes

    def to_json(self) -> JsonValue:
        """Return the log."""
        log = [{"number": one.number, "made": datetime.fromtimestamp(one.made, UTC).isoformat(), "by": one.moderator,
                "action": one.action, "subject": one.subject, "detail": dict(one.detail), "hash": one.hash}
               for one in self.entries]  # fmt: skip
        return {"log": log, "problems": list(self.problems)}


def add_moderation(queue: QueueApp) -> None:
    """Add the routes."""
    app, moderation = queue.app, queue.store.moderation

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
            raise HTTPException(400, f"'{new[:80]}' is no name of a model; expected organisation/model")
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
    """Add the route of what is done with one submission."""

    @queue.app.post("/submission/{name}/{action}")
    def act(request: Request, name: str, action: str, form: Form) -> Response:
        moderator = queue.accounts.need_moderator(request)
        row = queue.store.queue.submission(name)
        acts: dict[str, Callable[[str], object]] = {
            "relaunch": queue.store.queue.relaunch,
            "withdraw": queue.store.queue.withdraw,
            "reproduce": queue.store.queue.reproduce,
        }
        if action not in acts:
            raise HTTPException(404, "there is no such action")
        acts[action](name)
        queue.store.moderation.log(
            moderator.name, action, row.new.model, {"submission": name, "why": form.text("why")[:500]}
        )
        return queue.done(form, f"/submission/{name}", action=action)
