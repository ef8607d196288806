"""Who sends a request: the address it comes from, and the visitor that a signed cookie recognises.

Headers of a proxy count only where the connection comes from a proxy that the operator named. IPv6 addresses are cut to
their /64 network, since one connection commonly has all of it.
"""

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request, Response

from assaymark.web.secret import Signer

__all__ = ["Clients", "Visitor", "network_of"]

COOKIE = "visitor"
COOKIE_SECONDS = 180 * 86_400


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser that keeps our cookie; nothing about the person behind it is known."""

    id: str  # 32 hexadecimal digits at random
    cookie: str  # the id with its signature
    is_new: bool  # whether the browser has yet to be given the cookie


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
        if peer in self._proxies:
            named = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",")]
            # from the right, as each proxy appends: the first address that no named proxy has
            peer = next((one for one in reversed(named) if one and one not in self._proxies), peer)
        return network_of(peer)

    def network_hash(self, request: Request) -> str:
        """Return a keyed hash of the network, 16 hexadecimal digits; "" if it is unknown.

        It is the same for all requests from a network, on this server only, and nobody can compute the address from it.
        """
        network = self.network(request)
        return self._networks.sign(network)[:16] if network else ""

    def is_secure(self, request: Request) -> bool:
        """Return whether the visitor's connection is encrypted."""
        peer = request.client.host if request.client else ""
        if peer in self._proxies:
            return request.headers.get("x-forwarded-proto", "").lower() == "https"
        return request.url.scheme == "https"

    def visitor(self, request: Request) -> Visitor:
        """Return the visitor that the cookie names, a new one without a cookie that we signed.

        Within one request the answer is the same, so that the form of a new visitor agrees with the cookie given.
        """
        known = getattr(request.state, "visitor", None)
        if isinstance(known, Visitor):
            return known
        cookie = request.cookies.get(COOKIE, "")
        name, _, signature = cookie.partition(".")
        if len(name) == 32 and self._signer.is_signed(name, signature):
            found = Visitor(name, cookie, is_new=False)
        else:
            name = secrets.token_hex(16)
            found = Visitor(name, f"{name}.{self._signer.sign(name)}", is_new=True)
        request.state.visitor = found
        return found

    def remember(self, request: Request, response: Response) -> None:
        """Give a new visitor the cookie."""
        visitor = self.visitor(request)
        if visitor.is_new:
            response.set_cookie(
                COOKIE,
                visitor.cookie,
                max_age=COOKIE_SECONDS,
                httponly=True,
                samesite="lax",
                secure=self.is_secure(request),
            )


def network_of(address: str) -> str:
    """Return an IPv4 address as it is, the /64 network of an IPv6 one, and "" for anything else."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
