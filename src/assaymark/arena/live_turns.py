"""Turns of live battles: both models are asked at once, and their answers shown at one cadence.

A turn continues after its voter has left, within the battle's limits, so that leaving cannot be used to end a battle.
Only the text of an endpoint's answer is passed on, not its metadata, ids, usage or errors.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from assaymark.arena.cadence import Release
from assaymark.arena.live_battles import LiveArena, LiveBattle
from assaymark.documents.plain_text import printable
from assaymark.hosting.endpoints import AskSettings, Endpoint, EndpointFailed, stream_chat

Moderation = Callable[[Sequence[Mapping[str, str]]], str | None]
"""Takes a conversation (`role`, `content`); returns why it may not go on, in words for the voter, or None."""

FAILED = "One of the models gave no whole answer. The battle ends without a vote, and the models are not named."
ENDED = b"event: end\ndata: {}\n\n"
ALIVE_TICKS = 100
MODERATION_SECONDS = 30.0
TOKEN_CHARACTERS = 12  # of an answer, for each token allowed: an endpoint that ignores the limit is cut off


class Turns:
    """Runs the turns of one arena."""

    def __init__(
        self,
        arena: LiveArena,
        endpoints: Sequence[Endpoint],
        moderate: Moderation | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Use these endpoints, one for each model of the arena; `tell`: gets the operator's lines about failures."""
        self._arena = arena
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._moderate = moderate
        self._tell = tell
        limits = arena.limits
        self._settings = AskSettings(limits.tokens, limits.temperature, seconds=limits.seconds,
                                     silent_seconds=limits.seconds)  # fmt: skip
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def n_running(self) -> int:
        """The number of turns in progress."""
        return len(self._tasks)

    async def refusal(self, battle: LiveBattle) -> str | None:
        """Return why moderation refuses one of the two conversations; None if it does not, or there is none.

        A function that fails refuses.
        """
        for side in (0, 1):
            if reason := await self._moderated(battle.messages(side)):
                return reason
        return None

    async def _moderated(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        if self._moderate is None:
            return None
        try:
            async with asyncio.timeout(MODERATION_SECONDS):
                return await asyncio.to_thread(self._moderate, messages)
        except Exception as error:  # noqa: BLE001 - another package's function
            self._tell(f"the moderation failed: {type(error).__name__}")
            return "the moderation does not answer; try again later"

    def start(self, battle: LiveBattle) -> "asyncio.Task[None]":
        """Ask both models; the task ends once both answers are shown, or one has failed."""
        task = asyncio.create_task(self._run(battle))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, battle: LiveBattle) -> None:
        release = battle.release
        if release is None:
            return
        try:
            async with asyncio.TaskGroup() as group:
                for side in (0, 1):
                    group.create_task(self._follow(battle, release, side))
                group.create_task(_pace(release))
        except* EndpointFailed as failures:
            self._tell(f"a battle failed: {failures.exceptions[0]}")
            self._arena.fail(battle)
        except* Exception as failures:  # noqa: BLE001 - a battle must not wait for ever
            kind = type(failures.exceptions[0]).__name__  # its text may contain what the voter wrote
            self._tell(f"a battle failed: {kind}")
            self._arena.fail(battle)
        if battle.state == "answering":
            self._arena.finish(battle)

    async def _follow(self, battle: LiveBattle, release: Release, side: int) -> None:
        # the same user for both sides, so that a host serves visitors in turn; it names nobody
        settings = replace(self._settings, user=battle.voter.origin[:16])
        endpoint = self._endpoints[battle.models[side]]
        n_characters, most = 0, TOKEN_CHARACTERS * self._settings.max_tokens + 1000
        held: list[str] = []  # nothing of an answer is shown before moderation has seen all of it
        async with aclosing(stream_chat(endpoint, battle.messages(side), settings)) as pieces:
            async for piece in pieces:
                n_characters += len(piece)
                if n_characters > most:
                    raise EndpointFailed(f"{endpoint.name} writes more than {self._settings.max_tokens} tokens")
                if self._moderate is None:
                    release.put(side, piece)
                else:
                    held.append(piece)
        if self._moderate is not None:
            said = [*battle.messages(side), {"role": "assistant", "content": "".join(held)}]
            if await self._moderated(said):
                raise EndpointFailed(f"{endpoint.name}: the moderation refused the answer")
            release.put(side, "".join(held))
        release.end(side)


async def _pace(release: Release) -> None:
    await asyncio.sleep(release.cadence.start_seconds)
    while not release.is_over:
        release.tick()
        await asyncio.sleep(release.cadence.tick_seconds)


async def events(battle: LiveBattle) -> AsyncIterator[bytes]:
    """Yield the growing answers as events with both sides; the first event has all text that is shown already."""
    battle.n_followers += 1
    try:
        async for event in _pieces(battle):
            yield event
        yield ENDED
    finally:
        battle.n_followers -= 1


async def _pieces(battle: LiveBattle) -> AsyncIterator[bytes]:
    release, position, n_quiet = battle.release, 0, 0
    while release is not None and battle.release is release and not release.has_failed:
        if release.position > position:
            yield _piece(release, position)
            position, n_quiet = release.position, 0
        elif (n_quiet := n_quiet + 1) % ALIVE_TICKS == 0:
            yield b": waiting\n\n"
        await asyncio.sleep(release.cadence.tick_seconds)
    if release is not None and not release.has_failed and any(release.shown(position)):
        yield _piece(release, position)  # what was shown since the last look


def _piece(release: Release, position: int) -> bytes:
    a, b = release.shown(position)
    data = json.dumps({"a": printable(a), "b": printable(b)}, ensure_ascii=True)
    return f"event: piece\ndata: {data}\n\n".encode()
