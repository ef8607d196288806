"""The chat's routes: the page, a question answered as a whole page, and a question answered as a stream.

A conversation with one model, or with two side by side. The page holds the history; the server stores nothing.
"""

import asyncio
import io
import json
import re
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request, Response
from starlette.responses import StreamingResponse

from assaymark.documents.plain_text import printable
from assaymark.hosting.conversation_task import task_texts
from assaymark.hosting.endpoints import AskSettings, Endpoint, EndpointFailed, stream_chat
from assaymark.records import GenerationSettings
from assaymark.web.answers import answer_html
from assaymark.web.app import Feature
from assaymark.web.posts import Form, Posted
from assaymark.web.rate import Rate
from assaymark.web.render import Drawing, respond

LONGEST_TEXT = 8_000  # characters of a question or a system prompt
LONGEST_HISTORY = 200_000  # characters of all messages
MOST_ROUNDS = 100
SIDES = ("first", "second")


class ChatProblem(Exception):
    """A question that cannot be asked; the message is for the visitor."""


@dataclass(frozen=True, slots=True)
class Round:
    """A question, the answer of each model by name, why a model's answer is missing, and what came of it before."""

    question: str
    answers: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)  # of answers that broke off; never in the history


@dataclass(frozen=True, slots=True)
class ChatPage:
    """The page's contents. names: all endpoints; chosen: those asked; text: a question that is not answered."""

    names: tuple[str, ...]
    chosen: tuple[str, ...]
    rounds: tuple[Round, ...] = ()
    system: str = ""
    text: str = ""
    problem: str = ""
    token: str = field(default="", repr=False)
    longest_text: int = LONGEST_TEXT

    json_keys = "models=names system rounds problem~"

    @property
    def history(self) -> str:
        """The questions with their answers, for the form."""
        return json.dumps(
            [[chat_round.question, dict(chat_round.answers)] for chat_round in self.rounds if chat_round.answers],
            ensure_ascii=False,
        )

    def side(self, index: int) -> str:
        """Return the name of a chosen model, "" if there is none."""
        return self.chosen[index] if index < len(self.chosen) else ""

    def messages(self, name: str) -> list[dict[str, str]]:
        """Return the messages for a model: the system prompt, the questions that it answered, and the new one."""
        turns = [("system", self.system)] if self.system else []
        for chat_round in self.rounds:
            if name in chat_round.answers:
                turns += [("user", chat_round.question), ("assistant", chat_round.answers[name])]
        return [{"role": role, "content": text} for role, text in (*turns, ("user", self.text))]


def blank_page(names: Sequence[str], chosen: Sequence[str] = ()) -> ChatPage:
    """Return a page without messages; without a choice the first model is chosen."""
    wanted = [name for name in dict.fromkeys(chosen) if name in names][: len(SIDES)]
    return ChatPage(tuple(names), tuple(wanted or names[:1]))


def page_of(names: Sequence[str], posted: Posted) -> ChatPage:
    """Return the page that a form describes, with its question not answered yet.

    With the field `again` the question is the last one of the history, whose answers are dropped.

    Raises: ChatProblem.
    """
    chosen = [name for name in dict.fromkeys(posted.text(side) for side in SIDES) if name]
    for name in chosen:
        if name not in names:
            raise ChatProblem(f"there is no model '{name[:64]}' here")
    if not chosen:
        raise ChatProblem("choose a model")
    # a form ends lines with \r\n, the page's script with \n: a model is asked the same with and without it
    system, text = posted.text("system"), posted.text("text").replace("\r\n", "\n")
    rounds = _rounds(posted.text("history"), names)
    if posted.text("again") and rounds:
        text, rounds = rounds[-1].question, rounds[:-1]
    for what, value in (("the system prompt", system), ("the question", text)):
        if len(value) > LONGEST_TEXT:
            raise ChatProblem(f"{what} has {len(value):,} characters; at most {LONGEST_TEXT:,} are allowed")
    if not text:
        raise ChatProblem("write a question first")
    return ChatPage(tuple(names), tuple(chosen), rounds, system, text)


