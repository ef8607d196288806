"""Who may submit, vote and moderate: a token that this server signed, or the user that a named proxy has signed in.

A token holds a name, a role and an end, and is verified by its signature: neither tokens nor passwords are stored. A
moderator can revoke a token by its id. In a browser it is kept in a cookie that scripts cannot read. Readers need no
account.
"""

import base64
import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from fastapi import HTTPException, Request, Response

from assaymark.errors import UsageError
from assaymark.web.secret import Signer

Role = Literal["submitter", "moderator"]
ROLES = ("submitter", "moderator")
COOKIE = "account"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
LONGEST_TOKEN = 500
PREFIX, FORMER_PREFIX = "asm_", "evs_"  # tokens with the former one are valid until they end


@dataclass(frozen=True, slots=True)
class Account:
    """The account that sends a request."""

    name: str
    role: Role
    token: str = ""  # its id; empty where a proxy signed the user in
    ends: float = 0.0  # seconds since 1970; 0: with the proxy's session

    @property
    def is_moderator(self) -> bool:
        """Whether it may moderate."""
        return self.role == "moderator"


class AccountTokens:
    """Makes and reads tokens."""

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._signer = Signer(secret, "account")
        self._clock = clock

    def make(self, name: str, role: str, days: float) -> str:
        """Return a new token. Raises: UsageError for an invalid name, role or period."""
        if not NAME.fullmatch(name):
            raise UsageError(f"'{name[:80]}' is not a name of an account; expected letters, digits and . _ @ + -")
        if role not in ROLES:
            raise UsageError(f"role '{role}'; expected one of {', '.join(ROLES)}")
        if not 0 < days <= 3650:
            raise UsageError(f"a token of {days:g} days; expected more than 0 and at most 3650")
        fields = {"id": secrets.token_hex(8), "name": name, "role": role, "ends": int(self._clock() + days * 86400)}
        body = base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode()).decode().rstrip("=")
        return f"{PREFIX}{body}.{self._signer.sign(body)}"

    def read(self, token: str) -> Account | None:
        """Return the account of a token; None for a token that was not signed here, or has ended."""
        body, _, signature = token.removeprefix(PREFIX).removeprefix(FORMER_PREFIX).partition(".")
        if not token.startswith((PREFIX, FORMER_PREFIX)) or len(token) > LONGEST_TOKEN:
            return None
        if not self._signer.is_signed(body, signature):
            return None
        fields = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if fields["ends"] <= self._clock():
            return None
        return Account(fields["name"], cast("Role", fields["role"]), fields["id"], float(fields["ends"]))


class Accounts:
    """Recognises accounts of requests."""

    def __init__(
        self,
        tokens: AccountTokens,
        is_revoked: Callable[[str], bool],
        *,
        user_header: str = "",
        proxies: Sequence[str] = (),
        moderators: Sequence[str] = (),
    ) -> None:
        """Args: tokens; is_revoked: of a token's id; user_header: in which named proxies pass the signed-in user."""
        self._tokens = tokens
        self._is_revoked = is_revoked
        self._header = user_header
        self._proxies = frozenset(proxies)
        self._moderators = frozenset(moderators)

    def of(self, request: Request) -> Account | None:
        """Return the account of a request, None for a reader.

        Raises: HTTPException 401 for a token in the Authorization header that is not valid.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme:
            account = self.of_token(token.strip()) if scheme.lower() == "bearer" else None
            if account is None:
                raise HTTPException(401, "this token is not valid here, has ended or was revoked; ask for a new one")
            return account
        if (account := self._of_proxy(request)) is not None:
            return account
        return self.of_token(request.cookies.get(COOKIE, ""))

    def of_token(self, token: str) -> Account | None:
        """Return the account of a token, None if it is not valid."""
        account = self._tokens.read(token) if token else None
        return None if account is None or self._is_revoked(account.token) else account

    def _of_proxy(self, request: Request) -> Account | None:
        peer = request.client.host if request.client else ""
        named = request.headers.getlist(self._header) if self._header and peer in self._proxies else []
        # a second line: the proxy adds its header to the visitor's own, so neither can be believed
        name = named[0].strip() if len(named) == 1 else ""
        if not NAME.fullmatch(name):
            return None
        return Account(name, "moderator" if name in self._moderators else "submitter")

    def need(self, request: Request) -> Account:
        """Return the account of a request. Raises: HTTPException 401."""
        account = self.of(request)
        if account is None:
            raise HTTPException(
                401, "sign in first (/sign-in) with the token that the host of this leaderboard gave you"
            )
        return account

    def need_moderator(self, request: Request) -> Account:
        """Return the account of a moderator. Raises: HTTPException 401 or 403."""
        account = self.need(request)
        if not account.is_moderator:
            raise HTTPException(403, "only moderators may do this")
        return account

    def remember(self, response: Response, token: str, account: Account, *, secure: bool) -> None:
        """Keep a token in the browser until it ends."""
        seconds = max(1, int(account.ends - time.time()))
        response.set_cookie(COOKIE, token, max_age=seconds, httponly=True, samesite="lax", secure=secure)
