"""Addresses that a server must not contact for others: its own machine, its network, its provider's metadata service.

Whoever may name a URL that this program calls (an endpoint under evaluation, a webhook) could otherwise read what only
this machine can reach. A name is resolved once, all of its addresses are checked, and the caller connects to a checked
address, not to the name: a second look-up could answer differently. `models.server.public_only` does that for httpx.
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Sequence[str]]
"""Host and port -> its addresses. Raises: OSError for a name that cannot be resolved."""

# Addresses of metadata services outside of the ranges below: Azure's is a public one
_METADATA = frozenset({ip_address("169.254.169.254"), ip_address("168.63.129.16"), ip_address("fd00:ec2::254"),
                       ip_address("100.100.100.200"), ip_address("192.0.0.192")})  # fmt: skip
_SHARED = ip_network("100.64.0.0/10")  # of carriers (RFC 6598)
_UNIQUE_LOCAL = ip_network("fc00::/7")  # RFC 4193
_SITE_LOCAL = ip_network("fec0::/10")  # deprecated by RFC 3879, and routed by some still
_COMPATIBLE = ip_network("::/96")  # an IPv4 address in the last 32 bits, deprecated by RFC 4291
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))  # NAT64: RFC 6052, RFC 8215


class NotPublic(ValueError):
    """A host is at an address that must not be contacted. The text says which and why."""


def resolved(host: str, port: int) -> tuple[str, ...]:
    """Return a host's addresses by the system's resolver, each once. Raises: OSError."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in entries))


def checked_addresses(
    host: str, port: int, resolve: Resolver = resolved, allowed: Sequence[Network] = ()
) -> tuple[str, ...]:
    """Resolve a host once and return its addresses, all of which are public.

    One private address among public ones refuses the host: whoever answers for the name chose both.

    Args:
        host: a name or an address, in any form that the system's resolver reads (`0x7f.1`, `2130706433`).
        resolve: looks a name up.
        allowed: networks that may be contacted although they are not public: an operator's exceptions.

    Raises: NotPublic; OSError for a name that cannot be resolved.
    """
    addresses = tuple(resolve(host, port))
    if not addresses:
        raise OSError(f"{host} has no address")
    for text in addresses:
        why = why_not_public(text, allowed)
        if why is not None:
            where = text if text == host else f"{host} ({text})"
            raise NotPublic(f"{where} is {why}; expected a public address")
    return addresses


def why_not_public(text: str, allowed: Sequence[Network] = ()) -> str | None:
    """Return the kind of an address that is not public; None where it may be contacted.

    IPv4 addresses inside of IPv6 ones (mapped, 6to4, Teredo, NAT64) are judged as what they lead to.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return f"{text!r:.60}, which is not an address"
    if any(address.version == network.version and address in network for network in allowed):
        return None
    return _kind(address)


def _kind(address: Address) -> str | None:
    if address in _METADATA:
        return "the address of a cloud's metadata service"
    if address.is_unspecified:
        return "the unspecified address, which is this machine"
    if address.is_loopback and getattr(address, "ipv4_mapped", None) is None:  # Python 3.13 says so of mapped ones too
        return "a loopback address: this machine itself"
    if isinstance(address, IPv6Address):
        embedded = _embedded(address)
        if embedded:
            kinds = [kind for each in embedded if (kind := _kind(each)) is not None]
            return f"an IPv6 form of {embedded[0]}, {kinds[0]}" if kinds else None
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast:
        return "a multicast address"
    own = (_SHARED, _UNIQUE_LOCAL, _SITE_LOCAL)
    if address.is_private or any(address.version == network.version and address in network for network in own):
        return "a private address"
    return None if address.is_global else "a reserved address"


def _embedded(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address leads to; none for a plain one."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo[1], address.teredo[0]  # the client's, and that of the server between
    if address in _COMPATIBLE or any(address in network for network in _TRANSLATED):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()
