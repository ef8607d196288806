"""Packing of texts and hashes as bytes for the database, without loss for every Python string.

A packed text is one byte for the encoding, then the text: plain UTF-8, or compressed with zlib if that is shorter. The
columns are bytes and not TEXT, because PostgreSQL refuses NUL in TEXT and neither database accepts a lone surrogate,
and both occur in generated texts. A packed hash is one byte for the algorithm, then 32 bytes.
"""

import hashlib
import json
import re
import zlib
from binascii import hexlify, unhexlify
from typing import Any

from assaymark.errors import HashMismatch, StoreError

PLAIN, ZLIB = b"\x00", b"\x01"
OTHER_KEY, SHA256 = b"\x00", b"\x01"
WORTH_COMPRESSING = 96  # bytes; for shorter texts zlib's header exceeds the gain
LOOKED_AT = 4096  # bytes of a text without a space, from which it is taken for an image in base64
LONGEST_TEXT = 128 * 2**20  # bytes of one text; a file from elsewhere may have texts that unpack to gigabytes
_PREFIX = "sha256:"
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")  # characters that PostgreSQL or UTF-8 do not accept

to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def text_bytes(text: str) -> bytes:
    """Return the text as UTF-8, with lone surrogates encoded too."""
    return text.encode("utf-8", "surrogatepass")


def text_digest(text: str) -> bytes:
    """Return the SHA-256 under which a text is stored: 32 bytes."""
    return hashlib.sha256(text_bytes(text)).digest()


def shown_text(text: str) -> str:
    """Return a text for a column of type TEXT: characters that it cannot store become U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return _NO_TEXT.sub("\ufffd", text)


def pack_text(text: str) -> bytes:
    """Return the stored form of a text.

    Raises: StoreError for one that `unpack_text` would refuse.
    """
    raw = text_bytes(text)
    if len(raw) > LONGEST_TEXT:
        raise StoreError(f"a text to store has {len(raw):,} bytes; expected at most {LONGEST_TEXT:,}: shorten it")
    if len(raw) >= WORTH_COMPRESSING:
        small = _compressed(raw)
        if len(small) < len(raw):
            return ZLIB + small
    return PLAIN + raw


def _compressed(raw: bytes) -> bytes:
    """Compress a text; an image in base64 has no repetitions to look for, which would take ten times as long."""
    if len(raw) < LOOKED_AT or b" " in raw or b"\n" in raw:
        return zlib.compress(raw, 6)
    stream = zlib.compressobj(6, strategy=zlib.Z_HUFFMAN_ONLY)
    return stream.compress(raw) + stream.flush()


def unpack_text(packed: bytes) -> str:
    """Return the text of a stored form.

    Raises: HashMismatch if the bytes are not a packed text, or one longer than LONGEST_TEXT.
    """
    coding, body = packed[:1], packed[1:]
    try:
        if coding == ZLIB:
            body = _decompressed(body)
        elif coding != PLAIN:
            raise HashMismatch(
                f"a stored text begins with {coding!r}; expected 0 (plain) or 1 (zlib): verify the store"
            )
        return body.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError) as error:
        raise HashMismatch(f"a stored text cannot be read: {error}; `assaymark verify` shows its run") from error


def _decompressed(body: bytes) -> bytes:
    """Decompress a text with zlib, but no more than LONGEST_TEXT bytes."""
    stream = zlib.decompressobj()
    whole = stream.decompress(body, LONGEST_TEXT + 1)
    if len(whole) > LONGEST_TEXT:
        raise HashMismatch(
            f"a stored text of {len(body):,} bytes unpacks to more than {LONGEST_TEXT:,}; expected at most that: "
            "assaymark writes no such text"
        )
    if not stream.eof:
        raise zlib.error("incomplete or truncated stream")
    return whole


def optional_bytes(column: bytes | memoryview | None) -> bytes | None:
    """Return a column of bytes that may be NULL; some drivers give a view of it."""
    return None if column is None else bytes(column)


def pack_optional(text: str | None) -> bytes | None:
    """Return the stored form of a text or None."""
    return None if text is None else pack_text(text)


def unpack_optional(packed: bytes | None) -> str | None:
    """Return the text of a stored form; None for None."""
    return None if packed is None else unpack_text(packed)


def pack_json(value: object) -> bytes:
    """Return the stored form of a JSON value."""
    return pack_text(to_json(value))


def pack_optional_json(value: object) -> bytes | None:
    """Return the stored form of a JSON value; None stays None."""
    return None if value is None else pack_text(to_json(value))


def unpack_json(packed: bytes | None) -> Any:
    """Return the JSON value of a stored form, as json.loads does; None for None.

    Raises: HashMismatch if the bytes are not packed JSON.
    """
    if packed is None:
        return None
    text = unpack_text(packed)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HashMismatch(f"a stored JSON value cannot be read: {error}; `assaymark verify` shows its run") from error


def pack_hash(text: str) -> bytes:
    """Return `sha256:<hex>` as 33 bytes; any other text as a zero byte and its UTF-8."""
    if text.startswith(_PREFIX) and len(text) == 71:
        try:
            digest = unhexlify(text[7:])
        except ValueError:
            digest = b""
        if hexlify(digest).decode() == text[7:]:  # upper case would not be restored
            return SHA256 + digest
    return OTHER_KEY + text_bytes(text)


def unpack_hash(packed: bytes) -> str:
    """Return the text of a packed hash."""
    if packed[:1] == SHA256:
        return _PREFIX + hexlify(packed[1:]).decode()
    return packed[1:].decode("utf-8", "surrogatepass")
