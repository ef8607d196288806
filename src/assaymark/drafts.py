"""Write files atomically: as drafts in the same folder, moved to their path once they are on the disk.

Each draft folder is registered under ASSAYMARK_HOME beside a lock that is held while its process lives. So the
leftovers of a killed process are recognised, and the next command removes them.
"""

import json
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from assaymark.platforms import locked, replace_file
from assaymark.settings import home_folder

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
        replace_file(draft, target)


@contextmanager
def open_whole(path: Path, errors: str = "strict") -> Iterator[IO[str]]:
    """Open the draft of a text file, UTF-8 with the line ends that are written, as `whole_file` has it.

    Raises: OSError if it cannot be written.
    """
    with whole_file(path) as draft, draft.open("w", encoding="utf-8", errors=errors, newline="") as file:
        yield file


def write_whole(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text as UTF-8, completely or not at all.

    Raises: OSError if it cannot be written.
    """
    with open_whole(path, errors) as file:
        file.write(text)


def remove_leftovers() -> None:
    """Remove the drafts of processes that were killed."""
    try:
        locks = sorted(_register().glob("*.lock"))
    except OSError:
        return
    for lock in locks:
        with suppress(OSError), locked(lock, wait=False) as is_mine:
            if not is_mine:
                continue
            record = lock.with_suffix(".json")
            if not record.exists() or _remove_draft(record):
                record.unlink(missing_ok=True)
                _forget(lock)


def _remove_draft(record: Path) -> bool:
    """Remove the draft that a record names, if it is of this machine; return whether the record is no longer needed."""
    try:
        content = json.loads(record.read_bytes())
        place, host = Path(content["place"]), content["host"]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    if host != socket.gethostname():
        return False
    if place.name.startswith(PREFIX):
        shutil.rmtree(place, ignore_errors=True)
    return True


def _register() -> Path:
    return home_folder() / "drafts"


@contextmanager
def _registered(path: Path) -> Iterator[None]:
    """Keep a record of a draft folder and a lock while it is used; without a writable home folder there is neither."""
    record = _register() / f"{path.name.removeprefix(PREFIX)}.json"
    lock = record.with_suffix(".lock")
    with ExitStack() as held:
        with suppress(OSError):
            record.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(lock, wait=True))
            held.callback(_forget, lock)
            record.write_text(json.dumps({"place": str(path), "host": socket.gethostname()}), encoding="utf-8")
        try:
            yield
        finally:
            with suppress(OSError):
                record.unlink()


def _forget(lock: Path) -> None:
    """Remove a lock's file while it is held; on Windows, which refuses that, the release removes it."""
    with suppress(OSError):
        lock.unlink()
