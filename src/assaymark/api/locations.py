"""Check of output paths before a long evaluation."""

import os
from pathlib import Path

from assaymark.errors import UsageError

__all__ = ["check_writable"]


def check_writable(path: Path, option: str) -> None:
    """Raise UsageError if a folder, or a file (a path with a suffix), could not be created; create nothing."""
    folder = (path.parent if path.suffix else path).absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir():
        raise UsageError(f"{option} is '{path}', but {existing} is a file; name another folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"{option} is '{path}', but {existing} is not writable; name another folder")
