"""Digests of files, cached by path, size, modification time and inode, so that a large file is hashed once."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from assaymark import settings


def file_digest(path: Path) -> str:
    """Return the hex sha256 of a file's bytes; for an unchanged file from the cache."""
    status = path.stat()
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    note = settings.cache_folder() / "digests" / f"{name}.json"
    try:
        known = json.loads(note.read_text())
        if known["stamp"] == stamp:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not cached, or the cache file is damaged: read the file
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    remember(note, json.dumps({"stamp": stamp, "sha256": digest, "path": str(path)}))
    return digest


def remember(note: Path, text: str) -> None:
    """Write a small cache file atomically; a folder that is not writable is not an error."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_name(f"{note.name}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.tmp")
        draft.write_text(text)
        draft.replace(note)
    except OSError:
        return


def combined_digest(parts: Iterable[tuple[str, str]]) -> str:
    """Return `sha256:<hex>` over (name, digest) pairs, whatever their order."""
    text = "\n".join(f"{name}\t{digest}" for name, digest in sorted(parts))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
