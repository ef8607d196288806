"""Who sends a request: its network address, and the visitor named by a signed cookie.

Reading sets no cookie: visitors get one with the answer to the first form that they send, whose token names them.
Headers of a proxy count only if the connection comes from a proxy that the operator named. IPv6 addresses are cut to
their /64 network, since one connection commonly has all of it.
"""

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assaymark.web.secret import Signer

COOKIE = "visitor"
COOKIE_SECONDS = 180 * 86_400


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser that keeps our cookie; nothing is known about its user."""

    id: str  # 32 hexadecimal digits at random
    cookie: str  # the id with its signature
    is_new: bool  # whether the browser has yet to be given the cookie
    is_named: bool = False  # whether a form's token named a new visitor


class Clients:
    """Recognises visitors and addresses."""

    def __init__(self, secret: bytes, proxies: Sequence[str] = ()) -> None:
        """Args: secret: of the server; proxies: addresses whose X-Forwarded-For and X-Forwarded-Proto are believed."""
        self._signer = Signer(secret, "visitor")
        self._networks = Signer(secret, "network")
        self._proxies = frozenset(proxies)

    def network(self, request: Request) -> str:
        """Return the network a request comes from: an IPv4 address, or the /64 of an IPv6 one; "" if unknown."""
        peer = request.client.host if request.client else ""
        # some proxies add a line of their own to those that the visitor sent
        return network_behind(peer, ",".join(request.headers.getlist("x-forwarded-for")), self._proxies)

    def network_hash(self, request: Request) -> str:
        """Return a keyed hash of the network, 16 hexadecimal digits; "" if it is unknown.

        It is the same for all requests from a network, on this server only, and nobody can compute the address from it.
        """
        network = self.network(request)
        return self._networks.sign(network)[:16] if network else ""

    def is_secure(self, request: HTTPConnection) -> bool:
        """Return whether the visitor's connection is encrypted."""
        peer = request.client.host if request.client else ""
        if peer in self._proxies:
            return request.headers.get("x-forwarded-proto", "").lower() == "https"
        return request.url.scheme == "https"

    def visitor(self, request: Request) -> Visitor:
        """Return the visitor that the cookie names, or a new one if there is no cookie signed by this server.

        The result is the same throughout one request, so that a new visitor's form matches the cookie.
        """
        known = getattr(request.state, "visitor", None)
        if isinstance(known, Visitor):
            return known
        cookie = request.cookies.get(COOKIE, "")
        name, _, signature = cookie.partition(".")
        if len(name) == 32 and self._signer.is_signed(name, signature):
            visitor = Visitor(name, cookie, is_new=False)
        else:
            name = secrets.token_hex(16)
            visitor = Visitor(name, f"{name}.{self._signer.sign(name)}", is_new=True)
        request.state.visitor = visitor
        return visitor

    def adopt(self, request: Request, name: str) -> None:
        """Identify a new visitor with the one named by the form's token; the answer sets the cookie."""
        request.state.visitor = Visitor(name, f"{name}.{self._signer.sign(name)}", is_new=True, is_named=True)

    def cookie_header(self, connection: HTTPConnection, visitor: Visitor) -> str:
        """Return the header that sets a visitor's cookie."""
        secure = "; Secure" if self.is_secure(connection) else ""
        return f"{COOKIE}={visitor.cookie}; HttpOnly; Max-Age={COOKIE_SECONDS}; Path=/; SameSite=lax{secure}"


class RememberVisitors:
    """Sets the cookie with the answer to a visitor's first form."""

    def __init__(self, app: ASGIApp, clients: Clients) -> None:
        self._app, self._clients = app, clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def remembering(message: Message) -> None:
            visitor = scope.get("state", {}).get("visitor")
            if message["type"] == "http.response.start" and isinstance(visitor, Visitor) and visitor.is_named:
                cookie = self._clients.cookie_header(HTTPConnection(scope), visitor)
                message = {**message, "headers": [*message["headers"], (b"set-cookie", cookie.encode())]}
            await send(message)

        if scope["type"] == "http":
            scope.setdefault("state", {})
        await self._app(scope, receive, remembering)


def network_behind(peer: str, forwarded_for: str, proxies: frozenset[str]) -> str:
    """Return the network a request comes from.

    Args:
        peer: the address of the connection.
        forwarded_for: the header, which is believed only if the peer is one of `proxies`.
        proxies: addresses of proxies.
    """
    if peer in proxies:
        named = [part.strip() for part in forwarded_for.split(",")]
        # from the right, as each proxy appends: the first address that no named proxy has
        peer = next((address for address in reversed(named) if address and address not in proxies), peer)
    return network_of(peer)


def network_of(address: str) -> str:
    """Return an IPv4 address as it is, the /64 network of an IPv6 one, and "" for anything else."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
