"""Read one answer from a server as it is generated (server-sent events), within limits of size, time and depth.

A server that sends the whole answer instead, as JSON, is read too. A request is retried only before any text has
arrived: shown text cannot be taken back, so a failure in the middle of an answer is an error.

Source: OpenAI's API reference (streaming); the format of events: WHATWG HTML, server-sent events.
"""

import codecs
import re
import time
from collections.abc import Iterator, Mapping
from itertools import chain

import httpx

from assaymark.errors import MalformedAnswer, TimedOut
from assaymark.models.server.bodies import read_text, text_of
from assaymark.models.server.failures import (
    HttpFailure,
    failure_of_answer,
    failure_of_transport,
    failure_within,
    first_choice,
)
from assaymark.models.server.http_calls import LONGEST_CONNECT_S, Server
from assaymark.models.server.pace import Patience, Tries
from assaymark.models.server.response_limits import MIB, ResponseBody, parse_json

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the end may be half of one
LONGEST_LINE = MIB  # bytes of one event
EVENTS = "text/event-stream"


def stream_text(server: Server, body: Mapping[str, object], patience: Patience, *, is_chat: bool) -> Iterator[str]:
    """Yield the pieces of one generated text.

    Raises: HttpFailure if the request fails, also in the middle of the text.
    """
    tries = Tries()
    while True:
        has_begun = False
        try:
            for piece in _without_keys(server, _pieces(server, {**body, "stream": True}, is_chat=is_chat)):
                has_begun = True
                yield piece
        except HttpFailure as failure:
            patience.failed(failure)
            if has_begun:
                raise
            time.sleep(tries.wait_after(failure, patience))
        else:
            patience.answered()
            return


def _without_keys(server: Server, pieces: Iterator[str]) -> Iterator[str]:
    """Yield pieces without the keys; a possible beginning of a key is held back."""
    longest = max(map(len, server.keys.keys), default=0)
    if not longest:
        yield from pieces
        return
    held = ""
    for piece in pieces:
        held = server.keys.text(held + piece) if len(held) + len(piece) > 2 * longest else held + piece
        if len(held) > 2 * longest:
            yield held[:-longest]
            held = held[-longest:]
    yield server.keys.text(held)


def _pieces(server: Server, body: Mapping[str, object], *, is_chat: bool) -> Iterator[str]:
    """Yield the pieces of one attempt."""
    deadline = time.monotonic() + server.timeout_s
    timeout = httpx.Timeout(server.timeout_s, connect=min(server.timeout_s, LONGEST_CONNECT_S))
    headers = {**server.sent_headers, "Accept": f"{EVENTS}, application/json"}
    try:
        with (
            server.keys.in_logs(),
            httpx.Client(headers=headers, timeout=timeout, verify=server.verify) as client,
            client.stream("POST", server.url, json=body) as answer,
        ):
            received_headers = server.headers_of(answer)
            if answer.is_success and received_headers.get("content-type", "").startswith(EVENTS):
                yield from _events(server, answer, deadline, is_chat=is_chat)
                return
            whole = ResponseBody(received_headers, server.limits, for_quoting=not answer.is_success)
            for chunk in answer.iter_raw():
                if not whole.add(chunk):
                    break
                _check_time(deadline, server.timeout_s)
    except httpx.TransportError as error:
        raise failure_of_transport(error, server.timeout_s, server.keys) from None
    except httpx.HTTPError as error:
        raise HttpFailure(MalformedAnswer, server.keys.text(f"the answer cannot be read ({error})")) from None
    if not answer.is_success:
        raise failure_of_answer(answer.status_code, received_headers, whole.text, server.keys)
    value, _ = parse_json(whole.content, server.limits, server.keys)
    yield read_text(value, is_chat=is_chat, keys=server.keys).text


def _events(server: Server, answer: httpx.Response, deadline: float, *, is_chat: bool) -> Iterator[str]:
    """Yield the texts of the events of one answer. Raises: HttpFailure for an error, or an end before the end."""
    is_complete = has_text = False
    for data in _data_of(server, answer, deadline):
        if data == b"[DONE]":
            is_complete = is_complete or has_text  # some servers give no finish reason
            break
        event, _ = parse_json(data, server.limits, server.keys)
        if failure := failure_within(event, server.keys):
            raise failure
        piece, finish = _piece_of(event, server, is_chat=is_chat)
        is_complete = is_complete or finish
        has_text = has_text or bool(piece)
        if piece:
            yield piece
    if not is_complete:
        raise HttpFailure(MalformedAnswer, "the stream ended before the answer did")


def _data_of(server: Server, answer: httpx.Response, deadline: float) -> Iterator[bytes]:
    """Yield the data of each event; the last one may end with the stream. Raises: HttpFailure for one over a limit."""
    n_bytes, rest, data = 0, b"", bytearray()
    for chunk in chain(answer.iter_bytes(), (b"\n\n",)):
        _check_time(deadline, server.timeout_s)
        rest += chunk if n_bytes else chunk.removeprefix(codecs.BOM_UTF8)
        n_bytes += len(chunk)
        if n_bytes > server.limits.max_mib * MIB:
            raise HttpFailure(MalformedAnswer, f"the stream has more than {server.limits.max_mib} MiB")
        *lines, rest = _LINE_END.split(rest)
        if len(rest) + len(data) > LONGEST_LINE:
            raise HttpFailure(MalformedAnswer, f"an event has more than {LONGEST_LINE >> 20} MiB")
        for line in lines:
            if line.startswith(b"data:"):
                data += line[5:].removeprefix(b" ")
            elif not line and data:
                yield bytes(data)
                data.clear()


def _piece_of(event: object, server: Server, *, is_chat: bool) -> tuple[str, bool]:
    """Return the text of an event, and whether it states why the answer ended."""
    choice = first_choice(event)
    if choice is None:
        return "", False  # usage, or something of the server's own
    if choice.get("index") not in (0, None):
        return "", False  # another answer to the same messages
    holder = choice.get("delta") if is_chat else choice
    content = holder.get("content" if is_chat else "text") if isinstance(holder, Mapping) else None
    return text_of(content, server.keys), choice.get("finish_reason") is not None


def _check_time(deadline: float, seconds: float) -> None:
    if time.monotonic() > deadline:
        raise HttpFailure(TimedOut, f"the answer was not complete within {seconds:g} s; allow more with timeout=")
