"""An httpx transport that connects to public addresses only, whatever name a URL has.

Each request's host is resolved once; the connection goes to the address that was checked, while the Host header, SNI
and the certificate's check keep the name. So a name server that answers differently a moment later changes nothing, and
redirects, if a client follows them, are checked alike.
"""

import threading
from collections.abc import Sequence
from ssl import SSLContext

import httpx

from assaymark.limits.addresses import Network, NotPublic, Resolver, checked_addresses, resolved

_MOST_HOSTS = 64  # whose connections are kept open


class RefusedAddress(httpx.ConnectError):
    """A request was not sent: its host is not at a public address."""


class PublicTransport(httpx.BaseTransport):
    """Sends requests to checked addresses.

    A client takes it as `httpx.Client(transport=PublicTransport(), trust_env=False)`: proxies of the environment would
    resolve the name themselves. Connections are kept for each host apart, because one that was verified for a name must
    not carry requests for another at the same address.
    """

    def __init__(
        self,
        resolve: Resolver = resolved,
        allowed: Sequence[Network] = (),
        *,
        verify: SSLContext | bool = True,
        limits: httpx.Limits | None = None,
    ) -> None:
        self._resolve, self._allowed = resolve, tuple(allowed)
        self._verify, self._limits = verify, limits or httpx.Limits()
        self._by_host: dict[str, httpx.HTTPTransport] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to a checked address of its host.

        Raises: RefusedAddress; httpx.ConnectError for a name that cannot be resolved; what httpx raises.
        """
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            addresses = checked_addresses(url.host, port, self._resolve, self._allowed)
        except NotPublic as refused:
            raise RefusedAddress(str(refused), request=request) from None
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(f"{url.host} cannot be resolved: {error}", request=request) from error
        transport = self._transport_of(url.raw_host.decode("ascii"))
        extensions = {**request.extensions, "sni_hostname": url.raw_host.decode("ascii")}
        for position, address in enumerate(addresses):
            # the request has its Host header already: changing the URL changes only where it is sent
            sent = httpx.Request(
                request.method, url.copy_with(host=address.partition("%")[0]), headers=request.headers,
                stream=request.stream, extensions=extensions,
            )  # fmt: skip
            try:
                return transport.handle_request(sent)
            except (httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent
                if position == len(addresses) - 1:
                    raise
        raise AssertionError("a resolved host has an address")

    def _transport_of(self, host: str) -> httpx.HTTPTransport:
        with self._lock:
            transport = self._by_host.get(host)
            if transport is None:
                transport = httpx.HTTPTransport(verify=self._verify, trust_env=False, limits=self._limits)
                self._by_host[host] = transport
                if len(self._by_host) > _MOST_HOSTS:
                    oldest = next(iter(self._by_host))
                    # not closed here, as requests may be under way; its connections end with the last of them
                    self._by_host.pop(oldest)
            return transport

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            transports = list(self._by_host.values())
            self._by_host.clear()
        for transport in transports:
            transport.close()
