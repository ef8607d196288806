"""The routes of live battles: begin, ask, regenerate, follow the answers, vote.

A battle exists only for its voter. A question starts both answers; a page with JavaScript follows them as events, and a
form without it is answered once both are complete.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_hex

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from starlette.responses import StreamingResponse

from assaymark.arena.ballots import Refused, Voter
from assaymark.arena.live_battles import LiveArena, LiveBattle, Seen
from assaymark.arena.live_turns import Moderation, Turns, events
from assaymark.arena.pages.live_battle import LiveArenaPage, LiveBattlePage
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.routes.arena import DRAWING, add_ratings, cast_vote, private, voter_of
from assaymark.errors import UnknownName, UsageError
from assaymark.hosting.endpoints import Endpoint
from assaymark.web.app import Feature
from assaymark.web.posts import Form, Posted
from assaymark.web.rate import Rate
from assaymark.web.render import respond
from assaymark.web.secret import server_secret

JSON = ".json"
SUGGESTIONS = (
    "Explain to a child of eight why the sky is blue.",
    "Write a Python function that merges two sorted lists, and say how long it takes.",
    "A train leaves at 9:40 and arrives at 13:05. How long is the journey? Show your steps.",
    "Write a short, friendly letter that declines an invitation.",
)
QUESTIONS, BATTLES, PER_SECONDS = 30, 30, 300.0  # of one network
MOST_FOLLOWERS = 4  # windows that follow one battle's answers
MOST_TURNS = 40  # in progress, of all voters


def live_feature(
    arena: LiveArena,
    endpoints: Sequence[Endpoint],
    ratings: Ratings,
    moderate: Moderation | None = None,
    tell: Callable[[str], None] = lambda _: None,
    suggestions: Sequence[str] = SUGGESTIONS,
    note: str = "",
) -> Feature:
    """Return live battles as a part of the application.

    Args:
        arena: with one model for each endpoint, of the same name.
        endpoints: of the operator's list.
        ratings: of the arena's store.
        moderate: sees both conversations before a question is sent and before an answer is shown.
        tell: gets lines for the operator.
        suggestions: first questions that a voter can choose from.
        note: for voters, about these models; it must not tell one from the other.
    """
    routes = _LiveRoutes(arena, Turns(arena, endpoints, moderate, tell), suggestions, note)
    return Feature(
        partial(_add, routes=routes, ratings=ratings),
        [("/arena", "Arena"), ("/arena/ratings", "Ratings")],
        drawing=DRAWING,
    )


def _add(app: FastAPI, *, routes: "_LiveRoutes", ratings: Ratings) -> None:
    routes.app = app
    for ending in ("", JSON):
        app.add_api_route(f"/arena{ending}", routes.about)
    app.add_api_route("/arena/battles", routes.begin, methods=["POST"])
    app.add_api_route("/arena/battle/{token}", routes.battle)
    app.add_api_route("/arena/battle/{token}/events", routes.events)
    for name, route in (("ask", routes.ask), ("regenerate", routes.regenerate), ("skip", routes.skip),
                        ("vote", routes.vote)):  # fmt: skip
        app.add_api_route(f"/arena/battle/{{token}}/{name}", route, methods=["POST"])
    add_ratings(app, ratings)


class _LiveRoutes:
    """One arena's answers to requests."""

    app: FastAPI

    def __init__(self, arena: LiveArena, turns: Turns, suggestions: Sequence[str], note: str) -> None:
        self._arena, self._turns = arena, turns
        self._suggestions, self._note = tuple(suggestions), note
        self._secret = server_secret()
        self._questions = Rate(QUESTIONS, PER_SECONDS)
        self._battles = Rate(BATTLES, PER_SECONDS)

    def about(self, request: Request) -> Response:
        page = LiveArenaPage(sorted(self._arena.models), self._arena.limits, self.app.state.posts.token(request))
        answer = respond(request, "live_arena.html", page, as_json=request.url.path.endswith(JSON))
        return private(answer)

    def begin(self, request: Request, form: Form) -> Response:
        voter = self._voter(request)
        self._battles.take(voter.origin, "battles")
        named = [form.text(side) for side in ("model_a", "model_b")]
        try:
            seen = self._arena.begin_named(voter, *named) if form.text("mode") == "named" else self._arena.begin(voter)
        except Refused as error:
            raise HTTPException(429, str(error)) from error
        return self._answered(request, seen, form)

    def skip(self, request: Request, token: str, form: Form) -> Response:
        voter = self._voter(request)
        self._battles.take(voter.origin, "battles")
        try:
            return self._answered(request, self._arena.skip(voter, token), form)
        except Refused as error:
            raise HTTPException(429, str(error)) from error

    def battle(self, request: Request, token: str) -> Response:
        seen = self._arena.show(self._voter(request), token.removesuffix(JSON))
        return self._battle_page(request, seen, as_json=token.endswith(JSON))

    async def ask(self, request: Request, token: str, form: Form) -> Response:
        text = form.text("text").replace("\r\n", "\n")
        return await self._turn(request, token, form, partial(self._arena.ask, question=text), text)

    async def regenerate(self, request: Request, token: str, form: Form) -> Response:
        return await self._turn(request, token, form, self._arena.regenerate, "")

    async def _turn(
        self, request: Request, token: str, form: Posted, begin: Callable[[Voter, str], LiveBattle], text: str
    ) -> Response:
        voter = self._voter(request)
        if self._turns.n_running >= MOST_TURNS:
            raise HTTPException(503, "too many questions are being answered; try again in a few seconds",
                                headers={"retry-after": "5"})  # fmt: skip
        self._questions.take(voter.origin, "questions")
        try:
            battle = await asyncio.to_thread(begin, voter, token)
        except UnknownName:
            raise
        except UsageError as error:
            return self._refused(request, token, form, str(error), text)
        if (reason := await self._turns.refusal(battle)) is not None:
            self._arena.withdraw(battle)
            return self._refused(request, token, form, reason, text)
        task = self._turns.start(battle)
        if not form.is_json:
            await asyncio.shield(task)
        return self._answered(request, self._arena.show(voter, token), form)

    def events(self, request: Request, token: str) -> Response:
        battle = self._arena.battle(self._voter(request), token)
        if battle.n_followers >= MOST_FOLLOWERS:
            raise HTTPException(429, f"this battle is shown in {MOST_FOLLOWERS} windows already; close one of them")
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events(battle), media_type="text/event-stream", headers=headers)

    def vote(self, request: Request, token: str, form: Form) -> Response:
        voted = cast_vote(self._arena.vote, self._voter(request), token, form)
        return self._answered(request, voted, form)

    def _voter(self, request: Request) -> Voter:
        return voter_of(self.app, self._secret, request)

    def _answered(self, request: Request, seen: Seen, form: Posted) -> Response:
        if form.is_json:
            return self._battle_page(request, seen, as_json=True)
        return RedirectResponse(f"/arena/battle/{seen.token}", 303)

    def _refused(self, request: Request, token: str, form: Posted, problem: str, text: str) -> Response:
        """Return the battle with the reason why the question was not asked, and the question in its field."""
        if form.is_json:
            raise HTTPException(400, problem)
        seen = self._arena.show(self._voter(request), token)
        return self._battle_page(request, seen, problem=problem, text=text, status=400)

    def _battle_page(
        self,
        request: Request,
        seen: Seen,
        *,
        as_json: bool = False,
        problem: str = "",
        text: str = "",
        status: int = 200,
    ) -> Response:
        posts = self.app.state.posts
        page = LiveBattlePage(
            seen, posts.token(request), token_hex(16), self._arena.limits.characters, problem, text[:20_000],
            self._suggestions, self._note,
        )  # fmt: skip
        answer = respond(request, "live_battle.html", page, as_json=as_json, status=status)
        return private(answer)
