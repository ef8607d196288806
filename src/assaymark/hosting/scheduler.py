"""The thread that owns the engine: it admits requests between decoding steps and delivers each step's results.

`submit` and `cancel` may be called from any thread. Requests wait in a bounded queue that serves users in turn, one
repeat of a prompt at each turn. No user holds every slot while another waits: the last free slot is kept for a user who
holds none, and of three slots or more, another for a client that holds none (a client chooses the names of its users,
but neither its address nor its key). What a request asked for is delivered as events: tokens, log-probabilities of the
prompt, and one end (a text or a failure) for each repeat. Whatever goes wrong in the engine ends in failures of the
requests concerned, never in a text.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from assaymark.engine.adjustments import Adjustment
from assaymark.engine.generation import GeneratedSequence, GenerationFailure, GenerationPrompt, RepeatStop
from assaymark.engine.open_batch import JoiningPrompt, NewToken, OpenBatch
from assaymark.engine.prompt_logprobs import PromptLogprobs
from assaymark.engine.spans import IntArray
from assaymark.errors import ModelError, ModelUnavailable, ServerFailed
from assaymark.hosting.fair_queue import FairQueue
from assaymark.hosting.hosted_model import EngineThread

Event = NewToken | PromptLogprobs | GeneratedSequence | GenerationFailure
READ_TOKENS, READ_TOKENS_BETWEEN_STEPS = 16_384, 1_024  # of prompts read at once; the second while others are decoding
CLOSE_SECONDS = 30.0
# Between two deliveries of tokens. The thread that sends them and the engine's take the interpreter's lock from each
# other, which for a step of a millisecond costs more than the step; nobody reads a hundred pieces a second.
DELIVER_SECONDS = 0.01
KEPT_OF_QUEUE = 8  # one place in so many is kept for users who have nothing waiting, and one for such clients
LEAST_FOR_CLIENTS = 3  # slots or places; of fewer one is kept for users, and none for clients


@dataclass(frozen=True, slots=True)
class User:
    """The sender of a request. `client`: the key if the host has several, else the address; a client cannot choose."""

    name: str
    client: str


@dataclass(frozen=True, slots=True)
class GenerateWork:
    """Generate the continuations of a prompt. `wants_tokens`: deliver each token, not only the ends."""

    prompt: GenerationPrompt
    stop: RepeatStop | None = None
    n_top: int | None = None
    wants_tokens: bool = True
    adjustment: Adjustment | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReadWork:
    """Return the log-probabilities of a prompt's own tokens with `n_top` alternatives each."""

    tokens: IntArray
    n_top: int


@dataclass(eq=False, slots=True)
class Handle:
    """One submitted piece of work. `deliver` receives its events; see `Scheduler`."""

    number: int
    work: GenerateWork | ReadWork
    user: User
    deliver: Callable[[Event], None]
    n_open: int  # repeats whose end has not been delivered
    n_joined: int = 0  # repeats that have joined the batch, in order
    n_running: int = 0  # repeats in the batch
    is_cancelled: bool = field(default=False)


Deliver = Callable[[Sequence[tuple[Handle, Event]]], None]


