"""The canonical JSON text of a value, and its hash, for everything that is stored by content."""

import hashlib
import json
from typing import Any

__all__ = ["JsonValue", "canonical_json", "content_hash"]

JsonValue = Any  # what json.dumps accepts; the exact recursive type costs more than it is worth


def canonical_json(value: JsonValue) -> str:
    """Return the canonical JSON text of `value`: sorted keys, no spaces, unescaped. A change alters every hash."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def content_hash(value: JsonValue) -> str:
    """Return `sha256:<hex>` of the canonical JSON; the prefix names the algorithm, so a change of it is visible."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()
