"""The chain over votes: each vote's hash covers its record and the hash before it.

A record holds no text: prompt and answers are salted commitments, SHA-256 over a random salt and the text. Whoever has
salt and text can check a commitment; once both are erased, nothing can be derived from it and no hash changes. The last
hash, the head, vouches for every vote before it: published with an export, it shows later whether any was changed.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from secrets import token_bytes
from typing import Any

from assaymark.store.packing import text_bytes

__all__ = ["FIRST", "RECORD_FIELDS", "commitment", "first_break", "new_salt", "vote_hash"]

FIRST = bytes(32)
"""The hash before the first vote."""

SALT_BYTES = 32
RECORD_FIELDS = (
    *("sequence", "battle", "opened_at", "cast_at", "voter", "mode", "source", "prompt_id", "category"),
    *("model_a", "model_b", "is_swapped", "choice", "mark_a", "mark_b", "is_counted"),
    *("prompt_commitment", "answer_a_commitment", "answer_b_commitment"),
)


def new_salt() -> bytes:
    """Return a random salt."""
    return token_bytes(SALT_BYTES)


def commitment(salt: bytes, text: str) -> bytes:
    """Return SHA-256(salt || UTF-8 of the text): 32 bytes."""
    return hashlib.sha256(salt + text_bytes(text)).digest()


def vote_hash(previous: bytes, record: Mapping[str, Any]) -> bytes:
    """Return SHA-256(previous || record as JSON with sorted keys and without spaces), over RECORD_FIELDS alone."""
    chosen = {name: record[name] for name in RECORD_FIELDS}
    text = json.dumps(chosen, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(previous + text.encode("ascii")).digest()


def first_break(records: Iterable[Mapping[str, Any]], head: bytes | None = None) -> str | None:
    """Return what is wrong with the first record that does not continue the chain; None if all do.

    Args:
        records: RECORD_FIELDS and `hash` (bytes) of each vote, from the first one.
        head: the hash that the last vote must have, as published.
    """
    previous, expected = FIRST, 1
    for record in records:
        if record["sequence"] != expected:
            return f"vote {expected} is missing: vote {record['sequence']} follows vote {expected - 1}"
        if vote_hash(previous, record) != record["hash"]:
            return f"vote {expected} does not have its hash: it or an earlier vote was changed"
        previous, expected = record["hash"], expected + 1
    if head is not None and previous != head:
        return f"the last vote is number {expected - 1} and does not have the published hash {head.hex()}"
    return None
