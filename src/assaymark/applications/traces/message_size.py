"""The size of an OpenTelemetry message, counted before any object is made from it.

A field of two bytes becomes an object of up to 180: 61 kB of gzip unpack to 31 million empty spans, which take 5.7 GB.
So the fields are counted on the wire, in either encoding, and a message of too many is refused; counting itself ends at
the limit.

Source: https://protobuf.dev/programming-guides/encoding/ (tags, and the lengths of what follows each).
"""

import re
from functools import cache

from google.protobuf.descriptor import Descriptor

from assaymark.errors import DataError

MOST_FIELDS = 300_000  # of one message: about 3,000 spans of 20 attributes
MOST_VALUES = 120_000  # of one message in JSON, which takes longer: about 1,200 such spans
MOST_OF_ONE = 200_000  # of these in one span, resource, scope or log record: 30 embeddings of 3,072 numbers
SMALLER = "send smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"
_ONES = frozenset({"Span", "Resource", "InstrumentationScope", "LogRecord"})
_LISTS = frozenset({"ResourceSpans", "ScopeSpans", "ResourceLogs", "ScopeLogs"})
_JSON_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,]', re.DOTALL)
_VARINT, _FIXED64, _LENGTH, _GROUP, _END, _FIXED32 = range(6)
_SKIPPED = {_FIXED64: 8, _FIXED32: 4}


class TooLarge(DataError):
    """A body is larger than is accepted."""


@cache
def _messages_of(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Return the types of a message's embedded messages, by field number."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}


def count_fields(body: bytes, descriptor: Descriptor, limit: int = MOST_FIELDS) -> int:
    """Return the number of fields in a message, at any depth. Invalid messages are left to the parser.

    Raises: TooLarge for more than `limit`, and for a span of more than MOST_OF_ONE.
    """
    n, most_here, one = 0, limit, ""
    waiting = [(0, len(body), descriptor)]
    while waiting:
        at, end, kind = waiting.pop()
        within = _messages_of(kind)
        if kind.name in _ONES:  # and what is in it comes next
            most_here, one = n + MOST_OF_ONE, kind.name
        elif kind.name in _LISTS:
            most_here = limit
        while at < end:
            n += 1
            if n > limit:
                raise TooLarge(f"the body has more than {limit:,} fields; {SMALLER}")
            if n > most_here:
                raise TooLarge(f"one {one} of the body has more than {MOST_OF_ONE:,} fields; send fewer attributes")
            tag = body[at]
            at += 1
            if tag > 127:
                tag, at = _varint(body, at - 1, end)
            shape = tag & 7
            if shape == _LENGTH and at < end:
                size = body[at]
                at += 1
                if size > 127:
                    size, at = _varint(body, at - 1, end)
                if size and (inner := within.get(tag >> 3)) is not None:
                    waiting.append((at, min(at + size, end), inner))
                at += size
            elif shape == _VARINT:
                while at < end and body[at] > 127:
                    at += 1
                at += 1
            else:  # groups, which none of these messages has, are read field by field
                at += _SKIPPED.get(shape, 0)
    return n


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number and the position of its end."""
    number = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return number, at


def check_json(text: str) -> int:
    """Return an upper bound of the number of values in a JSON text.

    Raises: TooLarge for more than MOST_VALUES.
    """
    n = text.count("[") + text.count("{") + text.count(",")
    if n <= MOST_VALUES:
        return n
    n = n_texts = 0
    for part in _JSON_PART.finditer(text):  # those signs are in texts too
        if part[0] in "[{,":
            n += 1
        else:
            n_texts += 1
        if n > MOST_VALUES or n_texts > 2 * MOST_VALUES:  # a key and a value
            raise TooLarge(f"the body has more than {MOST_VALUES:,} values; {SMALLER}")
    return n
