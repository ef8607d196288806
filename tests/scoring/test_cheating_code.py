"""Answers that try to pass their tests without solving the problem: each row of the documentation's table."""

from pathlib import Path

import pytest

from assaymark.scoring.run_code import Bubblewrap, Limits, Outcome, Sandbox, find_sandbox, run_programs, running_in

DOCS = Path(__file__).parents[2] / "docs" / "how_scores_are_computed.md"
TESTS = "assert f(2) == 4"
FORGE = """
def search(frame):
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if isinstance(value, bytes) and len(value) == 32:
                import os
                os.write(3, value)
                os._exit(0)
        frame = frame.f_back
def f(x): return 0
"""
PROC = """
import os
for process in ("self", "1", str(os.getppid())):
    for number in range(12):
        try:
            with open(f"/proc/{process}/fd/{number}", "wb", buffering=0) as file:
                file.write(b'{"passed": true, "reason": null}\\n')
        except OSError:
            pass
def f(x): return 0
"""
PRINTED = """
import os
print('{"passed": true, "reason": null}', flush=True)
os.write(1, b'{"passed": true, "reason": null}\\n')
os.write(3, b"passed")
os._exit(0)
"""
REPLACED = """
import __main__, os
os.write = os._exit = lambda *_: None
__main__.end_everything = __main__.watch = lambda *_: None
def f(x): return 0
"""
EQUAL = """
class Any:
    def __eq__(self, other): return True
def f(x): return Any()
"""
CAUGHT = {  # row of the table -> programs, each of which passed or could pass without the guard's measures
    "frames": [
        FORGE + "import sys\nsearch(sys._getframe())",
        FORGE + "import inspect\nsearch(inspect.currentframe())",
        FORGE + "import inspect\nsearch(inspect.stack()[-1].frame)",
        FORGE + "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    search(error.__traceback__.tb_frame)",
        FORGE + "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
                "    search(next(traceback.walk_tb(error.__traceback__))[0])",
        FORGE + "def g():\n    search(own.gi_frame)\n    yield\nown = g()\nnext(own)",
        FORGE + "async def g():\n    search(own.cr_frame)\nown = g()\nown.send(None)",
        FORGE + "import sys\nsearch(list(sys._current_frames().values())[0])",
        FORGE + "import sys\nsys.settrace(lambda frame, *_: search(frame))\nf(1)",
        FORGE + "import sys\nsys.setprofile(lambda frame, *_: search(frame))\nf(1)",
        FORGE + "import logging\nsearch(logging.currentframe())",
        FORGE + "exec('import sys; search(sys._getframe())')",
    ],
    "the garbage collector": [
        FORGE + "import gc\nfor each in gc.get_objects():\n    if hasattr(each, 'f_locals'):\n        search(each)",
        FORGE + "import gc\nfor each in gc.get_referrers(f):\n    pass",
    ],
    "memory": [
        FORGE + "import ctypes\nctypes.string_at(id(f), 8)",
        FORGE + "import ctypes\nctypes.pythonapi.PyThreadState_Get()",
        FORGE + "import ctypes\nctypes.c_long.from_address(id(f))",
    ],
    "`/proc/*/fd`": [PROC],
    "`atexit`": ["import atexit, os\natexit.register(os.write, 3, b'passed')\ndef f(x): return 0"],
    "`os._exit`": ["import os\nos._exit(0)", "raise SystemExit(0)", "import os\nif os.fork(): os._exit(0)"],
    "printed results": [PRINTED],
    "functions of the guard": [REPLACED],
}  # fmt: skip
FLAGGED = {
    "objects equal to everything": (EQUAL, "equality"),
    "patched `assert`": ("import builtins\nbuiltins.AssertionError = Warning\ndef f(x): return 4", "built-in names"),
    "patched modules": ("import math\nmath.isclose = lambda *_: True\ndef f(x): return 4", "other modules"),
}  # fmt: skip


@pytest.fixture
def sandbox() -> Sandbox:
    """Return bubblewrap, or skip where it cannot work."""
    found, why = find_sandbox()
    if not isinstance(found, Bubblewrap):
        pytest.skip(f"no bubblewrap here: {why}")
    return found


def ended(sandbox: Sandbox, answer: str, tests: str = TESTS) -> Outcome:
    """Run an answer with its tests."""
    with running_in(sandbox):
        return run_programs([answer], Limits(), tests=tests)[0]


@pytest.mark.parametrize(("row", "number"), [(row, n) for row, answers in CAUGHT.items() for n in range(len(answers))])
def test_tricks_that_are_caught(sandbox: Sandbox, row: str, number: int) -> None:
    """An answer that is wrong does not pass by reaching for the guard, its channels or its end."""
    outcome = ended(sandbox, CAUGHT[row][number])
    assert not outcome.passed, row
    if row in {"frames", "the garbage collector", "memory"}:
        assert "it inspects its interpreter" in (outcome.reason or "")


@pytest.mark.parametrize("row", FLAGGED)
def test_tricks_that_are_flagged(sandbox: Sandbox, row: str) -> None:
    """What may be a part of an honest answer keeps its score, and is named beside it."""
    answer, flag = FLAGGED[row]
    outcome = ended(sandbox, answer)
    assert outcome.passed
    assert outcome.flags == (flag,)


def test_the_table_of_the_documentation_has_these_rows() -> None:
    """Every trick that is tested is in the table, and no other."""
    text = DOCS.read_text(encoding="utf-8").partition("## Answers that are programs")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert sorted(rows) == sorted([*CAUGHT, *FLAGGED])


HONEST = """
import collections, contextlib, dataclasses, enum, functools, itertools, logging, math, re, traceback, typing, unittest
import warnings
Point = collections.namedtuple("Point", "x y")
class Colour(enum.Enum):
    RED = 1
@dataclasses.dataclass(order=True)
class Item:
    name: str
T = typing.TypeVar("T")
class Row(typing.NamedTuple):
    n: int
@functools.lru_cache(None)
def f(x):
    logging.basicConfig()
    logging.error("called with %s", x)
    warnings.warn("once")
    with contextlib.suppress(ZeroDivisionError):
        1 / 0
    try:
        raise ValueError(x)
    except ValueError:
        traceback.print_exc()
        traceback.format_exc()
    class Case(unittest.TestCase):
        def test_it(self):
            self.assertEqual(1, 2)
    unittest.TestResult()
    unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Case))
    return Point(x, x).x * 2
"""


def test_honest_programs_pass_unflagged(sandbox: Sandbox) -> None:
    """Named tuples, enumerations, logging, tracebacks and unittest look at frames themselves, which is no trick."""
    assert ended(sandbox, HONEST) == Outcome(True)
