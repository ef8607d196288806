"""Other tools' own code as an oracle, each in an environment of its own that `make oracles` installs.

`NAME.txt` locks the environment's packages, `run_NAME.py` runs in it: JSON on standard input, JSON on standard output.
What it answers is recorded (`tests/recorded.py`), so that a run of the tests needs no environment. The oracles in
`LIVE` are asked in every run, since the tests also use their packages.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import recorded

__all__ = ["LIVE", "mark_oracle_test", "needs_oracle", "oracle", "oracle_packages"]

_HERE = Path(__file__).parent
LIVE = frozenset({"bfcl", "profanity"})
"""Installed by `make test-slow`."""
_MAY_BE_MISSING_IN_CI: frozenset[str] = frozenset()
"""Those of LIVE that `.ci/run` may skip, each with a comment that says why; others fail there where they lack."""


def _python(name: str) -> Path:
    """Return the interpreter of an oracle: NAME_PYTHON, else the one that the Makefile installs."""
    return Path(os.environ.get(f"{name.upper()}_PYTHON") or Path(sys.prefix, "oracles", name, "bin", "python"))


def oracle_packages(name: str) -> Path:
    """Return the folder of an oracle's packages, of which some are read and not imported; it need not exist."""
    folder = _python(name).parent.parent
    return next(folder.glob("lib/python3*/site-packages"), folder)


def needs_oracle(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that an oracle answers, from its record or, for those in `LIVE`, itself.

    The latter tests are slow, since only `make test-slow` installs oracles; without the oracle's environment they are
    skipped, and fail in CI.
    """
    return pytest.mark.needs_oracle(name)


def mark_oracle_test(item: pytest.Item) -> None:
    """Give a collected test the marks that follow from the oracles it needs."""
    for mark in item.iter_markers("needs_oracle"):
        (name,) = mark.args
        if name not in LIVE:
            continue
        item.add_marker(pytest.mark.slow)
        is_needed = "ASSAYMARK_CI" in os.environ and name not in _MAY_BE_MISSING_IN_CI
        if not is_needed and not _python(name).is_file():
            item.add_marker(
                pytest.mark.skip(reason=f"{name} is not installed at {_python(name)}: make test-slow does it")
            )


def oracle(
    name: str,
    given: Any,
    folder: Path | None = None,
    script: str | None = None,
    places: Mapping[str, str] | None = None,
) -> Any:
    """Return what an oracle answers.

    Args:
        name: of the oracle.
        given: what it is asked, as JSON; the same on every machine.
        folder: its working folder and its home, with files that follow from `given`.
        script: runs in its environment; default: `run_NAME.py`.
        places: keys and paths of this machine that the script gets beside those of `given`, a mapping then.
    """
    script = script or f"run_{name}.py"
    if name in LIVE:
        return _answer(name, given, folder, script)
    sources = [_HERE / f"{name}.txt", _HERE / script]
    if "shared_application" in sources[1].read_text(encoding="utf-8"):
        sources.append(_HERE / "shared_application.py")
    return recorded(
        name, given, sources, lambda: _answer(name, {**given, **places} if places else given, folder, script)
    )


def _answer(name: str, given: Any, folder: Path | None, script: str) -> Any:
    """Ask an oracle, which gets no token and no proxy."""
    if not _python(name).is_file():
        pytest.fail(f"{name} has not been asked this yet, or its lock file or script changed: run `make oracles`")
    passed = {each: os.environ[each] for each in ("PATH", "LANG", "LD_LIBRARY_PATH") if each in os.environ}
    done = subprocess.run(
        [str(_python(name)), "-W", "ignore", str(_HERE / script)],
        input=json.dumps(given), capture_output=True, text=True, timeout=300, cwd=folder, check=False,
        env={**passed, **({"HOME": str(folder)} if folder is not None else {})},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
