"""The chat's routes: the page, a question answered as a whole page, and a question answered as a stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from starlette.responses import StreamingResponse

from assaymark.report.plain_text import printable
from assaymark.web.app import Part
from assaymark.web.endpoints import AskSettings, Endpoint, EndpointFailed, stream_chat
from assaymark.web.pages.chat import ChatPage, ChatProblem, blank_page, page_of, settled
from assaymark.web.posts import Form
from assaymark.web.rates import Rate
from assaymark.web.render import respond

__all__ = ["chat_part"]

QUESTIONS, PER_SECONDS = 30, 60.0  # of one network
MOST_AT_ONCE = 40  # questions in progress, of all visitors
MOST_OF_NETWORK = 4
LARGEST_BODY = 1 << 20  # the history is sent with each question
ALIVE_SECONDS = 15.0


def chat_part(endpoints: Sequence[Endpoint], settings: AskSettings = AskSettings()) -> Part:  # noqa: B008 - frozen
    """Return the part of the application with the chat over these endpoints."""
    chat = _Chat(endpoints, settings)
    return Part(chat.add, [("/chat", "Chat")], {"/chat": LARGEST_BODY, "/chat/stream": LARGEST_BODY})


class _Chat:
    """The handlers, and how many questions are in progress."""

    def __init__(self, endpoints: Sequence[Endpoint], settings: AskSettings) -> None:
        self._endpoints: Mapping[str, Endpoint] = {one.name: one for one in endpoints}
        self._names = tuple(self._endpoints)
        self._settings = settings
        self._rate = Rate(QUESTIONS, PER_SECONDS)
        self._busy: dict[str, int] = {}  # network -> questions in progress

    def add(self, app: FastAPI) -> None:
        """Add the routes."""

        @app.get("/chat")
        @app.get("/chat.json")
        def page(request: Request) -> Response:
            chosen = request.query_params.getlist("model")
            return self._shown(app, request, blank_page(self._names, chosen))

        @app.post("/chat")
        async def ask(request: Request, form: Form) -> Response:
            try:
                asked = page_of(self._names, form)
            except ChatProblem as problem:
                blank = replace(blank_page(self._names), problem=str(problem), text=form.text("text")[:8000])
                return self._shown(app, request, blank, status=400)
            user = app.state.clients.network_hash(request)
            with _Turn(self, self._enter(app, request)):
                answers = await asyncio.gather(*(self._whole(name, asked, user) for name in asked.chosen))
            return self._shown(app, request, settled(asked, dict(zip(asked.chosen, answers, strict=True))))

        @app.post("/chat/stream")
        async def stream(request: Request, form: Form) -> Response:
            try:
                asked = page_of(self._names, form)
            except ChatProblem as problem:
                raise HTTPException(400, str(problem)) from None
            user = app.state.clients.network_hash(request)
            turn = _Turn(self, self._enter(app, request))
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return StreamingResponse(self._events(asked, turn, user), media_type="text/event-stream", headers=headers)

    def _shown(self, app: FastAPI, request: Request, page: ChatPage, status: int = 200) -> Response:
        """Return the page with a token for its form."""
        as_json = request.url.path.endswith(".json")
        shown = page if as_json else replace(page, token=app.state.posts.token(request))
        response = respond(request, "chat.html", shown, as_json=as_json, status=status)
        if not as_json:
            app.state.clients.remember(request, response)
            response.headers["cache-control"] = "no-store"
        return response

    def _enter(self, app: FastAPI, request: Request) -> str:
        """Return the visitor's network once a question may begin. Raises: HTTPException 429 or 503."""
        network = str(app.state.clients.network(request))
        if sum(self._busy.values()) >= MOST_AT_ONCE:
            raise HTTPException(503, "too many questions are being answered; try again in a few seconds",
                                headers={"retry-after": "3"})  # fmt: skip
        if self._busy.get(network, 0) >= MOST_OF_NETWORK:
            raise HTTPException(429, "your other questions are still being answered", headers={"retry-after": "3"})
        self._rate.take(network, "questions")
        return network

    def begin(self, network: str) -> None:
        """Count a question."""
        self._busy[network] = self._busy.get(network, 0) + 1

    def end(self, network: str) -> None:
        """Count a question no longer."""
        self._busy[network] -= 1
        if not self._busy[network]:
            del self._busy[network]

    def _pieces(self, name: str, page: ChatPage, user: str) -> Any:
        """Return the pieces of an answer. `user`: a keyed hash, by which a host serves visitors in turn."""
        settings = replace(self._settings, user=user or None)
        return aclosing(stream_chat(self._endpoints[name], page.messages(name), settings))

    async def _whole(self, name: str, page: ChatPage, user: str) -> tuple[str, str]:
        """Return a model's whole answer, or why there is none."""
        try:
            async with self._pieces(name, page, user) as pieces:
                return "".join([piece async for piece in pieces]).strip(), ""
        except EndpointFailed as failure:
            return "", str(failure)

    async def _events(self, page: ChatPage, turn: "_Turn", user: str) -> AsyncIterator[bytes]:
        """Yield the answers of all models as events, each piece as it comes."""
        with turn:
            queue: asyncio.Queue[tuple[str, int, str]] = asyncio.Queue(1000)

            async def follow(index: int, name: str) -> None:
                try:
                    async with self._pieces(name, page, user) as pieces:
                        async for piece in pieces:
                            await queue.put(("piece", index, printable(piece)))
                    await queue.put(("end", index, ""))
                except EndpointFailed as failure:
                    await queue.put(("problem", index, str(failure)))

            tasks = [asyncio.create_task(follow(index, name)) for index, name in enumerate(page.chosen)]
            n_open = len(tasks)
            try:
                while n_open:
                    try:
                        async with asyncio.timeout(ALIVE_SECONDS):
                            kind, index, text = await queue.get()
                    except TimeoutError:
                        yield b": waiting\n\n"
                        continue
                    n_open -= kind != "piece"
                    data = json.dumps({"side": index, "text": text}, ensure_ascii=True)
                    yield f"event: {kind}\ndata: {data}\n\n".encode()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


class _Turn:
    """A question in progress, counted while the block runs."""

    def __init__(self, chat: _Chat, network: str) -> None:
        self._chat, self._network = chat, network

    def __enter__(self) -> None:
        self._chat.begin(self._network)

    def __exit__(self, *_: object) -> None:
        self._chat.end(self._network)
