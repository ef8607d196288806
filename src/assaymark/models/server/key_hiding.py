"""Remove API keys from everything that a server sends, before any of it is truncated, stored or shown.

Servers repeat keys: in errors ("Incorrect API key provided: ..."), in headers, in generated text. A key is replaced
wherever it occurs in full. A beginning of it, left when the server or a limit truncated the text, is replaced from 6
characters on. Keys must be removed before our own truncation: a search for the full key cannot find a truncated one.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

__all__ = ["HIDDEN", "NO_KEYS", "KeyHider"]

HIDDEN = "(key)"
SHORTEST = 6  # characters; shorter "keys" are words like EMPTY or none, for servers that need no key
# Loggers of response headers and reason phrases at level DEBUG. A logger's filter does not see its children's records.
LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks")


@dataclass(frozen=True)
class KeyHider:
    """Removes some keys. Keys of fewer than 6 characters are not secrets and stay."""

    keys: tuple[str, ...] = field(default=(), repr=False)

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        """The keys to search for, the longest first, since one may be the beginning of another."""
        return tuple(sorted({key for key in self.keys if len(key) >= SHORTEST}, key=len, reverse=True))

    @cached_property
    def _signs(self) -> tuple[str, ...]:
        """Texts of which JSON must contain one if a string in it contains a key: its beginning, or an ASCII escape."""
        heads = {json.dumps(key[:SHORTEST])[1:-1] for key in self._keys}
        return (*heads, "\\u00", "\\/") if heads else ()

    def text(self, text: str) -> str:
        """Return a text without the keys."""
        for key in self._keys:
            text = _without(text, key)
        return text

    def value(self, found: Any) -> Any:
        """Return a JSON value with the keys removed from all strings, names included."""
        if isinstance(found, str):
            return self.text(found)
        if isinstance(found, list):
            return [self.value(each) for each in found]
        if isinstance(found, dict):
            return {self.text(name): self.value(each) for name, each in found.items()}
        return found

    def may_be_in(self, text: str) -> bool:
        """Return whether strings of this JSON text may contain a key: a quick check before `value`."""
        return any(sign in text for sign in self._signs)

    @contextmanager
    def in_logs(self) -> Iterator[None]:
        """Remove the keys from the HTTP client's logs, which contain the server's headers at level DEBUG."""

        def without_keys(record: logging.LogRecord) -> bool:
            record.msg, record.args = self.text(record.getMessage()), ()
            return True

        loggers = [logging.getLogger(name) for name in LOGGERS]
        for logger in loggers:
            logger.addFilter(without_keys)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(without_keys)


def _without(text: str, key: str) -> str:
    """Return the text without the key, and without a beginning of it that ends at a word's end."""
    pieces: list[str] = []
    head, done, start = key[:SHORTEST], 0, text.find(key[:SHORTEST])
    while start >= 0:
        pairs = zip(key, text[start : start + len(key)], strict=False)
        end = start + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        is_whole = end - start == len(key)
        if is_whole or end == len(text) or not (text[end].isalnum() or text[end] in "_-"):
            pieces += [text[done:start], HIDDEN]
            done = end
        start = text.find(head, max(done, start + 1))
    return "".join([*pieces, text[done:]])


NO_KEYS = KeyHider()
