"""Send requests to a server, several at once, each retried within its budget; each ends in a value or a failure.

An event loop in its own thread sends the requests, so that the caller may be a plain program or a notebook; results
arrive through a queue in the order in which they finish. When a stop is requested (`stopping`), no more requests are
sent and those in flight are completed. Leaving the iteration early (a second Ctrl-C, an error) closes the connections,
so that the server stops too.
"""

import asyncio
import queue
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import httpx

from assaymark import stopping
from assaymark.errors import MalformedAnswer, ModelUnavailable, Retryable
from assaymark.models.server.failures import (
    LONGEST_QUOTE,
    NO_KEYS,
    HttpFailure,
    KeyHider,
    failure_of_answer,
    failure_of_transport,
)
from assaymark.models.server.pace import Pace, Patience, RetryRules, Tries
from assaymark.models.server.response_limits import ACCEPT_ENCODING, ResponseBody, ResponseLimits, parse_json

LONGEST_CONNECT_S = 10.0
SILENCE_S = 1.0
T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R")


@dataclass(frozen=True)
class Server:
    """Where requests are sent. `keys` are removed from every response. Units: timeout_s of a whole request."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    verify: ssl.SSLContext | bool = True
    keys: KeyHider = NO_KEYS
    limits: ResponseLimits = field(default_factory=ResponseLimits)

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers of a request: the encodings that can be read within limits, and the user's own."""
        return {"Accept-Encoding": ACCEPT_ENCODING, **self.headers}

    def headers_of(self, answer: httpx.Response) -> dict[str, str]:
        """Return the headers of a response, in lower case and without the keys."""
        return {name.lower(): self.keys.text(value) for name, value in answer.headers.items()}


@dataclass(frozen=True, slots=True)
class HttpCall(Generic[T, V]):
    """One request. `read` converts the answer's JSON into a value; raises HttpFailure if the answer is malformed."""

    about: T
    body: Mapping[str, object]
    read: Callable[[object], V]


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[T, V]):
    """The outcome of a call: a value or a failure."""

    about: T
    value: V | None
    failure: HttpFailure | None = None


class HttpCaller:
    """Sends requests to one server. Pace and patience persist between calls; `reset` starts again after giving up."""

    def __init__(self, server: Server, n_at_once: int, rules: RetryRules) -> None:
        self.server = server
        self.rules = rules
        self.pace = Pace(n_at_once)
        self.patience = Patience(rules)
        self.n_sent = 0
        self.n_with_key = 0  # responses that contained the key

    def reset(self) -> None:
        """Start a new run with full patience."""
        self.patience.reset()

    def send(self, calls: Iterable[HttpCall[T, V]], on_silence: Callable[[], None]) -> Iterator[CallOutcome[T, V]]:
        """Yield the outcome of each call as it arrives; `on_silence` is called every second without one.

        Raises: ModelUnavailable if a response shows that no request can succeed.
        """
        results: queue.SimpleQueue[CallOutcome[T, V] | BaseException | None] = queue.SimpleQueue()
        sending = _Sending(self, iter(calls), results)
        thread = threading.Thread(target=sending.run, name="http", daemon=True)
        with stopping.under_way():
            thread.start()
            try:
                while (result := _next_of(results, on_silence)) is not None:
                    if isinstance(result, BaseException):
                        raise result
                    yield result
                stopping.raise_if_requested()  # requests in flight are completed, the rest is not sent
            finally:
                sending.stop()
                thread.join()

    def note(self) -> str:
        """Return a short text on the state: the number of requests at once, and the retries."""
        counts = ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.patience.retried.items()))
        silent = f", no answer for {s:.0f} s" if (s := self.patience.silent_s) >= 1 else ""
        return f"{self.pace.n_active} at once" + (f", retried: {counts}" if counts else "") + silent


def _next_of(results: "queue.SimpleQueue[R]", on_silence: Callable[[], None]) -> R:
    """Return the next result, however long it takes."""
    while True:
        try:
            return results.get(timeout=SILENCE_S)
        except queue.Empty:
            on_silence()


class _NotSent(Exception):
    """A call that had not been sent when a stop was requested."""


