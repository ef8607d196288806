"""Parts shared by the routes of queue, flags and moderation: the store, the host's choices, accounts, responses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from assaymark.leaderboard.board import Board
from assaymark.leaderboard.submission.checks import Policy
from assaymark.leaderboard.submission.sources import ModelSource
from assaymark.store import Store
from assaymark.web.accounts import Accounts
from assaymark.web.posts import Posted
from assaymark.web.rate import Rate
from assaymark.web.render import respond

JSON = ".json"
LONGEST_TEXT = 4000  # characters of a reason or a reply


@dataclass(frozen=True)
class QueueApp:
    """All that the routes need."""

    app: FastAPI
    store: Store
    boards: Mapping[str, Board]
    sources: Sequence[ModelSource]
    policy: Policy
    accounts: Accounts
    submissions: Rate  # by network
    acts: Rate  # votes, replies and sign-ins, by network
    reports: Rate  # on models, by network

    @property
    def titles(self) -> dict[str, str]:
        """Return the leaderboards' titles by their names."""
        return {name: board.title for name, board in self.boards.items()}

    def page(
        self, request: Request, template: str, page: object, *, as_json: bool = False, status: int = 200
    ) -> Response:
        """Return a page with the form's token and the account."""
        if not as_json:
            token = self.app.state.posts.token(request)
            request.state.context = {"live": True, "token": token, "account": self.accounts.of(request)}
        response = respond(request, template, page, as_json=as_json, status=status)
        response.headers["cache-control"] = "no-store"
        return response

    def network(self, request: Request) -> str:
        """Return the network that a request comes from."""
        return str(self.app.state.clients.network(request)) or "unknown"

    def done(self, posted: Posted, path: str, **values: object) -> Response:
        """Answer a change: with a redirection for a form, with values for a program."""
        return JSONResponse(values) if posted.is_json else RedirectResponse(path, 303)

    def text(self, posted: Posted, name: str, *, least: int = 1) -> str:
        """Return a text of a form. Raises: HTTPException 400 if it is too short or too long."""
        value = posted.text(name)
        if not least <= len(value) <= LONGEST_TEXT:
            raise HTTPException(400, f"'{name}' has {len(value)} characters; expected {least} to {LONGEST_TEXT:,}")
        return value
