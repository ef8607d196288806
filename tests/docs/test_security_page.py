"""The page on security promises only what a test tries to break."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_is_there() -> None:
    """Each row of a promise or a bound names functions of test files, which exist."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "tests/" in line]
    assert len(rows) >= 35
    for row in rows:
        file = ""
        for path, name in re.findall(r"`((?:tests/[\w/]+\.py)?)::(\w+)`", row):
            file = path or file
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert name in names, f"{file} has no {name}"
        assert file, row


def test_every_promise_names_a_test() -> None:
    """No row of the tables of promises and bounds is without one."""
    promises = PAGE.partition("## What is promised")[2].partition("## What is not promised")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "tried by" not in line]
    assert rows
    assert all("`tests/" in row for row in rows)