def _rounds(text: str, names: Sequence[str]) -> tuple[Round, ...]:
    """Return the rounds of a form's history. Raises: ChatProblem for anything else."""
    try:
        history = json.loads(text) if text else []
        rounds = tuple(
            Round(_text(question), {name: _text(answers[name]) for name in answers}) for question, answers in history
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ChatProblem("the conversation that this page holds cannot be read; begin a new one") from None
    if any(name not in names for chat_round in rounds for name in chat_round.answers):
        raise ChatProblem("the conversation names a model that is not here; begin a new one")
    n_characters = sum(len(chat_round.question) + sum(map(len, chat_round.answers.values())) for chat_round in rounds)
    if len(rounds) > MOST_ROUNDS or n_characters > LONGEST_HISTORY:
        raise ChatProblem("this conversation is too long; begin a new one")
    return rounds


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def settled(page: ChatPage, answers: Mapping[str, tuple[str, str]]) -> ChatPage:
    """Return the page after its question, from each model's (answer, problem).

    Where no model answered, the question stays in its field, to be asked again; what came of broken answers is shown.
    """
    complete = {name: answer for name, (answer, problem) in answers.items() if not problem}
    problems = {name: problem for name, (_, problem) in answers.items() if problem}
    parts = {name: answer for name, (answer, problem) in answers.items() if problem and answer}
    if not complete and not parts:
        return replace(page, problem="; ".join(problems.values()))
    rounds = (*page.rounds, Round(page.text, complete, problems, parts))
    return replace(page, rounds=rounds, text="" if complete else page.text)


def conversation_of(names: Sequence[str], posted: Posted) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Return (model, system prompt, (question, answer) of each turn) of the conversation that a form has.

    The model is the one that the field `of` names.

    Raises: ChatProblem, where it has no answer of that model too.
    """
    model, system = posted.text("of"), posted.text("system")
    rounds = _rounds(posted.text("history"), names)
    turns = tuple(
        (chat_round.question, chat_round.answers[model]) for chat_round in rounds if model in chat_round.answers
    )
    if not turns:
        raise ChatProblem(f"'{model[:64]}' has answered nothing yet; ask it first")
    return model, system[:LONGEST_TEXT], turns


DRAWING = Drawing(Path(__file__).resolve().parent / "templates")
QUESTIONS, PER_SECONDS = 30, 60.0  # of one network
MOST_AT_ONCE = 40  # questions in progress, of all visitors
MOST_OF_NETWORK = 4
LARGEST_BODY = 1 << 20  # the history is sent with each question
ALIVE_SECONDS = 15.0
PATHS = ("/chat", "/chat/stream", "/chat/task")


def chat_feature(endpoints: Sequence[Endpoint]) -> Feature:
    """Return the part of the application with the chat over these endpoints."""
    chat = _Chat(endpoints)
    return Feature(chat.add, [("/chat", "Chat")], dict.fromkeys(PATHS, LARGEST_BODY), DRAWING)


class _Chat:
    """The handlers, and how many questions are in progress."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints: Mapping[str, Endpoint] = {endpoint.name: endpoint for endpoint in endpoints}
        self._names = tuple(self._endpoints)
        self._settings = AskSettings()
        self._rate = Rate(QUESTIONS, PER_SECONDS)
        self._busy: dict[str, int] = {}  # network -> questions in progress

    def add(self, app: FastAPI) -> None:
        """Add the routes."""

        @app.get("/chat")
        @app.get("/chat.json")
        def page(request: Request) -> Response:
            chosen = request.query_params.getlist("model")
            return self._chat_page(app, request, blank_page(self._names, chosen))

        @app.post("/chat")
        async def ask(request: Request, form: Form) -> Response:
            try:
                asked = page_of(self._names, form)
            except ChatProblem as problem:
                blank = replace(blank_page(self._names), problem=str(problem), text=form.text("text")[:8000])
                return self._chat_page(app, request, blank, status=400)
            user = app.state.clients.network_hash(request)
            with _Turn(self, self._enter(app, request)):
                answers = await asyncio.gather(*(self._whole(name, asked, user) for name in asked.chosen))
            return self._chat_page(app, request, settled(asked, dict(zip(asked.chosen, answers, strict=True))))

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

        @app.post("/chat/task")
        def as_task(form: Form) -> Response:
            try:
                model, system, turns = conversation_of(self._names, form)
            except ChatProblem as problem:
                raise HTTPException(400, str(problem)) from None
            return _archive(model, system, turns, self._settings)

    def _chat_page(self, app: FastAPI, request: Request, page: ChatPage, status: int = 200) -> Response:
        """Return the page with a token for its form."""
        as_json = request.url.path.endswith(".json")
        form_page = page if as_json else replace(page, token=app.state.posts.token(request))
        response = respond(request, "chat.html", form_page, as_json=as_json, status=status)
        if not as_json:
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

    def _pieces(self, name: str, page: ChatPage, user: str) -> AbstractAsyncContextManager[AsyncGenerator[str]]:
        """Return the pieces of an answer. `user`: a keyed hash, by which a host serves visitors in turn."""
        settings = replace(self._settings, user=user or None)
        return aclosing(stream_chat(self._endpoints[name], page.messages(name), settings))

    async def _whole(self, name: str, page: ChatPage, user: str) -> tuple[str, str]:
        """Return a model's whole answer, or what came of it and why there is no more."""
        pieces: list[str] = []
        try:
            async with self._pieces(name, page, user) as arriving:
                async for piece in arriving:
                    pieces.append(piece)  # noqa: PERF401 - what came before a failure is kept
        except EndpointFailed as failure:
            return "".join(pieces).strip(), str(failure)
        return "".join(pieces).strip(), ""

    async def _events(self, page: ChatPage, turn: "_Turn", user: str) -> AsyncIterator[bytes]:
        """Yield the answers of all models as events, each piece as it comes; the end has the whole answer as HTML."""
        with turn:
            queue: asyncio.Queue[tuple[str, int, str]] = asyncio.Queue(1000)

            async def follow(index: int, name: str) -> None:
                whole: list[str] = []
                try:
                    async with self._pieces(name, page, user) as pieces:
                        async for piece in pieces:
                            whole.append(piece)
                            await queue.put(("piece", index, printable(piece)))
                    text = "".join(whole).strip()
                    await queue.put(("end", index, str(await asyncio.to_thread(answer_html, text))))
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


def _archive(model: str, system: str, turns: Sequence[tuple[str, str]], asked: AskSettings) -> Response:
    """Return a conversation with a model as an archive of a task file and its rows."""
    temperature = asked.temperature or 0.0
    settings = GenerationSettings(max_tokens=asked.max_tokens, do_sample=temperature > 0, temperature=temperature)
    name = f"chat_{re.sub(r'[^A-Za-z0-9]+', '_', model).strip('_')[:40] or 'model'}"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in task_texts(name, [text for turn in turns for text in turn], system or None, settings):
            archive.writestr(file, text)
    headers = {"content-disposition": f'attachment; filename="{name}.zip"', "cache-control": "no-store"}
    return Response(made.getvalue(), media_type="application/zip", headers=headers)


class _Turn:
    """A question in progress, counted while the block runs."""

    def __init__(self, chat: _Chat, network: str) -> None:
        self._chat, self._network = chat, network

    def __enter__(self) -> None:
        self._chat.begin(self._network)

    def __exit__(self, *_: object) -> None:
        self._chat.end(self._network)
