"""Digests of files, remembered by path, size, time and inode, so that large files are read for it once."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from evalstone import settings


def file_digest(path: Path) -> str:
    """Return the hex sha256 of a file's bytes; asked again for an unchanged file it does not read it."""
    status = path.stat()
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    note = settings.cache_folder() / "digests" / f"{place}.json"
    try:
        known = json.loads(note.read_text())
        if known["stamp"] == stamp:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not remembered, or the note is damaged: read the file
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    remember(note, json.dumps({"stamp": stamp, "sha256": digest, "path": str(path)}))
    return digest


def remember(note: Path, text: str) -> None:
    """Write a small file whole or not at all; a folder that cannot be written is no error, only slower next time."""
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
