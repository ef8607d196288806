"""The thread that owns the engine: it admits requests between decoding steps and delivers what each step produced.

`submit` and `cancel` may be called from any thread. Requests wait in a bounded queue that serves users in turn. What a
request asked for is delivered as events: tokens, log-probabilities of the prompt, and one end (a text or a failure) for
each repeat. Whatever goes wrong in the engine ends in failures of the requests concerned, never in a text.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from assaymark.engine.generation import GeneratedSequence, GenerationFailure, GenerationPrompt
from assaymark.engine.open_batch import JoiningPrompt, NewToken, OpenBatch, RepeatStop
from assaymark.engine.prompt_logprobs import PromptLogprobs
from assaymark.engine.spans import IntArray
from assaymark.errors import ModelError, ModelUnavailable, ServerFailed
from assaymark.host.engine_thread import EngineThread
from assaymark.host.fair_queue import FairQueue

__all__ = ["Event", "GenerateWork", "Handle", "ReadWork", "Scheduler"]

Event = NewToken | PromptLogprobs | GeneratedSequence | GenerationFailure
READ_TOKENS, READ_TOKENS_BETWEEN_STEPS = 16_384, 1_024  # of prompts read at once; the second while others are decoding
CLOSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class GenerateWork:
    """Generate the continuations of a prompt. `wants_tokens`: deliver each token, not only the ends."""

    prompt: GenerationPrompt
    stop: RepeatStop | None = None
    n_top: int | None = None
    wants_tokens: bool = True


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
    deliver: Callable[[Event], None]
    n_open: int  # repeats whose end has not been delivered
    is_cancelled: bool = field(default=False)


Deliver = Callable[[Sequence[tuple[Handle, Event]]], None]


class Scheduler:
    """Runs an engine for many requests. `deliver` is called in the engine's thread, once per step with its events."""

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
        self._queue: FairQueue[Handle] = FairQueue(most_waiting)
        self._active: dict[int, Handle] = {}  # in the batch
        self._cancelled: list[Handle] = []
        self._n_submitted = 0
        self._is_closing = False
        self._batch: OpenBatch | None = None
        self._has_started = threading.Event()
        self._thread = thread  # on which the model was loaded

    # --------------------------------------------------------------------------------- from any other thread

    def start(self) -> None:
        """Begin to work on the thread, and wait until it takes work."""
        self._thread.start(self._run)
        self._has_started.wait()

    def check(self, prompt: GenerationPrompt) -> None:
        """Check a prompt before it is submitted. Raises: PlanError; PromptTooLong."""
        if self._batch is not None:
            self._batch.check(prompt)

    def submit(self, work: GenerateWork | ReadWork, user: str, deliver: Callable[[Event], None]) -> Handle:
        """Queue work for a user and return its handle.

        Raises: QueueFull; ModelUnavailable after `close`.
        """
        with self._changed:
            if self._is_closing:
                raise ModelUnavailable("the host is shutting down")
            self._n_submitted += 1
            n_open = len(work.prompt.repeats) if isinstance(work, GenerateWork) else 1
            handle = Handle(self._n_submitted, work, deliver, n_open)
            self._queue.put(user, handle)
            self._changed.notify()
        return handle

    def cancel(self, handle: Handle) -> None:
        """Drop work, whatever its state; nothing more is delivered for it."""
        with self._changed:
            handle.is_cancelled = True
            if not self._queue.remove(handle) and handle.number in self._active:
                self._cancelled.append(handle)
                self._changed.notify()

    def position(self, handle: Handle) -> int:
        """Return the place in the queue, 1 for the next one; 0 once work on it has begun or ended."""
        with self._changed:
            return self._queue.position(handle) or 0

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
        """Fail what is waiting or in progress, and end the thread after its present step."""
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
                left = [*self._queue.clear(), *self._active.values()]
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
            if events:
                self._deliver(events)
        except Exception as error:  # noqa: BLE001 - any failure of the engine must reach the requests that wait for it
            batch.fail_all(ServerFailed, "")
            with self._changed:
                left = [*reads, *self._active.values()]
                self._active.clear()
            for handle in left:
                batch.cancel(handle.number)  # also those that have not begun
            self._fail(left, ServerFailed, f"the engine failed: {type(error).__name__}: {str(error)[:200]}")

    def _admit(self, batch: OpenBatch) -> list[Handle]:
        """Cancel what was cancelled, let prompts join while slots are free, and return the prompts to read."""
        reads: list[Handle] = []
        with self._changed:
            cancelled, self._cancelled = self._cancelled, []
            for handle in cancelled:
                batch.cancel(handle.number)
                self._active.pop(handle.number, None)
            n_left = READ_TOKENS if batch.is_idle else READ_TOKENS_BETWEEN_STEPS

            def may_go(handle: Handle) -> bool:
                if isinstance(handle.work, GenerateWork):
                    return batch.n_free > 0
                return not reads or handle.work.tokens.size <= n_left

            while (first := self._queue.pop(may_go)) is not None:
                if isinstance(first.work, ReadWork):
                    reads.append(first)
                    n_left -= int(first.work.tokens.size)
                    continue
                self._active[first.number] = first
                batch.add(_joining(first, first.work))
        return reads

    def _read(self, batch: OpenBatch, handles: list[Handle]) -> list[tuple[Handle, Event]]:
        """Return the log-probabilities of several prompts."""
        works = [handle.work for handle in handles if isinstance(handle.work, ReadWork)]
        found = batch.prompt_logprobs([work.tokens for work in works], max(work.n_top for work in works))
        return [(handle, one) for handle, one in zip(handles, found, strict=True) if not handle.is_cancelled]

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
            self._deliver(events)


def _joining(handle: Handle, work: GenerateWork) -> JoiningPrompt:
    """Return the prompt as it joins the batch; a cancelled one also stops where a step generates it as a whole."""

    def stop(repeat: int, tokens: Sequence[int]) -> bool:
        return handle.is_cancelled or (work.stop is not None and work.stop(repeat, tokens))

    return JoiningPrompt(handle.number, work.prompt, stop, work.n_top)
