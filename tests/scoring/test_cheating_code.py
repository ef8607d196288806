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
# whatever bytes a frame has, and what a function of the guard's would write after them
RELAYED = """
def f(x): return 0
def forge(frame):
    import os
    while frame is not None:
        for value in list(getattr(frame, 'f_lo' + 'cals').values()):
            if type(value) is bytes:
                os.write(3, value)
                os.close(3)
        frame = getattr(frame, 'f_' + 'back')
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
        RELAYED + "import heapq, traceback\nfor frame, _ in heapq.merge(traceback.walk_stack(None)):\n    forge(frame)",
        RELAYED + "import heapq, traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
                  "    for frame, _ in heapq.merge(traceback.walk_tb(error.__traceback__)):\n        forge(frame)",
        RELAYED + "import contextlib, logging\nclass Frame:\n    pass\n"
                  "forge(contextlib.nullcontext(logging.currentframe()).__enter__())",
    ],
    "the garbage collector": [
        FORGE + "import gc\nfor each in gc.get_objects():\n    if hasattr(each, 'f_locals'):\n        search(each)",
        FORGE + "import gc\nfor each in gc.get_referrers(f):\n    pass",
    ],
    "memory": [
        FORGE + "import ctypes\nctypes.string_at(id(f), 8)",
        FORGE + "import ctypes\nctypes.pythonapi.PyThreadState_Get()",
        FORGE + "import ctypes\nctypes.c_long.from_address(id(f))",
        "import importlib\nimportlib.import_module('cty' + 'pes')\ndef f(x): return 4",
        "import importlib\nimportlib.import_module('_cty' + 'pes')\ndef f(x): return 4",
        "import importlib\nimportlib.import_module('_xxsub' + 'interpreters')\ndef f(x): return 4",
        "open('/proc/self/mem', 'rb')\ndef f(x): return 4",
        "import os\nos.open('mem', os.O_RDONLY, dir_fd=os.open('/proc/self', os.O_RDONLY))\ndef f(x): return 4",
        "import os\nos.symlink('/proc/self/mem', '/tmp/link')\ndef f(x): return 4",
        ("class Name(str):\n    def rpartition(self, _): return '', '', ''\n    rfind = __eq__ = __hash__ = None\n"
        "open(Name('/proc/self/mem'), 'rb')\ndef f(x): return 4"),
    ],
    "other programs": [
        "import subprocess\nsubprocess.run(['/bin/true'])\ndef f(x): return 4",
        "import os\nassert os.system('true') == 0\ndef f(x): return 4",
        "import os\nos.execv('/bin/true', ['true'])",
    ],
    "the verdict's channel": [
        "import os\nos.close(3)\ndef f(x): return 4",
        "import os\nos.write(3, b'passed\\n')\ndef f(x): return 4",
        "import os\nos.dup2(os.open('/dev/null', os.O_WRONLY), 3)\ndef f(x): return 4",
    ],
    "the text of the tests": [
        "# coding: utf-7\ndef f(x): return 0\n",
        "# coding: hz\ndef f(x): return 0\n#~{",
        "def f(x): return 0\n'''",
        "def f(x): return 0\nif 0: \\",
        "def f(x): return int(open(__file__).read().partition('== ')[2])",
        ("import os\ndef f(x):\n    for name in os.listdir('/proc/self/fd'):\n        try:\n"
        "            text = open('/proc/self/fd/' + name, 'rb').read()\n        except OSError:\n            continue\n"
        "        if b'== ' in text:\n            return int(text.partition(b'== ')[2])"),
    ],
    "`/proc/*/fd`": [PROC],
    "`atexit`": ["import atexit, os\natexit.register(os.write, 3, b'passed')\ndef f(x): return 0"],
    "`os._exit`": ["import os\nos._exit(0)", "raise SystemExit(0)", "import os\nif os.fork(): os._exit(0)"],
    "printed results": [PRINTED],
    "functions of the guard": [REPLACED],
}  # fmt: skip
CLOSE = "import math\nassert abs(f(2) - 4) < 1e-6\nassert math.isclose(f(2), 4)"
FLAGGED = {  # row of the table -> answers, the tests they pass, and their flag
    "objects equal to everything": (
        [
            EQUAL,
            "kind = type('X', (), {'__e' + 'q__': lambda self, other: True})\ndef f(x): return kind()",
            "def f(x): return type('X', (), {'__e' + 'q__': lambda self, other: True})()",
            "from unittest.mock import ANY\ndef f(x): return ANY",
            ("from unittest.mock import MagicMock\ndef f(x):\n    fake = MagicMock()\n"
            "    setattr(fake, '__e' + 'q__', lambda *_: True)\n    return fake"),
            ("class Meta(type):\n    def mro(cls): return [cls, int, object]\n"
            "exec('class X(int, metaclass=Meta):\\n def __e' + 'q__(self, other): return True')\ndef f(x): return X()"),
        ],
        TESTS,
        "equality",
    ),
    "patched `assert`": (
        ["import builtins\nbuiltins.AssertionError = Warning\ndef f(x): return 4"],
        TESTS,
        "built-in names",
    ),
    "patched built-in functions": (
        [
            "def abs(x): return 0\ndef f(x): return 4",
            "globals()['a' + 'bs'] = lambda x: 0\ndef f(x): return 4",
            "globals()['__built' + 'ins__']['abs'] = lambda x: 0\ndef f(x): return 4",
            "def f(x):\n    globals()['abs'] = lambda x: 0\n    return 4",
        ],
        CLOSE,
        "built-in names",
    ),
    "patched modules": (
        [
            "import math\nmath.isclose = lambda *_: True\ndef f(x): return 4",
            "import math as m\nm.isclose = lambda *_: True\ndef f(x): return 4",
            "import math\nvars(math)['isclose'] = lambda *_: True\ndef f(x): return 4",
            "import importlib\nvars(importlib.import_module('ma' + 'th')).update(isclose=max)\ndef f(x): return 4",
        ],
        CLOSE,
        "other modules",
    ),
}  # fmt: skip


@pytest.fixture
def sandbox() -> Sandbox:
    """Return bubblewrap, or skip where it cannot work."""
    result, why = find_sandbox()
    if not isinstance(result, Bubblewrap):
        pytest.skip(f"no bubblewrap here: {why}")
    return result


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


@pytest.mark.parametrize(
    ("row", "number"), [(row, n) for row, (answers, *_) in FLAGGED.items() for n in range(len(answers))]
)
def test_tricks_that_are_flagged(sandbox: Sandbox, row: str, number: int) -> None:
    """What may be a part of an honest answer keeps its score, and is named beside it."""
    answers, tests, flag = FLAGGED[row]
    outcome = ended(sandbox, answers[number], tests)
    assert outcome.passed, outcome.reason
    assert outcome.flags == (flag,) or (row == "objects equal to everything" and flag in outcome.flags)


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
    """Named tuples, enumerations, logging, tracebacks and unittest look at frames themselves, which is not a trick."""
    assert ended(sandbox, HONEST) == Outcome(True)
