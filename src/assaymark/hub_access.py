"""Check whether the Hub can be reached, once and briefly: its own library retries six times in half a minute.

Only a connection is tried, not a request, so a slow Hub counts as reachable. Without a connection the Hub's libraries
are set offline for one look-up and use their local cache.
"""

import selectors
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from queue import Empty, Queue
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

CONNECT_SECONDS = 2.5  # a lost first packet is sent again after one second
ASKED_AGAIN_SECONDS = 60
_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


@contextmanager
def hub_or_cache() -> Iterator[None]:
    """Within the block, the Hub's libraries use only their local cache if the Hub cannot be reached now."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or _is_reachable(constants.ENDPOINT, int(time.monotonic() / ASKED_AGAIN_SECONDS)):
        yield
        return
    readers = [constants]  # both check their own name before each request
    if "datasets.config" in sys.modules:
        readers.append(sys.modules["datasets.config"])
    before = [reader.HF_HUB_OFFLINE for reader in readers]
    for reader in readers:
        reader.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for reader, value in zip(readers, before, strict=True):
            reader.HF_HUB_OFFLINE = value


@lru_cache(maxsize=1)
def _is_reachable(endpoint: str, _minute: int) -> bool:
    """Return whether a connection to the Hub, or to the configured proxy, succeeds in time."""
    answers: Queue[bool] = Queue()
    host, port = _next_stop(endpoint)
    # A name server that does not respond blocks its caller without limit: hence a thread that may be abandoned.
    Thread(target=lambda: answers.put(_connects(host, port)), daemon=True).start()
    try:
        return answers.get(timeout=CONNECT_SECONDS)
    except Empty:
        return False


def _next_stop(endpoint: str) -> tuple[str, int]:
    """Return host and port of an address, or of the proxy configured for it in the environment."""
    address = urlsplit(endpoint)
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(address.hostname or ""):
        address = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return address.hostname or "", address.port or _PORTS.get(address.scheme, 80)


def _connects(host: str, port: int) -> bool:
    """Return whether any address of a host accepts a connection; all are tried at once, as some may be dead."""
    with ExitStack() as opened, selectors.DefaultSelector() as waiting, suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with suppress(OSError):  # an address family that this machine lacks
                connection = opened.enter_context(socket.socket(family, kind, protocol))
                connection.setblocking(False)
                connection.connect_ex(address)
                waiting.register(connection, selectors.EVENT_WRITE, connection)
        while waiting.get_map():
            ready = waiting.select(CONNECT_SECONDS)
            if not ready:
                return False
            for key, _ in ready:
                if key.data.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    return True
                waiting.unregister(key.data)
    return False
