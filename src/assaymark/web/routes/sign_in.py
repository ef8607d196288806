"""Signing in with a token, and out."""

from dataclasses import dataclass

from fastapi import HTTPException, Request, Response

from assaymark.web.accounts import COOKIE
from assaymark.web.posts import Form
from assaymark.web.routes.queue_app import QueueApp
from assaymark.web.security import safe_path

__all__ = ["add_sign_in"]


@dataclass(frozen=True)
class SignInPage:
    """The form for a token."""

    back: str
    problem: str = ""


def add_sign_in(queue: QueueApp) -> None:
    """Add the routes."""
    app = queue.app

    @app.get("/sign-in")
    def sign_in_page(request: Request, back: str = "/queue") -> Response:
        return queue.page(request, "sign_in.html", SignInPage(safe_path(back)))

    @app.post("/sign-in")
    def sign_in(request: Request, form: Form) -> Response:
        queue.acts.take(queue.network(request), "attempts from your network")
        token = form.text("account")
        account = queue.accounts.of_token(token)
        if account is None:
            problem = "This token is not valid here, has ended or was revoked. Ask the host for a new one."
            return queue.page(request, "sign_in.html", SignInPage(safe_path(form.text("back")), problem), status=401)
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
