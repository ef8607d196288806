"""A place that will be written to, looked at before the work that comes first: hours of it, say."""

import os
from pathlib import Path

from evalstone.errors import UsageError

__all__ = ["check_place"]


def check_place(path: Path, option: str) -> None:
    """Raise UsageError where a folder, or a file with an ending, cannot be made; nothing is made here."""
    folder = (path.parent if path.suffix else path).absolute()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir():
        raise UsageError(f"{option} is '{path}', but {there} is a file; name another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option} is '{path}', but {there} may not be written to; name another place")
