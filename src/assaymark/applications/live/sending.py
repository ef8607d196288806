"""`assaymark.feedback` and `assaymark.feedback_link`: feedback of a program on its own traces.

They go where the program's spans go, with the same token.
"""

import hashlib
import json
import time

from assaymark.applications.live.links import DAYS, signed_link
from assaymark.applications.traces.spans import Destination, current_trace_id, destination
from assaymark.errors import ConnectionLost, RequestRefused, UsageError

TIMEOUT_SECONDS = 10.0
TRIES = 3  # while the server's store is busy
LONGEST_ANSWER = 100_000  # bytes


def feedback(
    value: float | bool | str | None = None,
    *,
    trace_id: str | None = None,
    span_id: str | None = None,
    session_id: str | None = None,
    response_id: str | None = None,
    name: str | None = None,
    label: str | None = None,
    comment: str | None = None,
    correction: object = None,
    completed: bool | None = None,
    id: str | None = None,  # noqa: A002 - what tools call it
    user: str | None = None,
    endpoint: str | None = None,
    token: str | None = None,
) -> bool:
    """Send feedback on an answer to the server that receives the program's traces.

    It may be sent before the trace is. Where nothing says where to send it, it does nothing, as spans do.

    Args:
        value: a number, or a thumb: True or "up", False or "down".
        trace_id: 32 hexadecimal digits (default: the present trace, where nothing else is named).
        span_id: of a step.
        session_id: of a conversation.
        response_id: that the model's server gave the answer.
        name: of the score (default: "thumbs" for a thumb, else "feedback").
        label: a word for it.
        comment: why.
        correction: what the answer should have been: a text, or a value that JSON holds.
        completed: whether the task was completed.
        id: the same id again replaces what was said before.
        user: who says it; only a keyed hash is stored.
        endpoint: of the server (default: where spans go).
        token: of the project (default: that of the spans).

    Returns: whether it was sent and stored.

    Raises: UsageError where nothing is named; RequestRefused with the server's reason; ConnectionLost.
    """
    where = _where(endpoint, token)
    if where is None:
        return False
    named = {"span_id": span_id, "session_id": session_id, "response_id": response_id}
    if trace_id is None and not any(named.values()):
        trace_id = current_trace_id()
        if trace_id is None:
            raise UsageError("feedback names no trace, and there is no present one; name it with trace_id=")
    sent = {
        **named, "trace_id": trace_id, "value": value, "name": name, "label": label, "comment": comment,
        "correction": correction, "completed": completed, "id": id, "user": user,
    }  # fmt: skip
    body = json.dumps({key: part for key, part in sent.items() if part is not None}).encode()
    headers = {"content-type": "application/json", **where.headers}
    for attempt in range(TRIES):
        status, answer = _post(f"{where.base}/v1/feedback", body, headers)
        if status != 503 or attempt == TRIES - 1:
            break
        time.sleep(1.0)
    if status != 200:
        raise RequestRefused(f"the feedback was refused ({status}): {_reason(answer)}")
    return True


def feedback_link(
    trace_id: str | None = None, *, days: float = DAYS, endpoint: str | None = None, token: str | None = None
) -> str:
    """Return the address of a form on which a person can say how the answer of a trace was. Nothing is sent.

    Args:
        trace_id: 32 hexadecimal digits (default: the present trace).
        days: for which the link is good.
        endpoint: of the server that receives traces (default: where spans go).
        token: of the project (default: that of the spans); one that only writes is enough.

    Raises: UsageError where a trace, an address or a token is missing.
    """
    where = _where(endpoint, token)
    bearer = "" if where is None else where.token
    trace = trace_id or current_trace_id()
    if where is None or not bearer:
        raise UsageError("nothing says where traces go and with which token; call send_traces, or name both")
    if trace is None:
        raise UsageError("feedback_link names no trace, and there is no present one; name it with trace_id=")
    return signed_link(where.base, trace, hashlib.sha256(bearer.encode()).digest(), days)


def _where(endpoint: str | None, token: str | None) -> Destination | None:
    known = destination()
    if endpoint is None:
        if known is None or token is None:
            return known
        return Destination(known.base, {"authorization": f"Bearer {token}"})
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"the endpoint is '{endpoint}'; expected http://HOST:PORT of a server that receives traces")
    if token is not None:
        headers = {"authorization": f"Bearer {token}"}
    else:
        headers = {} if known is None or known.base != endpoint.rstrip("/") else dict(known.headers)
    return Destination(endpoint.rstrip("/"), headers)


def _post(address: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Return status and body of the answer; no redirect is followed: the token is for this server.

    Raises: ConnectionLost.
    """
    import httpx

    try:
        with httpx.stream("POST", address, content=body, headers=headers, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status_code, next(answer.iter_bytes(LONGEST_ANSWER), b"")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:  # or a proxy that needs a package
        raise ConnectionLost(f"feedback could not be sent to {address}: {error}") from error


def _reason(answer: bytes) -> str:
    """Return why the server refused. Its answer may be anything, so it is read with bounds."""
    try:
        read = json.loads(answer)
    except (ValueError, RecursionError):
        return answer[:200].decode(errors="replace")
    if isinstance(read, dict):
        rejected = read.get("rejected")
        if isinstance(rejected, list) and rejected and isinstance(rejected[0], dict):
            return str(rejected[0].get("reason"))[:500]
        return str(read.get("error"))[:500]
    return "it gave no reason"
