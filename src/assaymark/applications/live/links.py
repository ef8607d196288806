"""Links to the form of feedback: for one trace, for some days, signed with a token of the project.

A program with a token makes links without asking the server; a token that can only write is enough. The signature's key
is derived from the token's SHA-256, which the server has. A link names its token by the first 8 bytes of the hash; the
rest is unknown to whoever sees the link. Links of a removed token are invalid.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from assaymark.applications.live.feedback_log import HINT_BYTES
from assaymark.applications.traces.trace_rows import Token
from assaymark.errors import UsageError

FORM = "/feedback/form"
DAYS = 30.0
MOST_DAYS = 3650.0
_TRACE = re.compile(r"[0-9a-f]{32}")
_EXPIRY = re.compile(r"[0-9]{1,12}")
_PURPOSE = b"assaymark feedback link"


@dataclass(frozen=True, slots=True)
class FeedbackLink:
    """A link with a valid signature. signature: also the id of the feedback given through it."""

    project: int
    project_name: str
    trace_id: bytes
    query: str  # as the form's address has it
    signature: str


def signed_link(base: str, trace_id: str, key: bytes, days: float = DAYS) -> str:
    """Return the address of the form for a trace.

    Args:
        base: of the server, such as `https://traces.example.org`.
        trace_id: 32 hexadecimal digits.
        key: SHA-256 of a token of the project.
        days: for which the link is valid.

    Raises: UsageError for an invalid address, trace or number of days.
    """
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"the server's address is '{base[:80]}'; expected http://HOST:PORT or https://HOST")
    if _TRACE.fullmatch(trace_id) is None or not int(trace_id, 16):
        raise UsageError(f"the trace is '{trace_id[:40]}'; expected 32 hexadecimal digits")
    if not 0 < days <= MOST_DAYS:
        raise UsageError(f"the link is to be good for {days:g} days; expected more than 0 and at most {MOST_DAYS:g}")
    until = str(int(time.time() + 86_400 * days))
    hint = key[:HINT_BYTES].hex()
    query = {"trace": trace_id, "until": until, "key": hint, "signature": _signature(key, trace_id, until)}
    return f"{base.rstrip('/')}{FORM}?{urlencode(query)}"


def _signature(key: bytes, trace_id: str, until: str) -> str:
    derived = hmac.new(key, _PURPOSE, hashlib.sha256).digest()
    return hmac.new(derived, f"{trace_id} {until}".encode(), hashlib.sha256).hexdigest()


def read_link(
    get: Callable[[str], str], tokens: Callable[[bytes], Sequence[tuple[Token, bytes]]], now: float
) -> FeedbackLink | None:
    """Return the content of a link; None for one that is forged, has expired, or whose token was removed.

    Args:
        get: returns a parameter of its address, "" for a missing one.
        tokens: returns the tokens whose digest begins with these bytes, with their digests.
        now: seconds since 1970.
    """
    trace_id, until, hint, signature = (get(name) for name in ("trace", "until", "key", "signature"))
    is_formed = _TRACE.fullmatch(trace_id) and _EXPIRY.fullmatch(until) and len(hint) == 2 * HINT_BYTES
    if not is_formed or not (signature.isascii() and len(signature) == 64) or int(until) < now:
        return None
    try:
        start = bytes.fromhex(hint)
    except ValueError:
        return None
    for token, digest in tokens(start):
        if hmac.compare_digest(_signature(digest, trace_id, until), signature):
            query = urlencode({"trace": trace_id, "until": until, "key": hint, "signature": signature})
            return FeedbackLink(token.project, token.project_name, bytes.fromhex(trace_id), query, signature)
    return None
