"""A small project with a history: a fault, the commit that puts it right with a test, and later commits."""

import subprocess
from pathlib import Path

CODE = '''def add(a, b):
    """Return the sum."""
    return a - b


def mul(a, b):
    """Return the product."""
    return a * b
'''
FIXED = CODE.replace("a - b", "a + b")
TESTS = """import pytest
from calc import mul


@pytest.mark.parametrize("word", ["a b", "c"])
def test_mul(word):
    assert mul(2, 3) == 6
"""
TEST_OF_FIX = """

def test_add():
    from calc import add

    assert add(2, 3) == 5
"""
# the plug-ins of this environment take longer to import than all these tests
SETTINGS = """[tool:pytest]
testpaths = tests
addopts = -p no:langsmith_plugin -p no:hypothesispytest -p no:assaymark
"""
LATER = "the solution is in a later commit"


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it printed."""
    own = ["-c", "user.name=n", "-c", "user.email=n@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *own, "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path, message: str, files: dict[str, str]) -> str:
    """Write files and commit them; return the commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def make_project(folder: Path) -> Path:
    """Make the project: the second of its four commits is an instance."""
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, "A calculator", {"calc.py": CODE, "tests/test_calc.py": TESTS, "tests/data.txt": "1\n",
                                   "setup.cfg": SETTINGS})  # fmt: skip
    commit(folder, "add() subtracts", {"calc.py": FIXED, "tests/test_calc.py": TESTS + TEST_OF_FIX})
    commit(folder, "Notes", {"notes.txt": LATER})
    commit(folder, "A test of nothing new", {"calc.py": f"{FIXED}\n", "tests/test_more.py": TESTS})
    git(folder, "tag", "v2")
    return folder


def patch_of(project: Path, base: str, files: dict[str, str]) -> str:
    """Return the diff from a commit to the same with other files."""
    copy = project.parent / "edited"
    git(project, "worktree", "add", "-q", "--detach", str(copy), base)
    try:
        for name, text in files.items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_text(text, encoding="utf-8")
        git(copy, "add", "-A", "-f")
        return git(copy, "diff", "--cached", "--no-renames") + "\n"
    finally:
        git(project, "worktree", "remove", "--force", str(copy))