class Scheduler:
    """Runs an engine for many requests.

    `deliver` is called in the engine's thread with the events of a step, or of several that took less than
    `DELIVER_SECONDS` together; an end, or the first token after a pause, is never held back.
    """

    def __init__(
        self,
        open_batch: Callable[[], AbstractContextManager[OpenBatch]],
        thread: EngineThread,
        deliver: Deliver,
        *,
        most_waiting: int = 256,
    ) -> None:
        self._open_batch = open_batch
        self._deliver = deliver
        self._changed = threading.Condition()
        self._queue: FairQueue[User, Handle] = FairQueue(most_waiting)
        self._active: dict[int, Handle] = {}  # in the batch
        self._cancelled: list[Handle] = []
        self._n_submitted = 0
        self._is_closing = False
        self._batch: OpenBatch | None = None
        self._undelivered: list[tuple[Handle, Event]] = []
        self._delivered_at = float("-inf")
        self._has_started = threading.Event()
        self._thread = thread  # on which the model was loaded

    # --------------------------------------------------------------------------------- from any other thread

    def start(self) -> None:
        """Begin to work on the thread, and wait until it takes work."""
        self._thread.start(self._run)
        self._has_started.wait()

    def check(self, prompt: GenerationPrompt, *, is_adjusted: bool = False) -> None:
        """Check a prompt before it is submitted. Raises: PlanError; PromptTooLong."""
        if self._batch is not None:
            self._batch.check(prompt, is_adjusted=is_adjusted)

    def submit(self, work: GenerateWork | ReadWork, user: User, deliver: Callable[[Event], None]) -> Handle:
        """Queue work for a user and return its handle.

        Raises: QueueFull; ModelUnavailable after `close`.
        """
        with self._changed:
            if self._is_closing:
                raise ModelUnavailable("the host is shutting down")
            self._n_submitted += 1
            n_open = len(work.prompt.repeats) if isinstance(work, GenerateWork) else 1
            handle = Handle(self._n_submitted, work, user, deliver, n_open)
            most = self._queue.most
            n_kept = max(1, most // KEPT_OF_QUEUE) * _n_parties(user, self._queue.users(), most)
            self._queue.put(user, handle, n_kept=n_kept)
            self._changed.notify()
        return handle

    def cancel(self, handle: Handle) -> None:
        """Drop work, whatever its state; nothing more is delivered for it."""
        with self._changed:
            handle.is_cancelled = True
            self._queue.remove(handle)
            if handle.number in self._active:
                self._cancelled.append(handle)
                self._changed.notify()

    def position(self, handle: Handle) -> int:
        """Return the place in the queue, 1 for the next one; 0 once work on it has begun or ended."""
        with self._changed:
            return 0 if handle.number in self._active else self._queue.position(handle) or 0

    @property
    def load(self) -> dict[str, int]:
        """How many requests are in progress, how many wait, and how many may wait."""
        with self._changed:
            n_slots = self._batch.n_slots if self._batch else 0
            return {
                "running": len(self._active), "waiting": len(self._queue), "most_waiting": self._queue.most,
                "slots": n_slots,
            }  # fmt: skip

    def close(self) -> None:
        """Fail all work that is waiting or in progress, and end the thread after its present step."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.close(CLOSE_SECONDS)

    # ------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            with self._open_batch() as batch:
                self._batch = batch
                self._has_started.set()
                while self._wait_for_work(batch):
                    self._work(batch)
        finally:
            self._has_started.set()
            with self._changed:
                self._is_closing = True
                left = list(dict.fromkeys([*self._queue.clear(), *self._active.values()]))
                self._active.clear()
            self._fail(left, ModelUnavailable, "the host is shutting down; send the request again later")

    def _wait_for_work(self, batch: OpenBatch) -> bool:
        """Wait until there is something to do; return whether to go on."""
        with self._changed:
            while batch.is_idle and not (len(self._queue) or self._cancelled or self._is_closing):
                self._changed.wait()
            return not self._is_closing

    def _work(self, batch: OpenBatch) -> None:
        """Cancel, admit, read prompts and take one step."""
        reads: list[Handle] = []
        try:
            reads += self._admit(batch)
            events = self._read(batch, reads) if reads else []
            if not batch.is_idle:
                events += self._step(batch)
            self._send(events)
        except Exception as error:  # noqa: BLE001 - any failure of the engine must reach the requests that wait for it
            batch.fail_all(ServerFailed, "")
            with self._changed:
                left = [*reads, *self._active.values()]
                self._active.clear()
                for handle in left:
                    self._queue.remove(handle)  # where some of its repeats still wait
            for handle in left:
                batch.cancel(handle.number)  # also those that have not begun
            self._fail(left, ServerFailed, f"the engine failed: {type(error).__name__}: {str(error)[:200]}")

    def _send(self, events: list[tuple[Handle, Event]]) -> None:
        """Deliver events, or keep tokens for the next delivery where the last was a moment ago."""
        self._undelivered += events
        now = time.monotonic()
        is_token = all(isinstance(event, NewToken) for _, event in events)
        if not self._undelivered or (is_token and now - self._delivered_at < DELIVER_SECONDS):
            return
        self._delivered_at = now
        events, self._undelivered = self._undelivered, []
        self._deliver(events)

    def _admit(self, batch: OpenBatch) -> list[Handle]:
        """Drop cancelled work, let prompts join while slots are free, and return the prompts to read."""
        reads: list[Handle] = []
        joining: dict[Handle, tuple[GenerateWork, list[int]]] = {}  # with the repeats that join now
        with self._changed:
            cancelled, self._cancelled = self._cancelled, []
            for handle in cancelled:
                batch.cancel(handle.number)
                self._active.pop(handle.number, None)
            if not len(self._queue):
                return reads
            n_left = READ_TOKENS if batch.is_idle else READ_TOKENS_BETWEEN_STEPS
            n_free = batch.n_free
            running: Counter[User] = Counter()
            for handle in self._active.values():
                running[handle.user] += handle.n_running

            def may_go(handle: Handle) -> bool:
                if isinstance(handle.work, GenerateWork):
                    return n_free > _n_parties(handle.user, +running, batch.n_slots)
                return not reads or handle.work.tokens.size <= n_left

            while (first := self._queue.pop(may_go)) is not None:
                if isinstance(first.work, ReadWork):
                    reads.append(first)
                    n_left -= int(first.work.tokens.size)
                    continue
                repeats = first.work.prompt.repeats
                joining.setdefault(first, (first.work, []))[1].append(repeats[first.n_joined])
                first.n_joined += 1
                first.n_running += 1
                running[first.user] += 1
                n_free -= 1
                if first.n_joined < len(repeats):
                    self._queue.put_back(first.user, first)
                self._active[first.number] = first
        for handle, (work, joined) in joining.items():
            batch.add(_joining(handle, work, joined))
        return reads

    def _read(self, batch: OpenBatch, handles: list[Handle]) -> list[tuple[Handle, Event]]:
        """Return the log-probabilities of several prompts."""
        works = [handle.work for handle in handles if isinstance(handle.work, ReadWork)]
        read = batch.prompt_logprobs([work.tokens for work in works], max(work.n_top for work in works))
        return [(handle, logprobs) for handle, logprobs in zip(handles, read, strict=True) if not handle.is_cancelled]

    def _step(self, batch: OpenBatch) -> list[tuple[Handle, Event]]:
        """Take one step and return its events; work whose every repeat has ended is no longer active."""
        result = batch.step()
        events: list[tuple[Handle, Event]] = []
        for token in result.tokens:
            handle = self._active.get(token.key)
            if handle is not None and isinstance(handle.work, GenerateWork) and handle.work.wants_tokens:
                events.append((handle, token))
        for end in result.finished:
            handle = self._active.get(end.index)
            if handle is None:
                continue
            events.append((handle, end))
            handle.n_open -= 1
            handle.n_running -= 1
            if handle.n_open == 0:
                with self._changed:
                    self._active.pop(end.index, None)
        return [(handle, event) for handle, event in events if not handle.is_cancelled]

    def _fail(self, handles: Sequence[Handle], kind: type[ModelError], reason: str) -> None:
        events: list[tuple[Handle, Event]] = [
            (handle, GenerationFailure(handle.number, repeat, kind, reason))
            for handle in handles
            if not handle.is_cancelled
            for repeat in (handle.work.prompt.repeats if isinstance(handle.work, GenerateWork) else (0,))
        ]
        if events:
            undelivered, self._undelivered = self._undelivered, []
            self._deliver([*undelivered, *events])


def _n_parties(user: User, holders: Iterable[User], n_places: int) -> int:
    """Return for how many parties a place is kept from a user: other users, other clients, where this one has some.

    Args:
        user: who asks for a place.
        holders: those who have one.
        n_places: how many there are; of one alone none can be kept.
    """
    holders = set(holders)
    has_client = any(holder.client == user.client for holder in holders)
    return (user in holders and n_places > 1) + (has_client and n_places >= LEAST_FOR_CLIENTS)


def _joining(handle: Handle, work: GenerateWork, repeats: Sequence[int]) -> JoiningPrompt:
    """Return repeats of a prompt as they join; cancelled ones also stop where a step generates them as a whole."""

    def stop(repeat: int, tokens: Sequence[int]) -> bool:
        return handle.is_cancelled or (work.stop is not None and work.stop(repeat, tokens))

    return JoiningPrompt(handle.number, replace(work.prompt, repeats=tuple(repeats)), stop, work.n_top, work.adjustment)
