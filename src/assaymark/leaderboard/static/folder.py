"""A folder that holds an exported site: files replaced only where their bytes changed, the manifest written last.

All files are rendered into a draft folder first. The site is untouched until all are there, so a process that is killed
while rendering leaves the earlier export complete, with a matching manifest. Then changed files are moved into the
site, files that only the earlier manifest names are deleted, and the manifest is written. A journal beside the manifest
names the files being moved, so that a later export deletes the files of a killed one.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from assaymark.drafts import PREFIX, draft_folder, write_whole
from assaymark.errors import UsageError

MANIFEST = "manifest.json"
JOURNAL = "manifest.next.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: counts of files, and bytes of the whole site."""

    n_files: int
    n_bytes: int
    n_written: int
    n_deleted: int


class SiteFolder:
    """The files of one export, as they are rendered."""

    def __init__(self, root: Path, draft: Path, earlier: Mapping[str, str]) -> None:
        """Args: root: the site; draft: where files are collected; earlier: files of an earlier export."""
        self._root, self._draft, self._earlier = root, draft, earlier
        self._hashes: dict[str, str] = {}
        self._bytes = 0

    def add(self, path: str, body: bytes) -> None:
        """Collect one file; it is not written if the site has the same bytes already.

        Args: path: relative to the site, with `/`.
        Raises: UsageError where the site has another file at this path that no export wrote.
        """
        digest = sha256(body).hexdigest()
        target = self._root / path
        if target.is_symlink() or target.exists():
            if path not in self._earlier:
                raise UsageError(f"{target} is in the way and was not written by an export; move it elsewhere")
            is_there = target.is_file() and not target.is_symlink()
            if is_there and sha256(target.read_bytes()).hexdigest() == digest:
                self._note(path, digest, body)
                return
        draft = self._draft / path
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(body)
        self._note(path, digest, body)

    def _note(self, path: str, digest: str, body: bytes) -> None:
        self._hashes[path] = digest
        self._bytes += len(body)

    def finish(self) -> Exported:
        """Move changed files into the site, delete those that are no longer part of it, write the manifest."""
        new = [path for path in sorted(self._hashes) if (self._draft / path).is_file()]
        gone = sorted(set(self._earlier) - set(self._hashes))
        if new or gone:
            _write(self._root / JOURNAL, {path: self._hashes[path] for path in new})
        for path in new:
            target = self._root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            (self._draft / path).replace(target)
        for path in gone:
            _delete(self._root, path)
        if new or gone or not (self._root / MANIFEST).is_file():
            _write(self._root / MANIFEST, self._hashes)
        (self._root / JOURNAL).unlink(missing_ok=True)
        return Exported(len(self._hashes), self._bytes, len(new), len(gone))


@contextmanager
def open_folder(root: Path) -> Iterator[SiteFolder]:
    """Open a folder to export into; it is created where it does not exist.

    Raises: UsageError for a folder that holds other files and no manifest, or a manifest that is none of ours.
    """
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file; expected a folder, new, empty or with an earlier export")
    root.mkdir(parents=True, exist_ok=True)
    earlier = _read(root, MANIFEST) | _read(root, JOURNAL)
    others = sorted(path.name for path in root.iterdir() if not path.name.startswith(PREFIX))
    if others and not earlier:
        raise UsageError(
            f"{root} holds other files ({', '.join(others[:3])}) and no {MANIFEST}; name an empty or a new folder"
        )
    with draft_folder(root) as draft:
        yield SiteFolder(root, draft, earlier)


def _read(root: Path, name: str) -> dict[str, str]:
    """Return the paths and hashes of a manifest; none where it does not exist."""
    path = root / name
    if not path.is_file():
        return {}
    try:
        manifest = json.loads(path.read_bytes())
        files = manifest["files"] if manifest["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        files = None
    if not isinstance(files, dict) or not all(isinstance(file, str) and _is_inside(root, file) for file in files):
        raise UsageError(f"{path} is not a manifest of an export of this version; name an empty or a new folder")
    return {file: str(digest) for file, digest in files.items()}


def _is_inside(root: Path, path: str) -> bool:
    """Return whether a path of a manifest lies in the site, links followed: nothing else is ever deleted."""
    pure = PurePosixPath(path)
    if not path or "\\" in path or "\x00" in path or pure.is_absolute() or ".." in pure.parts:
        return False
    return (root / pure).parent.resolve().is_relative_to(root.resolve())


def _delete(root: Path, path: str) -> None:
    """Delete a file of the site, and folders that it leaves empty."""
    target = root / path
    target.unlink(missing_ok=True)
    for folder in target.parents:
        if folder == root or not folder.is_dir() or any(folder.iterdir()):
            return
        folder.rmdir()


def _write(path: Path, files: Mapping[str, str]) -> None:
    text = json.dumps({"format": FORMAT, "files": dict(sorted(files.items()))}, indent=0, ensure_ascii=False)
    write_whole(path, text + "\n")
