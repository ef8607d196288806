"""The arena's routes: begin a battle, see it, vote, and the ratings.

A battle exists only for its voter, who is recognised by the signed cookie.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TypeAlias, TypeVar

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from assaymark.arena.arena_log import AlreadyVoted
from assaymark.arena.ballots import Refused, Voter, VoterView, keyed_hash
from assaymark.arena.battles import Arena
from assaymark.arena.pages.arena_ratings import ratings_page
from assaymark.arena.pages.live_battle import ArenaPage, BattlePage
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.rating_documents import shown_name
from assaymark.web.app import Feature
from assaymark.web.posts import Form, Posted
from assaymark.web.render import Drawing, respond
from assaymark.web.secret import server_secret

DRAWING = Drawing(Path(__file__).resolve().parents[1] / "templates", {"category": shown_name})

Battle = TypeVar("Battle")
Vote: TypeAlias = Callable[[Voter, str, str, str, tuple[str | None, str | None]], Battle]  # token, choice, key, marks

JSON = ".json"
PRIVATE = {"cache-control": "no-store"}


def arena_feature(arena: Arena, ratings: Ratings) -> Feature:
    """Return the arena as a part of the application."""
    return Feature(
        partial(_add, arena=arena, ratings=ratings),
        [("/arena", "Arena"), ("/arena/ratings", "Ratings")],
        drawing=DRAWING,
    )


def _add(app: FastAPI, *, arena: Arena, ratings: Ratings) -> None:
    routes = _ArenaRoutes(app, arena)
    app.add_api_route("/arena/battles", routes.begin, methods=["POST"])
    app.add_api_route("/arena/battle/{token}/vote", routes.vote, methods=["POST"])
    app.add_api_route("/arena/battle/{token}/skip", routes.skip, methods=["POST"])
    app.add_api_route("/arena/battle/{token}", routes.battle)
    for ending in ("", JSON):
        app.add_api_route(f"/arena{ending}", routes.about)
    add_ratings(app, ratings)


def add_ratings(app: FastAPI, ratings: Ratings) -> None:
    """Add the page of the ratings."""

    @app.get("/arena/ratings")
    @app.get("/arena/ratings.json")
    def board(
        request: Request, style: str = "", category: str = "", language: str = "", good: str = "", q: str = ""
    ) -> Response:
        with_style, only_good = style == "1", good == "1"
        published = ratings.board(
            style=with_style, category=category[:100] or None, language=language[:40] or None, acceptable=only_good
        )
        page = ratings_page(published, style=with_style, good=only_good, words=q.strip()[:100], makers=ratings.makers)
        return respond(request, "arena_ratings.html", page, as_json=request.url.path.endswith(JSON))


class _ArenaRoutes:
    """One arena's answers to requests."""

    def __init__(self, app: FastAPI, arena: Arena) -> None:
        self._app, self._arena = app, arena
        self._secret = server_secret()

    def about(self, request: Request) -> Response:
        page = ArenaPage(len(self._arena.source.models), self._app.state.posts.token(request))
        answer = respond(request, "arena.html", page, as_json=request.url.path.endswith(JSON))
        return private(answer)

    def begin(self, request: Request, form: Form) -> Response:
        return self._begun(request, form, self._arena.begin)

    def skip(self, request: Request, token: str, form: Form) -> Response:
        return self._begun(request, form, partial(self._arena.skip, token=token))

    def _begun(self, request: Request, form: Posted, begin: Callable[[Voter], VoterView]) -> Response:
        try:
            battle = begin(self._voter(request))
        except Refused as error:
            raise HTTPException(429, str(error)) from error
        if form.is_json:
            return self._battle_page(request, battle, as_json=True)
        return RedirectResponse(f"/arena/battle/{battle.token}", 303)

    def battle(self, request: Request, token: str) -> Response:
        ballot = self._arena.show(self._voter(request), token.removesuffix(JSON))
        return self._battle_page(request, ballot, as_json=token.endswith(JSON))

    def vote(self, request: Request, token: str, form: Form) -> Response:
        voted = cast_vote(self._arena.vote, self._voter(request), token, form)
        if form.is_json:
            return self._battle_page(request, voted, as_json=True)
        return RedirectResponse(f"/arena/battle/{token}", 303)

    def _voter(self, request: Request) -> Voter:
        return voter_of(self._app, self._secret, request)

    def _battle_page(self, request: Request, battle: VoterView, *, as_json: bool) -> Response:
        page = BattlePage(battle, self._app.state.posts.token(request), token_hex(16))
        return private(respond(request, "battle.html", page, as_json=as_json))


def cast_vote(vote: Vote[Battle], voter: Voter, token: str, form: Posted) -> Battle:
    """Store the vote of a form, and return the battle with the models' names.

    Raises: HTTPException 429 if the voter must wait, 409 if he has already voted differently.
    """
    marks = (form.text("mark_a") or None, form.text("mark_b") or None)
    try:
        return vote(voter, token, form.text("choice"), form.text("key") or token_hex(16), marks)
    except Refused as error:
        raise HTTPException(429, str(error)) from error
    except AlreadyVoted as error:
        raise HTTPException(409, str(error)) from error


def voter_of(app: FastAPI, secret: bytes, request: Request) -> Voter:
    """Return the sender of a request, by keyed hashes of his cookie and his network.

    Raises: HTTPException 403 for a change without cookie and token, since voters must be recognisable.
    """
    clients = app.state.clients
    visitor = clients.visitor(request)
    if request.method == "POST" and visitor.is_new and not visitor.is_named:
        raise HTTPException(
            403, "this request has no cookie of this server; load /arena first and send its form's token"
        )
    return Voter(
        keyed_hash(secret, "voter", clients.visitor(request).id), keyed_hash(secret, "origin", clients.network(request))
    )


def private(response: Response) -> Response:
    """Keep caches from storing a page."""
    response.headers.update(PRIVATE)
    return response
