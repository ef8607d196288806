"""The system's programs and libraries in a sandbox, read-only, as options of bubblewrap."""

from collections.abc import Sequence
from pathlib import Path

SYSTEM = ("usr", "lib", "lib64", "lib32", "bin", "sbin")


def system_mounts(folders: Sequence[str] = SYSTEM, in_etc: Sequence[str] = ("ld.so.cache",)) -> list[str]:
    """Return bubblewrap's options for folders below `/`, links as links, and for files of `/etc` where they are."""
    words: list[str] = []
    for path in (Path("/", name) for name in folders):
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in in_etc:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words
