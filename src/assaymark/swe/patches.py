"""Applying a patch as SWE-bench does, and parts of it that may decide tests without solving the issue.

What a patch changed is read from the files after it was applied, not from its text: git and GNU patch read a diff in
more ways than one. Whoever wrote the patch is not trusted, so both run in the sandbox.
"""

import configparser
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assaymark.swe.base_copies import copy_tree, files_of
from assaymark.swe.environments import Environment
from assaymark.swe.instances import paths_of_patch
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed

PATCH = "/tmp/patch.diff"  # noqa: S108 - the sandbox's own
APPLYING_SECONDS = 300.0
_APPLY = f"""
again() {{ git reset -q --hard; git clean -fdq; }}
if git apply --verbose {PATCH}; then echo 'applied by: git apply'; exit 0; fi; again
if git apply --verbose --3way {PATCH}; then echo 'applied by: git apply --3way'; exit 0; fi; again
if git apply --verbose --reject {PATCH}; then echo 'applied by: git apply --reject'; exit 0; fi; again
if patch --batch --forward --fuzz=5 -p1 -i {PATCH}; then echo 'applied by: patch --fuzz=5'; exit 0; fi; again
if git apply --check --reverse {PATCH}; then echo 'applied by: nothing, it is there already'; exit 0; fi
exit 1
"""
_DECIDING = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "sitecustomize.py", "usercustomize.py"}
)
_DECIDING_ENDS = (".pth", ".egg-link", ".pyc")  # the last: Python may read it in place of the source beside it
_PACKAGES_OF_PYTEST = frozenset({"pytest", "pytest.py", "_pytest", "pluggy", "pluggy.py", "py.py"})
_METADATA_ENDS = (".egg-info", ".dist-info")
_LONGEST_SETTINGS = 1 << 20  # bytes of a file with settings
_INI_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest"}
_TEST_FOLDERS = frozenset({"tests", "e2e"})
_TEST_SUPPORT = frozenset({"test", "testing"})
_TEST_FILE = re.compile(r"(test_.*|.*_test)\.py")
_SUSPECT = {
    "the test framework": re.compile(r"\b_pytest\b|\bpytest\b|\bpluggy\b|\bunittest\b|PYTEST_CURRENT_TEST"),
    "the process's end": re.compile(r"\bos\._exit\b|\batexit\b|\bSystemExit\b|\bos\.kill\b|\bfaulthandler\b"),
    "other processes' files": re.compile(r"/proc/|\bgetppid\b"),
    "the interpreter's memory": re.compile(r"\bgc\.get_|_getframe|\bf_back\b|\bf_locals\b|\bctypes\b|\bsettrace\b"),
    "the import system": re.compile(r"\bsys\.modules\b|\bmeta_path\b|\bpath_hooks\b"),
}


@dataclass(frozen=True, slots=True)
class Applied:
    """How a patch was applied; by: empty where it was not. log: what git and patch said."""

    by: str
    log: str


def apply_patch(patch: str, copy: Path, base: Path, environment: Environment) -> Applied:
    """Apply a patch to a copy of a base copy by SWE-bench's chain, in the sandbox.

    The repository (`.git`) is put back as it was, since patches can reach into it.

    Source: swebench.harness.run_evaluation, release 5.0.2: GIT_APPLY_CMDS.
    """
    applied = _run(_APPLY, patch, copy, environment)
    repository = copy / ".git"
    if repository.is_symlink() or repository.is_file():
        repository.unlink()
    shutil.rmtree(repository, ignore_errors=True)
    copy_tree(base / ".git", repository)
    return applied


def apply_tests(patch: str, copy: Path, environment: Environment) -> Applied:
    """Apply the patch of an instance's tests, in the sandbox."""
    return _run(f"git apply --verbose {PATCH} && echo 'applied by: git apply'", patch, copy, environment)


def _run(script: str, patch: str, copy: Path, environment: Environment) -> Applied:
    text = patch if patch.endswith("\n") else f"{patch}\n"
    ended = run_sandboxed(
        ["/bin/sh", "-c", f"cat > {PATCH}; {script}"],
        Workplace(copy, environment.folder, image=environment.image, engine=environment.where),
        SweLimits(seconds=APPLYING_SECONDS),
        given=text.encode("utf-8", "surrogateescape"),
    )
    by = re.findall(r"^applied by: (.*)$", ended.output, re.MULTILINE)
    return Applied(
        by[-1] if by and ended.status == 0 and not ended.limit else "", ended.limit or ended.output[-20_000:]
    )


