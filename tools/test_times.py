"""Where the time of the tests goes: seconds by file, by test and by fixture, also of the processes that tests start.

    TEST_TIMES=DIR .venv/bin/python -m pytest -p tools.test_times ...
    .venv/bin/python tools/test_times.py DIR [N]

A busy machine stretches the clock and not the processor's seconds, so both are shown; a process that a test does not
wait for is in neither. A fixture's seconds hold those of the fixtures that it requests.
"""

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_PLACE = os.environ.get("TEST_TIMES")


def _now() -> tuple[float, float, float]:
    """Return the clock, and the processor's seconds of this process and of its ended children."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return time.monotonic(), own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def _write(kind: str, name: str, since: tuple[float, float, float]) -> None:
    if _PLACE is None:
        return
    Path(_PLACE).mkdir(parents=True, exist_ok=True)
    seconds = [round(now - then, 4) for now, then in zip(_now(), since, strict=True)]
    with Path(_PLACE, f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps([kind, name, *seconds]) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Time the collection of one worker."""
    since = _now()
    result = yield
    _write("collection", os.environ.get("PYTEST_XDIST_WORKER", "main"), since)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Time one test with its fixtures."""
    since = _now()
    result = yield
    _write("test", item.nodeid, since)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """Time one fixture each time it is made."""
    since = _now()
    result = yield
    _write("fixture", f"{fixturedef.baseid}::{fixturedef.argname}", since)
    return result


def main(folder: Path, n: int) -> None:
    """Print what takes longest."""
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0, 0.0, 0]))
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            kind, name, *seconds = json.loads(line)
            names = {kind: name, "file": name.partition("::")[0]} if kind == "test" else {kind: name}
            for each, key in names.items():
                row = sums[each][key]
                for place, value in enumerate([*seconds, 1]):
                    row[place] += value
    for kind in ("collection", "file", "test", "fixture"):
        rows = sorted(sums[kind].items(), key=lambda row: -row[1][1] - row[1][2])
        total = [sum(row[place] for _, row in rows) for place in range(4)]
        print(f"\n{kind:<10} {len(rows)} names\n{'clock':>9} {'own':>9} {'children':>9} {'times':>6}")
        for name, row in [("in all", total), *rows[:n]]:
            print(f"{row[0]:9.1f} {row[1]:9.1f} {row[2]:9.1f} {row[3]:6.0f}  {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30)
