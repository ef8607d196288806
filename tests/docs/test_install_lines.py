"""Nothing of ours is on a package index yet: every line that installs it installs the source folder."""

import re
from pathlib import Path

import pytest

from assaymark.errors import MissingExtra
from assaymark.settings import FORMER_NAME

ROOT = Path(__file__).resolve().parents[2]
HISTORY = ("CHANGELOG.md", "docs/experiments/", "docs/decisions/")
FORMER = (
    "src/assaymark/settings.py",
    "tests/store/make_earlier_store.py",
    "tests/store/first_revision.sql",
)
FROM_AN_INDEX = re.compile(r"pip3? install (?:-\S+ )*['\"]?assaymark\b", re.IGNORECASE)


def texts() -> dict[str, str]:
    """Return every text file of the source folder by its path, without the history of changes."""
    skipped = {".git", ".venv", "_build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
    files: dict[str, str] = {}
    for path in ROOT.rglob("*"):
        name = path.relative_to(ROOT).as_posix()
        if not path.is_file() or skipped & set(path.relative_to(ROOT).parts) or name.startswith(HISTORY):
            continue
        try:
            files[name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return files


def test_no_line_installs_it_from_an_index() -> None:
    """Docs, errors, deployment and code install `.[extra]`, never a package of our name from an index."""
    assert FROM_AN_INDEX.search("pip install 'assaymark[web]'")
    assert FROM_AN_INDEX.search("pip install -U assaymark")
    own = Path(__file__).relative_to(ROOT).as_posix()
    lines = {name: FROM_AN_INDEX.findall(text) for name, text in texts().items() if name != own}
    assert {name: entry for name, entry in lines.items() if entry} == {}


def test_the_former_name_is_nowhere_else() -> None:
    """Only what reads stores, plans and files of the former name has it."""
    assert sorted(name for name, text in texts().items() if FORMER_NAME in text.lower()) == sorted(FORMER)


def test_an_error_about_an_extra_names_the_source_folder() -> None:
    """The message says what to type, and where."""
    assert str(MissingExtra("serve", "web")).endswith(
        "install it in the folder of Assaymark's source: pip install '.[web]'"
    )


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_extras_of_a_page_exist(page: Path) -> None:
    """Each extra that a page installs is one of the package's."""
    extras = set(re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    for listed in re.findall(r"pip install '\.\[([\w,-]+)\]'", page.read_text(encoding="utf-8")):
        assert set(listed.split(",")) <= extras, (page, listed)
