"""Write files atomically: as drafts in the same folder, moved to their path once they are on the disk.

Each draft folder is registered under ASSAYMARK_HOME by a file that stays locked while its process lives. So the
leftovers of a killed process are recognised, and the next command removes them.
"""

import json
import os
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from assaymark.settings import home_folder

if sys.platform != "win32":  # without such locks, only their own process removes drafts
    import fcntl

PREFIX = ".assaymark-draft-"


@contextmanager
def draft_folder(parent: Path | None = None) -> Iterator[Path]:
    """Create a folder, in `parent` or else in the folder for temporary files, and remove it at the end.

    Raises: OSError if it cannot be created.
    """
    name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
    path = (Path(tempfile.gettempdir()) if parent is None else parent).absolute() / name
    with _registered(path):
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the draft of a file; after the block it replaces the file, which is never seen partially written.

    A device or a pipe is written directly.

    Raises: OSError if it cannot be written; the file at `path` is then unchanged.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        yield target
        return
    with draft_folder(target.parent) as folder:
        draft = folder / target.name
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())  # some file systems report a full disk only here
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)


def write_whole(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text as UTF-8, completely or not at all.

    Raises: OSError if it cannot be written.
    """
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", errors=errors)


def remove_leftovers() -> None:
    """Remove the drafts of processes that were killed."""
    try:
        records = list(_register().iterdir())
    except OSError:
        return
    for record in records:
        with suppress(OSError, ValueError, KeyError, TypeError), record.open("rb+") as file:
            if not _lock(file):
                continue
            content = json.loads(file.read() or b"null")
            path = Path(content["place"]) if content else None
            if path is not None and content["host"] != socket.gethostname():
                continue
            if path is not None and path.name.startswith(PREFIX):
                shutil.rmtree(path, ignore_errors=True)
            record.unlink()


def _register() -> Path:
    return home_folder() / "drafts"


@contextmanager
def _registered(path: Path) -> Iterator[None]:
    """Keep a locked record of a draft folder while it is used; without a writable home folder there is no record."""
    record = _register() / path.name.removeprefix(PREFIX)
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        file = record.open("xb")
    except OSError:
        yield
        return
    with file:
        _lock(file)
        try:
            with suppress(OSError):  # a full disk is reported by the draft itself
                file.write(json.dumps({"place": str(path), "host": socket.gethostname()}).encode())
                file.flush()
            yield
        finally:
            with suppress(OSError):
                record.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed or the process ends. Returns whether no other process holds the lock."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
