"""Locks by name, so that two processes of a home folder do not do the same work at the same time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from assaymark.settings import home_folder
from assaymark.swe.instances import text_sha

if sys.platform != "win32":
    import fcntl


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Wait until no other process of this home folder does what is named; a killed one's lock ends with it."""
    folder = home_folder() / "swe"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{text_sha(name)[:32]}.lock"
    with path.open("ab") as file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
