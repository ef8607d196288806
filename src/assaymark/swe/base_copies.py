"""Copies of a repository that hold one commit and its ancestors: no later commit, no tag, no remote, no reflog.

So whatever reads a copy, an agent or a patched test, cannot find the solution in its history.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from assaymark.errors import DataError, PlanError

_ENVIRONMENT = {  # no configuration of the user's: a copy must not depend on it, nor run its hooks and filters
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}


def git(folder: Path, *words: str, given: bytes | None = None) -> bytes:
    """Run git in a repository of the user's and return its output.

    Raises: DataError with git's last line.
    """
    variables = {"PATH": os.environ.get("PATH", os.defpath), **_ENVIRONMENT}
    command = ["git", "-c", f"safe.directory={folder.resolve()}", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, input=given, env=variables, check=False)
    except OSError as error:
        raise PlanError(f"git cannot be started: {error.strerror or error}; install it") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {done.returncode}"]
        raise DataError(f"git {words[0]} failed in {folder}: {lines[-1][:300]}")
    return done.stdout


class Repositories:
    """Where the repositories of instances lie on this machine."""

    def __init__(self, named: Sequence[str] = ()) -> None:
        """Args: named: `owner/name=FOLDER`, or FOLDER for the repositories that are not named.

        Raises: DataError for a folder that has no repository.
        """
        self._folders: dict[str, Path] = {}
        for text in named:
            name, is_named, folder = text.partition("=")
            path = Path(folder if is_named else text).expanduser().absolute()
            if not path.is_dir():
                raise DataError(f"no repository {path}; expected a folder, or owner/name=FOLDER")
            git(path, "rev-parse", "--git-dir")
            self._folders[name if is_named else ""] = path

    def folder_of(self, repository: str) -> Path:
        """Return the folder of `owner/name`. Raises: PlanError with the option that names it."""
        folder = self._folders.get(repository, self._folders.get(""))
        if folder is None:
            raise PlanError(f"the repository {repository} is not here; clone it and add --repo {repository}=FOLDER")
        return folder


def make_base_copy(source: Path, commit: str, target: Path) -> None:
    """Make a repository with one commit, its ancestors and its files, at a path that does not exist.

    Raises: DataError where the commit is not in the source.
    """
    pack = git(source, "pack-objects", "--revs", "--stdout", "-q", "--threads=1", given=f"{commit}\n".encode())
    target.mkdir(parents=True)
    git(target, "init", "-q", "--template=", "--initial-branch=main")
    git(target, "config", "core.logAllRefUpdates", "false")
    git(target, "config", "gc.auto", "0")
    git(target, "index-pack", "--stdin", "--threads=1", given=pack)
    git(target, "update-ref", "--no-deref", "refs/heads/main", commit)
    git(target, "checkout", "-q", "-f", "main")


def copy_tree(source: Path, target: Path) -> None:
    """Copy a base copy, links as links, to a path that does not exist."""
    shutil.copytree(source, target, symlinks=True)


def files_of(folder: Path) -> Mapping[str, Path]:
    """Return relative path -> path of all files and links of a tree, without its repository."""
    paths: dict[str, Path] = {}
    for place, folders, names in os.walk(folder):
        here = Path(place)
        if here == folder and ".git" in folders:
            folders.remove(".git")
        linked = [name for name in folders if (here / name).is_symlink()]
        for name in (*names, *linked):
            paths[str((here / name).relative_to(folder))] = here / name
    return paths
