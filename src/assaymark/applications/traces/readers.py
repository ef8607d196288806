"""Access to traces: reading a project needs a token of it, in a header or named by a cookie."""

from fastapi import HTTPException, Request, Response

from assaymark.applications.traces.receiver import bearer_of
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import Token
from assaymark.store import Store
from assaymark.web.secret import Signer, server_secret

COOKIE = "traces"
COOKIE_SECONDS = 30 * 86_400


class SignInFirst(HTTPException):
    """The visitor has yet to show a token."""


class Readers:
    """Finds the rights of requests."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._signer = Signer(server_secret(), "traces")

    def of(self, request: Request) -> Token | None:
        """Return the rights of a request's token; None without a valid one. Raises: HTTPException 401, 403."""
        if text := bearer_of(request):
            token = TraceLog(self._store).token(text)
            if token is None:
                raise HTTPException(401, "this token is not valid here or was removed", {"www-authenticate": "Bearer"})
            if token.scope != "all":
                raise HTTPException(403, "this token stores spans and reads nothing; use another of the project")
            return token
        name, _, signature = request.cookies.get(COOKIE, "").partition(".")
        if not name or not self._signer.is_signed(name, signature):
            return None
        token = TraceLog(self._store).token_of_id(name)
        return token if token is not None and token.scope == "all" else None

    def remember(self, response: Response, token: Token, *, secure: bool) -> None:
        """Set the cookie that names the token."""
        cookie = f"{token.id}.{self._signer.sign(token.id)}"
        response.set_cookie(COOKIE, cookie, max_age=COOKIE_SECONDS, httponly=True, samesite="lax", secure=secure)

    def need(self, request: Request) -> Token:
        """Return the rights of a request's token. Raises: SignInFirst without one, HTTPException 401, 403."""
        token = self.of(request)
        if token is None:
            raise SignInFirst(401, "show a token of the project: in a browser at /traces/sign-in, else in the header "
                                   "Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})  # fmt: skip
        return token


def private(response: Response) -> Response:
    """Keep a page out of shared caches."""
    response.headers["cache-control"] = "private, no-store"
    return response
