"""Requests that send data to the server: their permitted origins, and parsing of their bodies.

A request that changes something must come from a page of this server: browsers say so in Sec-Fetch-Site and Origin, and
a form carries a token that belongs to the visitor's cookie, which another site can neither read nor set. A visitor
without a cookie gets a token for his network and half a day, which names him once he sends it. Programs that send the
`Authorization` header of a bearer need no token: browsers add `Basic` by themselves, and that one never.
"""

import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, HTTPException, Request
from starlette.requests import ClientDisconnect

from assaymark.limits.characters import is_storable
from assaymark.limits.nesting import json_kind
from assaymark.records import JsonValue
from assaymark.web.clients import Clients
from assaymark.web.secret import Signer

FIELD = "token"  # of a form: what `Posts.token` returned
MOST_FIELDS = 200
FIRST_LENGTH = 32 + 8 + 64  # visitor, hour and signature
NEW_HOURS = 12  # the life of a token of a visitor without a cookie
FORM_TYPE = "application/x-www-form-urlencoded"
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Posted:
    """The fields of a form or of a JSON object; names may repeat in a form."""

    fields: Mapping[str, Sequence[JsonValue]]
    is_json: bool

    def text(self, name: str) -> str:
        """Return a field's text without spaces around it, "" if it was not sent.

        Raises: HTTPException 400 for a value that is not a text.
        """
        values = self.fields.get(name, ())
        value = values[0] if values else ""
        if not isinstance(value, str):
            raise HTTPException(400, f"'{name}' is {type(value).__name__}; expected text")
        return value.strip()

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all texts of a field. Raises: HTTPException 400 for a non-text."""
        values = self.fields.get(name, ())
        texts = tuple(value for value in values if isinstance(value, str))
        if len(texts) < len(values):
            raise HTTPException(400, f"'{name}' holds something other than text")
        return texts


class Posts:
    """Makes and checks the tokens of forms."""

    def __init__(self, secret: bytes, clients: Clients) -> None:
        self._signer = Signer(secret, "form")
        self._new = Signer(secret, "first form")
        self._clients = clients

    def token(self, request: Request) -> str:
        """Return the token for a form on the page that answers `request`."""
        visitor = self._clients.visitor(request)
        if not visitor.is_new:
            return self._signer.sign(visitor.id)
        hour = int(time.time() // 3600)
        return f"{visitor.id}{hour:08x}{self._new.sign(self._facts(request, visitor.id, hour))}"

    def _facts(self, request: Request, visitor: str, hour: int) -> str:
        return f"{visitor} {hour} {self._clients.network(request)}"

    def _new_visitor(self, request: Request, token: str) -> str:
        """Return the visitor named by the token of a form without a cookie; "" for an invalid or expired token."""
        name, hour, signature = token[:32], token[32:40], token[40:]
        if not (len(token) == FIRST_LENGTH and token.isascii() and token.isalnum()):
            return ""
        try:
            issued = int(hour, 16)
        except ValueError:
            return ""
        is_recent = 0 <= time.time() // 3600 - issued <= NEW_HOURS
        return name if is_recent and self._new.is_signed(self._facts(request, name, issued), signature) else ""

    def check(self, request: Request, posted: Posted) -> None:
        """Raises: HTTPException 403 unless the form's token is the visitor's, or a program identifies itself."""
        token = request.headers.get("x-form-token") or posted.text(FIELD)
        visitor = self._clients.visitor(request)
        if visitor.is_new and (named := self._new_visitor(request, token)):
            self._clients.adopt(request, named)
        elif request.headers.get("authorization", "").lower().startswith("bearer "):
            return
        # the first token stays valid with the cookie: whoever knows the visitor's number has read his page
        elif visitor.is_new or not (_begins_with(token, visitor.id) or self._signer.is_signed(visitor.id, token)):
            raise HTTPException(403, "this browser did not load this form; load its page again, with cookies allowed")


def _begins_with(token: str, name: str) -> bool:
    return len(token) == FIRST_LENGTH and hmac.compare_digest(token[:32].encode(errors="replace"), name.encode())


def check_origin(request: Request) -> None:
    """Raises: HTTPException 403 for a request that a page of another site made."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "").lower()
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() != host
    if is_foreign or request.headers.get("sec-fetch-site") not in {None, "same-origin", "none"}:
        raise HTTPException(403, "requests from other sites may not change anything here")


async def read_form(request: Request) -> Posted:
    """Return the submitted fields after all checks; the visitor's cookie and the form's token agree.

    Raises: HTTPException 400, 403, 413 or 415.
    """
    posted = await read_signed_form(request)
    posts: Posts = request.app.state.posts
    posts.check(request, posted)
    return posted


async def read_signed_form(request: Request) -> Posted:
    """Return the submitted fields of a form with a signed address, after all checks but that of a visitor's token.

    Such a form works without cookies, as inside a page of another site. Whoever has its address may send it: the route
    checks the signature, and a site that knows the address gains nothing by using a visitor's browser.

    Raises: HTTPException 400, 403, 413 or 415.
    """
    check_origin(request)
    try:
        body = await request.body()
    except ClientDisconnect as error:
        raise HTTPException(413, "the body is too large or was not sent whole") from error
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {FORM_TYPE, JSON_TYPE}:
        raise HTTPException(415, f"content type '{kind[:100]}'; expected {FORM_TYPE} or {JSON_TYPE}")
    posted = _read_json(body) if kind == JSON_TYPE else _read_fields(body)
    if not _is_storable(posted.fields):
        raise HTTPException(400, "a text has NUL or half a surrogate pair, which is not a character; send Unicode text")
    return posted


Form = Annotated[Posted, Depends(read_form)]
"""The parameter of a route that takes a form: `def vote(request: Request, form: Form) -> Response`."""

SignedForm = Annotated[Posted, Depends(read_signed_form)]
"""The same for a form whose address is signed; the route checks the signature."""


def _read_fields(body: bytes) -> Posted:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from error
    by_name: dict[str, list[object]] = {}
    for name, value in pairs:
        by_name.setdefault(name, []).append(value)
    return Posted(by_name, is_json=False)


def _is_storable(value: object) -> bool:
    """Return whether a database can store all texts in a form's fields, at any depth, including names."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str) and not is_storable(here):
            return False
        if isinstance(here, Mapping):
            waiting += [*here.keys(), *here.values()]
        elif isinstance(here, list):
            waiting += here
    return True


def _read_json(body: bytes) -> Posted:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the body is not valid JSON") from error
    if not isinstance(content, dict):
        raise HTTPException(400, f"the body is a JSON {json_kind(content)}; expected an object")
    return Posted(
        {name: value if isinstance(value, list) else [value] for name, value in content.items()}, is_json=True
    )
