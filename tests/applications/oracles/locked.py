"""Other tools' own code as an oracle, each in an environment of its own that `make test-slow` installs.

`NAME.txt` locks the environment's packages, `run_NAME.py` runs in it: JSON on standard input, JSON on standard output.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

__all__ = ["mark_oracle_test", "needs_oracle", "oracle", "oracle_packages"]

_HERE = Path(__file__).parent
_MAY_BE_MISSING_IN_CI: frozenset[str] = frozenset()
"""Oracles that `.ci/run` may skip, each with a comment that says why; all others fail there where they are missing."""


def _python(name: str) -> Path:
    """Return the interpreter of an oracle: NAME_PYTHON, else the one that the Makefile installs."""
    return Path(os.environ.get(f"{name.upper()}_PYTHON") or Path(sys.prefix, "oracles", name, "bin", "python"))


def oracle_packages(name: str) -> Path:
    """Return the folder of an oracle's packages, of which some are read and not imported; it need not exist."""
    folder = _python(name).parent.parent
    return next(folder.glob("lib/python3*/site-packages"), folder)


def needs_oracle(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that an oracle answers: it is slow, since only `make test-slow` installs oracles.

    Without the oracle's environment the test is skipped, and fails in CI.
    """
    return pytest.mark.needs_oracle(name)


def mark_oracle_test(item: pytest.Item) -> None:
    """Give a collected test the marks that follow from the oracles it needs."""
    for mark in item.iter_markers("needs_oracle"):
        (name,) = mark.args
        item.add_marker(pytest.mark.slow)
        is_needed = "ASSAYMARK_CI" in os.environ and name not in _MAY_BE_MISSING_IN_CI
        if not is_needed and not _python(name).is_file():
            item.add_marker(pytest.mark.skip(reason=_missing(name)))


def _missing(name: str) -> str:
    return f"{name} is not installed at {_python(name)}: make test-slow does it"


def oracle(name: str, given: Any, folder: Path | None = None, script: str | None = None) -> Any:
    """Return what an oracle answers. It gets no token and no proxy, and its home is `folder`, where one is given.

    script: runs in its environment; default: `run_NAME.py`.
    """
    assert _python(name).is_file(), _missing(name)
    passed = {each: os.environ[each] for each in ("PATH", "LANG", "LD_LIBRARY_PATH") if each in os.environ}
    done = subprocess.run(
        [str(_python(name)), "-W", "ignore", str(_HERE / (script or f"run_{name}.py"))],
        input=json.dumps(given), capture_output=True, text=True, timeout=300, cwd=folder, check=False,
        env={**passed, **({"HOME": str(folder)} if folder is not None else {})},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