def changed_paths(base: Path, copy: Path) -> dict[str, str]:
    """Return path -> added, removed or changed, for all files in which two trees differ."""
    before, after = files_of(base), files_of(copy)
    changed = dict.fromkeys(after.keys() - before.keys(), "added")
    changed |= dict.fromkeys(before.keys() - after.keys(), "removed")
    changed |= {name: "changed" for name in before.keys() & after.keys() if not _is_same(before[name], after[name])}
    return dict(sorted(changed.items()))


def _is_same(first: Path, second: Path) -> bool:
    if first.is_symlink() or second.is_symlink():
        return first.is_symlink() and second.is_symlink() and first.readlink() == second.readlink()
    if not second.is_file() or first.stat().st_size != second.stat().st_size:
        return False
    return first.read_bytes() == second.read_bytes()


def why_refused(changed: Mapping[str, str], base: Path, copy: Path) -> str:
    """Return why a patch is refused: it changes what decides how tests run, and no solution needs that. Or nothing."""
    for name, how in changed.items():
        path = Path(name)
        place = copy / name
        if path.name.lower() in _DECIDING or path.name.endswith(_DECIDING_ENDS):
            return f"it {_verb(how)} {name}, which decides how tests run"
        if any(part.endswith(_METADATA_ENDS) for part in path.parts):
            return f"it {_verb(how)} {name}, by which packages add plugins to pytest"
        if how == "added" and _PACKAGES_OF_PYTEST & set(path.parts) and not (base / name).parent.is_dir():
            return f"it adds {name}, which hides a package of pytest's"
        if how == "added" and path.name in _PACKAGES_OF_PYTEST:
            return f"it adds {name}, which hides a package of pytest's"
        if place.is_symlink() and not stays_inside(place, copy):
            return f"it {_verb(how)} the link {name}, which leads out of the repository"
        if path.name in {*_INI_SECTIONS, "pyproject.toml"} and _settings(base / name) != _settings(place):
            return f"it changes pytest's settings in {name}"
    return ""


def _verb(how: str) -> str:
    return {"added": "adds", "removed": "removes", "changed": "changes"}[how]


def stays_inside(path: Path, folder: Path) -> bool:
    """Return whether a path lies in a folder, links followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a link to itself
        return False


def _settings(path: Path) -> object:
    """Return pytest's settings of a file; its whole text where it cannot be parsed, so that any change counts.

    A file that is too long to be parsed differs from every other.
    """
    if path.is_symlink() or not path.is_file():
        return None
    if path.stat().st_size > _LONGEST_SETTINGS:
        return object()
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        if path.name == "pyproject.toml":
            return tomllib.loads(text).get("tool", {}).get("pytest")
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
    except (configparser.Error, AttributeError, ValueError, RecursionError):  # the last two: long numbers, deep lists
        return text
    section = _INI_SECTIONS[path.name]
    return dict(parser[section]) if parser.has_section(section) else None


def is_test_path(name: str) -> bool:
    """Return whether a path is one of tests: in a folder of tests, or named as pytest finds them."""
    parts = Path(name).parts
    in_folder = bool(_TEST_FOLDERS & set(parts[:-1])) or parts[0] in _TEST_SUPPORT
    return in_folder or bool(_TEST_FILE.fullmatch(parts[-1]))


def restore_tests(changed: Mapping[str, str], test_patch: str, base: Path, copy: Path) -> list[str]:
    """Put tests that a patch changed back as they were before it; return their paths.

    Those that the instance's own patch of tests names are put back too, whatever they are called.
    """
    own = set(paths_of_patch(test_patch))
    restored = [name for name in changed if name in own or is_test_path(name)]
    for name in restored:
        target, source = copy / name, base / name
        for parent in reversed(Path(name).parents):
            if (copy / parent).is_symlink() or (copy / parent).is_file():
                (copy / parent).unlink()  # a patch made a folder of tests a link or a file
        if target.is_symlink() or target.is_file():
            target.unlink()
        elif target.is_dir():
            shutil.rmtree(target)
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
        else:
            with suppress(OSError):
                target.parent.rmdir()  # only if it is empty
    return restored


def flags_of_patch(patch: str, changed: Mapping[str, str], restored: Sequence[str]) -> list[str]:
    """List names and files in a patch that people should look at; its lines are only searched."""
    put_back = set(restored)
    flags = [
        f"touches {name}, which may belong to the tests"
        for name in changed
        if name not in put_back and _TEST_SUPPORT & set(Path(name).parts[:-1])
    ]
    added = "\n".join(line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++"))
    return flags + [f"mentions {name}" for name, pattern in _SUSPECT.items() if pattern.search(added)]
