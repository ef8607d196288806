"""The one JSON text of a value, and its hash: whatever is stored by content goes through these two."""

import hashlib
import json
from typing import Any

__all__ = ["JsonValue", "canonical_json", "content_hash"]

JsonValue = Any  # what json.dumps takes; the exact recursive type costs more than it tells


def canonical_json(value: JsonValue) -> str:
    """Return the one JSON text of `value`: sorted keys, no spaces, UTF-8 kept. Changing it changes every hash."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def content_hash(value: JsonValue) -> str:
    """Return `sha256:<hex>` of the canonical JSON; the prefix names the algorithm, so a change of it shows."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()
