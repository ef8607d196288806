"""Files whose names or folders come from others: only regular ones, of a limited size, inside of named folders.

A pipe under the name of a record would wait for a writer, and a link could name any file of the machine.
"""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from assaymark.errors import DataError

CACHED = re.compile(r"(?P<kind>models|datasets|spaces)--(?P<org>[\w.-]+?)--(?P<name>[\w.-]+)", re.ASCII)
"""A repository's folder in the Hub's cache."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # some systems have not all of them


def link_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders that links in a folder may name: itself, and a repository of the Hub's cache that has it.

    The cache's files are links to blobs beside their snapshots.
    """
    whole = folder.absolute()
    cached = next((each for each in (whole, *whole.parents) if CACHED.fullmatch(each.name)), None)
    return (folder,) if cached is None else (folder, cached)


def is_within(file: Path, folders: Sequence[Path]) -> bool:
    """Return whether what a path names, with all links followed, lies in one of the folders."""
    real = _real(file)
    return any(real.is_relative_to(_real(folder)) for folder in folders)


def open_regular(file: Path, folders: Sequence[Path] | None = None) -> BinaryIO:
    """Open a regular file; folders: in which it must lie, None for anywhere.

    Raises: DataError, without the file's name, for what is none, lies elsewhere or cannot be read.
    """
    named = file if folders is None else _real(file)  # what is opened is what was looked at
    if folders is not None and not is_within(named, folders):
        raise DataError("is a link that leaves its folder; copy the file that it names")
    if not os.path.lexists(file):
        raise DataError("does not exist")
    if not named.is_file():  # to open a device may already do something
        raise DataError("is not a regular file")
    try:
        opened = os.fdopen(os.open(named, _FLAGS), "rb")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):  # replaced meanwhile
        opened.close()
        raise DataError("is not a regular file")
    return opened


def content_of(file: Path, most: int, folders: Sequence[Path] | None = None) -> bytes:
    """Return the bytes of a regular file with at most so many. Raises: DataError, as `open_regular`."""
    with open_regular(file, folders) as opened:
        size = os.fstat(opened.fileno()).st_size
        try:
            content = opened.read(most + 1) if size <= most else b""
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}") from error
    if size > most or len(content) > most:
        raise DataError(f"has {max(size, len(content)):,} bytes; at most {most:,} are read")
    return content


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # `resolve` raises RuntimeError for a link to itself
