"""Files that are whole or absent: written as drafts beside their place and moved there once they are on the disk.

Each draft folder is registered under EVALSTONE_HOME by a file that stays locked while its process lives. What a
process left that was killed is therefore known for what it is, and the next command removes it.
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

from evalstone.settings import home_folder

if sys.platform != "win32":  # where there are no such locks, drafts are removed by their own process only
    import fcntl

__all__ = ["draft_folder", "remove_leftovers", "whole_file", "write_whole"]

PREFIX = ".evalstone-draft-"


@contextmanager
def draft_folder(parent: Path | None = None) -> Iterator[Path]:
    """Make a folder, in `parent` or else where temporary files lie, and remove it at the end.

    Raises: OSError if it cannot be made.
    """
    name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
    place = (Path(tempfile.gettempdir()) if parent is None else parent).absolute() / name
    with _registered(place):
        place.mkdir(mode=0o700)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the draft of a file; after the block it takes the file's place, in which nothing partial is ever seen.

    A device or a pipe has no such place and is written to itself.

    Raises: OSError if it cannot be written; what was at `path` before is unchanged then.
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
    """Write a text as UTF-8, whole or not at all.

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
            place = Path(content["place"]) if content else None
            if place is not None and content["host"] != socket.gethostname():
                continue
            if place is not None and place.name.startswith(PREFIX):
                shutil.rmtree(place, ignore_errors=True)
            record.unlink()


def _register() -> Path:
    return home_folder() / "drafts"


@contextmanager
def _registered(place: Path) -> Iterator[None]:
    """Keep a locked record of a draft folder while it is used; without a writable home it goes unrecorded."""
    record = _register() / place.name.removeprefix(PREFIX)
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        file = record.open("xb")
    except OSError:
        yield
        return
    with file:
        _lock(file)
        try:
            with suppress(OSError):  # a full disk shows where it matters: in the draft
                file.write(json.dumps({"place": str(place), "host": socket.gethostname()}).encode())
                file.flush()
            yield
        finally:
            with suppress(OSError):
                record.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed or the process ends. Returns whether nobody else has it."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
