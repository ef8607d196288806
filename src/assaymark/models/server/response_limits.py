"""Response bodies read as a stream and within limits, so that no server can exhaust this machine's memory.

Three things are limited: the bytes received, the bytes they decompress to, and the nesting depth of the JSON. The
caller limits the time of a response. httpx would decompress a whole chunk at a time (64 KiB of gzip may be 64 MiB of
zeros), so bytes are decompressed here, never past the limit. Only gzip and deflate are accepted, as `ACCEPT_ENCODING`
states.
"""

import json
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from assaymark.errors import MalformedAnswer
from assaymark.limits.nesting import is_deeper
from assaymark.models.server.failures import NO_KEYS, HttpFailure, KeyHider

ACCEPT_ENCODING = "gzip, deflate"
MIB = 1 << 20
QUOTED_BYTES = 64 * 1024  # of an error's body, which is only quoted
GZIP = zlib.MAX_WBITS | 16
LATIN_1 = {"iso-8859-1", "iso8859-1", "latin-1", "latin1", "us-ascii", "ascii"}


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Limits of one response.

    max_mib: MiB as received, and again as decompressed. max_depth: nested arrays and objects of its JSON.
    """

    max_mib: int = 32  # the log-probabilities of 128,000 tokens need about 15
    max_depth: int = 100


class ResponseBody:
    """The body of one response: call `add` for each chunk while it returns True, then read `content`.

    With `for_quoting` only the beginning is stored, and a longer body is truncated instead of refused.
    """

    def __init__(self, headers: Mapping[str, str], limits: ResponseLimits, *, for_quoting: bool = False) -> None:
        self._limits = limits
        self._most = QUOTED_BYTES if for_quoting else limits.max_mib * MIB
        self._is_cut_at_limit = for_quoting
        self._n_received = 0
        self._content = bytearray()
        charset = re.search(r"charset=\"?([\w.:-]+)", headers.get("content-type", ""), re.IGNORECASE)
        self._charset = charset[1].lower() if charset else "utf-8"
        self._encoding = headers.get("content-encoding", "identity").strip().lower() or "identity"
        self._decompressor: zlib._Decompress | None = None
        if self._encoding not in ("identity", "gzip", "x-gzip", "deflate"):
            raise HttpFailure(
                MalformedAnswer,
                f"the response has Content-Encoding {self._encoding[:40]!r}; accepted are {ACCEPT_ENCODING}",
            )

    @property
    def content(self) -> bytes:
        """The body, decompressed; in UTF-8 where it is not and its headers name the encoding."""
        content = bytes(self._content)
        try:
            content.decode()
        except UnicodeDecodeError:
            # browsers read these names so (WHATWG Encoding): servers that state Latin-1 send ’ as 0x92
            charset = "cp1252" if self._charset in LATIN_1 else self._charset
            with suppress(LookupError, UnicodeDecodeError):  # of no known name, or not what it is
                return content.decode(charset).encode()
        return content

    @property
    def text(self) -> str:
        """The body as text, to be quoted."""
        return self.content.decode("utf-8-sig", "replace")

    def add(self, chunk: bytes) -> bool:
        """Add bytes as received; return whether more are needed.

        Raises: HttpFailure for a body that is over a limit or cannot be decompressed.
        """
        self._n_received += len(chunk)
        if self._n_received > self._most and not self._is_cut_at_limit:
            raise self._too_large("as received")
        try:
            self._decompress(chunk)
        except zlib.error as error:
            if self._is_cut_at_limit:
                return False
            raise HttpFailure(MalformedAnswer, f"the response is not valid {self._encoding} ({error})") from None
        if len(self._content) <= self._most:
            return not self._is_cut_at_limit or self._n_received <= self._most
        if not self._is_cut_at_limit:
            raise self._too_large("decompressed")
        del self._content[self._most :]
        return False

    def _decompress(self, chunk: bytes) -> None:
        """Append the decompressed chunk, at most one byte past the limit."""
        if self._encoding == "identity":
            self._content += chunk
            return
        if self._decompressor is None:
            self._decompressor = zlib.decompressobj(self._window_bits(chunk))
        capacity = self._most + 1 - len(self._content)  # at least 1: 0 would mean no limit to zlib
        self._content += self._decompressor.decompress(chunk, capacity)

    def _window_bits(self, chunk: bytes) -> int:
        """Return zlib's code of the format; "deflate" is sent with and without zlib's header."""
        if self._encoding != "deflate":
            return GZIP
        has_header = len(chunk) < 2 or (chunk[0] & 15 == zlib.DEFLATED and (chunk[0] << 8 | chunk[1]) % 31 == 0)
        return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS

    def _too_large(self, state: str) -> HttpFailure:
        return HttpFailure(
            MalformedAnswer,
            f"the response has more than {self._limits.max_mib} MiB {state}; allow more with max_response_mib=",
        )


def decoded(content: bytes) -> str:
    """Return a body as text. Raises: HttpFailure if it is not UTF-8 (or UTF-16 or 32): letters would be lost."""
    try:
        return content.decode(json.detect_encoding(content))
    except UnicodeDecodeError as error:
        raise HttpFailure(
            MalformedAnswer,
            f"the answer is not UTF-8 (byte {error.object[error.start]:#04x} at {error.start:,}), and its headers name "
            "no encoding that it is in; the server has to send UTF-8, or charset= in Content-Type",
        ) from None


def parse_json(content: bytes, limits: ResponseLimits, keys: KeyHider = NO_KEYS) -> tuple[object, bool]:
    """Return the value of a JSON document without the keys, and whether it contained one.

    Raises: HttpFailure if it is not UTF-8, is nested deeper than the limit, or is not JSON.
    """
    text = decoded(content)
    if is_deeper(text, limits.max_depth):
        raise HttpFailure(
            MalformedAnswer,
            f"the response is nested deeper than {limits.max_depth} levels; allow more with max_response_depth=",
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        beginning = keys.text(text)[:80]
        raise HttpFailure(MalformedAnswer, f"the answer is not JSON; it begins {beginning!r}") from None
    if not keys.may_be_in(text):
        return value, False
    without = keys.value(value)
    return without, without != value
