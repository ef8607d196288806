"""How text and hashes lie in the database: as bytes, small, and exact for every string Python can hold.

A packed text is one byte that names the coding, then the text: UTF-8 as it is, or compressed with zlib where that is
shorter. Bytes and not TEXT, because PostgreSQL refuses NUL inside TEXT and neither database takes a lone surrogate,
and both occur in what models write. A packed hash is 32 bytes behind one that names the algorithm.
"""

import hashlib
import json
import re
import zlib
from binascii import hexlify, unhexlify

from evalstone.errors import HashMismatch, StoreError
from evalstone.records import JsonValue

PLAIN, ZLIB = b"\x00", b"\x01"
OTHER_KEY, SHA256 = b"\x00", b"\x01"
WORTH_COMPRESSING = 96  # bytes; below it zlib's own frame eats the gain
LONGEST_TEXT = 128 * 2**20  # bytes of one text; a file from elsewhere may hold some that unpack to gigabytes
_PREFIX = "sha256:"
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")  # what PostgreSQL or UTF-8 do not take

_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def text_bytes(text: str) -> bytes:
    """Return UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def text_digest(text: str) -> bytes:
    """Return the SHA-256 under which a text is stored: 32 bytes."""
    return hashlib.sha256(text_bytes(text)).digest()


def shown_text(text: str) -> str:
    """Return a text for a column of type TEXT: what cannot be stored as such becomes U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return _NO_TEXT.sub("\ufffd", text)


def pack_text(text: str) -> bytes:
    """Return the stored form of a text.

    Raises: StoreError for one that `unpack_text` would refuse.
    """
    raw = text_bytes(text)
    if len(raw) > LONGEST_TEXT:
        raise StoreError(f"a text of {len(raw):,} bytes is to be stored; expected at most {LONGEST_TEXT:,}: shorten it")
    if len(raw) >= WORTH_COMPRESSING:
        small = zlib.compress(raw, 6)
        if len(small) < len(raw):
            return ZLIB + small
    return PLAIN + raw


def unpack_text(packed: bytes) -> str:
    """Return the text of a stored form.

    Raises: HashMismatch if the bytes are no packed text, or one longer than LONGEST_TEXT.
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
        raise HashMismatch(f"a stored text cannot be read: {error}; `evalstone verify` names its run") from error


def _decompressed(body: bytes) -> bytes:
    """Return what zlib made small, unpacking no more of it than a text may have."""
    stream = zlib.decompressobj()
    whole = stream.decompress(body, LONGEST_TEXT + 1)
    if len(whole) > LONGEST_TEXT:
        raise HashMismatch(
            f"a stored text of {len(body):,} bytes unpacks to more than {LONGEST_TEXT:,}; expected at most that: no "
            "such text was written by evalstone"
        )
    if not stream.eof:
        raise zlib.error("incomplete or truncated stream")
    return whole


def pack_optional(text: str | None) -> bytes | None:
    """Return the stored form of a text or None."""
    return None if text is None else pack_text(text)


def unpack_optional(packed: bytes | None) -> str | None:
    """Return the text of a stored form, None of None."""
    return None if packed is None else unpack_text(packed)


def to_json(value: JsonValue) -> str:
    """Return JSON text in the order given; what JSON does not know becomes its str()."""
    return _encode_json(value)


def pack_json(value: JsonValue) -> bytes:
    """Return the stored form of a JSON value."""
    return pack_text(_encode_json(value))


def pack_optional_json(value: JsonValue) -> bytes | None:
    """Return the stored form of a JSON value; None stays None."""
    return None if value is None else pack_text(_encode_json(value))


def unpack_json(packed: bytes | None) -> JsonValue:
    """Return the JSON value of a stored form, None of None.

    Raises: HashMismatch if the bytes are no packed JSON.
    """
    if packed is None:
        return None
    text = unpack_text(packed)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HashMismatch(f"a stored JSON value cannot be read: {error}; `evalstone verify` names its run") from error


def pack_hash(text: str) -> bytes:
    """Return `sha256:<hex>` as 33 bytes; any other text as itself behind a zero byte."""
    if text.startswith(_PREFIX) and len(text) == 71:
        try:
            digest = unhexlify(text[7:])
        except ValueError:
            digest = b""
        if hexlify(digest).decode() == text[7:]:  # upper case would not come back as it was
            return SHA256 + digest
    return OTHER_KEY + text_bytes(text)


def unpack_hash(packed: bytes) -> str:
    """Return the text of a packed hash."""
    if packed[:1] == SHA256:
        return _PREFIX + hexlify(packed[1:]).decode()
    return packed[1:].decode("utf-8", "surrogatepass")