class _Sending(Generic[T, V]):
    """The calls of one iteration: workers that each take the next call until none is left."""

    def __init__(
        self,
        caller: HttpCaller,
        calls: Iterator[HttpCall[T, V]],
        results: "queue.SimpleQueue[CallOutcome[T, V] | BaseException | None]",
    ) -> None:
        self._caller = caller
        self._calls = calls
        self._results = results
        self._has_begun = threading.Event()
        self._cancel: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Send all calls; the body of the thread."""
        end: BaseException | None = None
        try:
            asyncio.run(self._work())
        except asyncio.CancelledError:
            pass
        except BaseExceptionGroup as group:
            end = group.exceptions[0]
        except BaseException as error:  # noqa: BLE001 - any error must reach the iterating thread
            end = error
        self._has_begun.set()
        self._results.put(end)

    def stop(self) -> None:
        """End early and close the connections."""
        self._has_begun.wait()
        with suppress(RuntimeError):  # it has already ended
            self._cancel()

    async def _work(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
        self._has_begun.set()
        server, ceiling = self._caller.server, self._caller.pace.ceiling
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=ceiling)
        # `_once` limits the whole request; httpx's own timeouts apply to each read.
        timeout = httpx.Timeout(server.timeout_s, connect=min(server.timeout_s, LONGEST_CONNECT_S), pool=None)
        with server.keys.in_logs():
            async with (
                httpx.AsyncClient(
                    headers=server.sent_headers, timeout=timeout, limits=limits, verify=server.verify
                ) as client,
                asyncio.TaskGroup() as group,
            ):
                for _ in range(ceiling):
                    group.create_task(self._take_calls(client))

    async def _take_calls(self, client: httpx.AsyncClient) -> None:
        for call in self._calls:  # shared by all workers
            try:
                self._results.put(CallOutcome(call.about, await self._send_call(client, call)))
            except _NotSent:
                return
            except HttpFailure as failure:
                self._results.put(CallOutcome(call.about, None, failure))

    async def _send_call(self, client: httpx.AsyncClient, call: HttpCall[T, V]) -> V:
        """Return the value of one call, retried while its budget lasts.

        Raises: HttpFailure; ModelUnavailable.
        """
        tries = Tries()
        while True:
            try:
                return await self._attempt(client, call)
            except HttpFailure as failure:
                if stopping.is_requested():  # the next command sends it again
                    raise
                wait, was_accepted = tries.wait_after(failure, self._caller.patience), failure.was_accepted
            if was_accepted:
                await asyncio.sleep(wait)
            else:  # the whole server needs a pause
                self._caller.pace.pause(wait)

    async def _attempt(self, client: httpx.AsyncClient, call: HttpCall[T, V]) -> V:
        """Return the value of one attempt and report the outcome to pace and patience.

        Raises: HttpFailure; ModelUnavailable.
        """
        pace, patience = self._caller.pace, self._caller.patience
        entered_at = await pace.enter()
        try:
            if stopping.is_requested():
                raise _NotSent
            if patience.given_up is not None:
                raise HttpFailure(Retryable, patience.given_up)  # noqa: TRY301 - handled like a failed request
            value = await self._once(client, call)
        except HttpFailure as failure:
            patience.failed(failure)
            if patience.is_hopeless(failure):
                raise ModelUnavailable(failure.message) from None
            if failure.is_overload:
                pace.slow_down(entered_at)
            raise
        else:
            patience.answered()
            pace.speed_up()
            return value
        finally:
            pace.leave()

    async def _once(self, client: httpx.AsyncClient, call: HttpCall[T, V]) -> V:
        """Return the value of one attempt.

        Raises: HttpFailure.
        """
        server = self._caller.server
        self._caller.n_sent += 1
        try:
            async with asyncio.timeout(server.timeout_s), client.stream("POST", server.url, json=call.body) as answer:
                headers = server.headers_of(answer)
                body = ResponseBody(headers, server.limits, for_quoting=not answer.is_success)
                async for chunk in answer.aiter_raw():
                    if not body.add(chunk):
                        break
        except (httpx.TransportError, TimeoutError) as error:
            raise failure_of_transport(error, server.timeout_s, server.keys) from None
        except httpx.HTTPError as error:
            raise HttpFailure(MalformedAnswer, server.keys.text(f"the answer cannot be read ({error})")) from None
        if not answer.is_success:
            raise failure_of_answer(answer.status_code, headers, body.text, server.keys)
        value, had_key = parse_json(body.content, server.limits, server.keys)
        self._caller.n_with_key += had_key
        try:
            return call.read(value)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            what = f"the answer contains values of an unexpected type ({type(error).__name__}: {error})"
            raise HttpFailure(MalformedAnswer, what[:LONGEST_QUOTE]) from None
