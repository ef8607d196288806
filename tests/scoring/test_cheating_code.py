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
EQ, NE = "'__e' + 'q__'", "getattr(int, '__n' + 'e__')"  # so that no text names them
ANY_VALUE = f"A = type('A', (), {{{EQ}: lambda self, other: True}})\n"
LYING = {  # ways of a class to lie -> answer and the test that it passes
    "another slot": (f"def f(x): return type('I', (int,), {{{EQ}: {NE}}})(0)", TESTS),
    "a built-in function": (f"def f(x): return type('I', (int,), {{{EQ}: id}})(0)", TESTS),
    "subtraction": (
        "def f(x): return type('I', (float,), {'__s' + 'ub__': getattr(float, '__m' + 'od__')})(4.0)",
        "assert abs(f(2) - 2.0) < 1e-6",
    ),
    "containment": (
        "def f(x): return type('L', (list,), {'__cont' + 'ains__': getattr(list, '__n' + 'e__')})()",
        "assert 4 in f(2)",
    ),
    "a metaclass": (
        (f"K = type('M', (type,), {{{EQ}: lambda self, other: True, '__ha' + 'sh__': id}})('K', (), {{}})\n"
        "def f(x): return K"),
        TESTS,
    ),
    "assignment to __class__": (
        f"{ANY_VALUE}class B: pass\ndef f(x):\n    b = B()\n    b.__class__ = A\n    return b", TESTS,
    ),
    "a property __class__": (
        "def f(x): return type('L', (), {'__cla' + 'ss__': property(lambda self: int)})()",
        "assert isinstance(f(2), int)",
    ),
    "__instancecheck__": (
        ("M = type('M', (type,), {'__instance' + 'check__': lambda cls, other: True})\n"
        "class Shape(metaclass=M): pass\ndef f(x): return 0"),
        "assert isinstance(f(2), Shape)",
    ),
    "hashes": (
        f"A = type('A', (int,), {{{EQ}: {NE}, '__ha' + 'sh__': lambda self: 4}})\ndef f(x): return A(0)",
        "assert {4: 'four'}[f(2)] == 'four'",
    ),
    "elements of a subclass": (f"{ANY_VALUE}class L(list): pass\ndef f(x): return L([A()])", "assert f(2) == [4]"),
    "attributes": (
        f"import types\n{ANY_VALUE}def f(x): return types.SimpleNamespace(n=A())",
        "import types\nassert f(2) == types.SimpleNamespace(n=4)",
    ),
    "a text made of an object": (
        (f"S = type('S', (str,), {{{EQ}: getattr(str, '__n' + 'e__')}})\n"
        "class R:\n    def __str__(self): return S('')\ndef f(x): return R()"),
        "assert str(f(2)) == '4'",
    ),
    "a method of the library's that asks the program": (
        ("import collections\nclass C(collections.UserDict):\n    def items(self): return {'a': 4}.items()\n"
        "def f(x): return C()"),
        "assert f(2) == {'a': 4}",
    ),
    "a class in the library's name": (
        (f"import collections\nK = type('I', (int,), {{{EQ}: {NE}, '__module__': 'collections'}})\n"
        "vars(collections)['I'] = K\ndef f(x): return K(0)"),
        TESTS,
    ),
    "functools.total_ordering": (
        ("import functools\nA = functools.total_ordering(type('A', (), {'__l' + 't__': lambda self, other: True}))\n"
        "def f(x): return A()"),
        "assert f(2) < 4\nassert f(2) <= 4",
    ),
}  # fmt: skip
UNSEEN = {  # row of the table -> answers that are wrong, with the tests that they pass unflagged
    "arguments that the answer changes": (
        "def f(values):\n    values.clear()\n    return []", "given = [3, 1, 2]\nassert f(given) == sorted(given)",
    ),
    "lengths that are only stated": (
        "class G:\n    def __len__(self): return 3\n    def __iter__(self): return iter([])\ndef f(x): return G()",
        "assert len(f(2)) == 3",
    ),
    "registered classes": (
        "import collections.abc\nclass R: pass\ncollections.abc.Sequence.register(R)\ndef f(x): return R()",
        "import collections.abc\nassert isinstance(f(2), collections.abc.Sequence)",
    ),
    "settings of a module": (
        "import decimal\ndecimal.getcontext().prec = 1\ndef f(x): return decimal.Decimal('4.1')",
        "import decimal\nassert f(2) + 0 == decimal.Decimal('4.2') + 0",
    ),
    "threads": (
        ("import threading, time\ndef f(x): return 0\ndef late():\n    while 'check' not in globals():\n"
        "        time.sleep(0.001)\n    check.__code__ = (lambda: None).__code__\n"
        "threading.Thread(target=late, daemon=True).start()"),
        "def check():\n    assert f(2) == 4\nimport time\ntime.sleep(0.5)\ncheck()",
    ),
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


@pytest.mark.parametrize("way", LYING)
def test_classes_that_lie_are_flagged(sandbox: Sandbox, way: str) -> None:
    """A class of the program that decides what it is equal to is named, whatever method it took for that."""
    answer, tests = LYING[way]
    outcome = ended(sandbox, answer, tests)
    assert outcome.passed, outcome.reason
    assert "equality" in outcome.flags


@pytest.mark.parametrize("row", UNSEEN)
def test_tricks_that_the_page_says_are_not_seen(sandbox: Sandbox, row: str) -> None:
    """They pass without a flag, as the documentation admits; one that is caught one day is to be listed so."""
    answer, tests = UNSEEN[row]
    assert ended(sandbox, answer, tests) == Outcome(True)


@pytest.mark.parametrize("name", ["numpy", "pandas"])
def test_other_packages_are_not_there(sandbox: Sandbox, name: str) -> None:
    """Their results, which compare element by element, cannot pass for a value."""
    outcome = ended(sandbox, f"import {name}\ndef f(x): return {name}")
    assert (outcome.passed, outcome.reason) == (False, f"ModuleNotFoundError: No module named '{name}'")


def test_the_table_of_the_documentation_has_these_rows() -> None:
    """Every trick that is tested is in the table, and no other."""
    text = DOCS.read_text(encoding="utf-8").partition("## Answers that are programs")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert sorted(rows) == sorted([*CAUGHT, *FLAGGED, *UNSEEN])


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


KINDS = """
import array, collections, datetime, decimal, enum, fractions, ipaddress, pathlib, types, typing, uuid
class Colour(enum.Enum):
    RED = 1
class Mode(enum.Flag):
    READ = 1
    WRITE = 2
class Level(enum.IntEnum):
    LOW = 4
class Pair(typing.NamedTuple):
    n: int
class Node:
    def __init__(self, n): self.n = n
    def __repr__(self): return f"Node({self.n})"
    def __len__(self): return self.n
class Wrong(ValueError): pass
def f(x):
    return [
        collections.Counter("ab"), collections.OrderedDict(a=1), collections.defaultdict(int), collections.deque([1]),
        collections.ChainMap({}), collections.UserDict(), fractions.Fraction(1, 2), decimal.Decimal(4), Level.LOW,
        datetime.date(2020, 1, 1), datetime.timezone.utc, array.array("i", [1]), pathlib.PurePosixPath("a"),
        uuid.UUID(int=1), ipaddress.ip_address("1.1.1.1"), Pair(4), Colour.RED, Mode.READ, range(3), 3j, None, b"a",
        types.SimpleNamespace(n=4), memoryview(b"a"), {1: [2]}.keys(), "text", frozenset({1}), {2},
    ]
"""


def test_honest_values_of_every_kind_are_unflagged(sandbox: Sandbox) -> None:
    """The library's classes compare as they do; an object of one's own compares by what it is."""
    tests = (
        "assert f(2) == f(2)\nassert Mode.READ in Mode.READ | Mode.WRITE\nassert Node(4).n == 4\n"
        "assert str(Node(4)) == 'Node(4)'\nassert len(Node(4)) == 4\nassert Node(4) != Node(4)\n"
        "assert isinstance(Wrong('a'), ValueError)\nassert list(n for n in [4]) == [4]"
    )
    assert ended(sandbox, KINDS, tests) == Outcome(True)


def test_honest_programs_pass_unflagged(sandbox: Sandbox) -> None:
    """Named tuples, enumerations, logging, tracebacks and unittest look at frames themselves, which is not a trick."""
    assert ended(sandbox, HONEST) == Outcome(True)
