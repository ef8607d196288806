"""Logs of real runs read as SWE-bench's own parsers read them, and the ends of runs that are no pytest's.

`logs/` has what Django 3.0's tests, sympy's at the base commit of sympy-20590 and pytest printed, and in
`expected.json` what swebench 5.0.2's parsers make of it. With ASSAYMARK_TEST_SWEBENCH, an interpreter that has
swebench, they are asked.
"""

import hashlib
import hmac
import importlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.store import Store
from assaymark.swe.attempts import run_tests
from assaymark.swe.base_copies import Repositories
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.grading import GradeOptions, grade
from assaymark.swe.instances import Instance, Prediction
from assaymark.swe.runners import RUNNERS
from assaymark.swe.sandbox import SweLimits
from assaymark.swe.verdicts import TestRun, disagreements, parse_log, printed_counts
from tests.swe.projects import commit, git

LOGS = Path(__file__).with_name("logs")
EXPECTED = json.loads((LOGS / "expected.json").read_text(encoding="utf-8"))
ASK = """
import json, sys
from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY as parsers
print(json.dumps([parsers[repo](open(path).read(), None) for path, repo in json.load(sys.stdin)]))
"""


def text_of(name: str) -> str:
    """Return a log."""
    return (LOGS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_log_is_read_as_swebench_reads_it(name: str) -> None:
    """Every test has the same status, and none is missing or added."""
    log, repository = name.split(" ")
    assert EXPECTED[name]
    assert parse_log(text_of(log), repository) == EXPECTED[name]


def test_swebench_says_so() -> None:
    """The expectations are those of its parsers."""
    python = os.environ.get("ASSAYMARK_TEST_SWEBENCH")
    if python is None:
        pytest.skip("ASSAYMARK_TEST_SWEBENCH names no interpreter that has swebench")
    jobs = [(str(LOGS / f"{name.split(' ')[0]}.txt"), name.split(" ")[1]) for name in EXPECTED]
    done = subprocess.run([python, "-c", ASK], input=json.dumps(jobs), capture_output=True, text=True, check=True)
    assert dict(zip(EXPECTED, json.loads(done.stdout), strict=True)) == EXPECTED


@pytest.mark.parametrize(
    ("log", "repository", "status"),
    [("django", "django/django", 0), ("django_failures", "django/django", 1), ("sympy", "sympy/sympy", 1)],
)
def test_a_run_that_ended_is_told_from_one_that_did_not(log: str, repository: str, status: int) -> None:
    """The last lines must be there, at the end, and a status of failure needs a failed test."""
    runner, text = RUNNERS[repository], text_of(log)
    statuses = parse_log(text, repository)
    assert runner.why_incomplete(text, status, statuses) == ""
    assert "before its last lines" in runner.why_incomplete(text[: len(text) // 2], 0, statuses)
    assert "after the runner's last lines" in runner.why_incomplete(f"{text}\ntest_more ... ok\n", status, statuses)
    assert "no test is printed as failed" in runner.why_incomplete(text, 3, {"a": "PASSED"})


def reports(*bodies: Sequence[object]) -> bytes:
    """Return authenticated reports, as the plugin sends them."""
    mac, lines = b"", []
    for each in bodies:
        body = json.dumps(each).encode()
        mac = hmac.new(b"key", mac + body, hashlib.sha256).hexdigest().encode()
        lines.append(mac + b" " + body)
    return b"\n".join(lines)


def of_test(name: str, outcome: str) -> list[Sequence[object]]:
    """Return the reports of a test whose call has an outcome."""
    call = ["call", name, "call", None if outcome == "passed" else "AssertionError", outcome]
    setup: list[Sequence[object]] = [["call", name, "setup", None, "passed"], ["test", name, "setup", "passed", False]]
    return [*setup, call, ["test", name, "call", outcome, False]]


A, B, C = (f"tests/test_a.py::test_{letter}" for letter in "abc")


@pytest.mark.parametrize(
    ("outcomes", "log", "expected"),
    [
        ({A: "passed", B: "passed"}, f"PASSED {A}\nPASSED {B}\n=== 2 passed in 0.10s ===\n", []),
        (
            {A: "passed", B: "passed"},
            f"PASSED {A}\nPASSED {B}\n=== 3 passed, 1 warning in 0.10s ===\n",
            ["pytest's last line says 3 passed, the reports 2 passed"],
        ),
        (
            {A: "passed", B: "failed"},
            f"PASSED {A}\nPASSED {B}\n=== 2 passed in 0.10s ===\n",
            [
                f"{B} was printed as passed and did not pass",
                "pytest's last line says 2 passed, the reports 1 failed, 1 passed",
            ],
        ),
        (
            {A: "passed"},
            f"PASSED {A}\nPASSED {B}\nPASSED {C}\n=== 1 passed in 0.10s ===\n",
            [f"{each} was printed as passed and did not pass" for each in (B, C)],
        ),
        ({A: "failed"}, f"FAILED {A}\n=== 1 failed, 5 deselected, 2 warnings in 0.10s ===\n", []),
        ({A: "passed"}, f"PASSED {A}\n", []),  # no last line
    ],
)
def test_what_was_printed_against_the_reports(outcomes: dict[str, str], log: str, expected: list[str]) -> None:
    """Other counts in pytest's last line, and tests that only printed lines call passed; warnings do not count."""
    instance = Instance(
        instance_id="local__p-1", repo="local/p", base_commit="0" * 40, patch="", test_patch="", problem_statement="",
        FAIL_TO_PASS=(B,), PASS_TO_PASS=(A, C),
    )  # fmt: skip
    tests = [report for name, outcome in outcomes.items() for report in of_test(name, outcome)]
    run = TestRun.of(log, reports(["start", "3.11"], *tests, ["finish", 0]), b"key", instance.repo)
    assert run.reported.forged == ()
    assert disagreements(instance, run) == expected


def test_counts_of_a_run_without_its_last_report_are_not_compared() -> None:
    """What is missing of it is known already: the run is incomplete."""
    instance = Instance(
        instance_id="local__p-1", repo="local/p", base_commit="0" * 40, patch="", test_patch="", problem_statement="",
        FAIL_TO_PASS=(A,), PASS_TO_PASS=(),
    )  # fmt: skip
    run = TestRun.of("=== 9 passed in 0.10s ===\n", reports(["start", "3.11"], *of_test(A, "passed")), b"key", "l/p")
    assert run.reported.status is None
    assert disagreements(instance, run) == []


RUNTESTS = """import sys, unittest
sys.path[:0] = [".", "tests"]
names = [word for word in sys.argv[1:] if "." in word and "=" not in word]
suite = unittest.defaultTestLoader.loadTestsFromNames(names)
if "Coroutines" in str(suite):
    sys.stderr.write("  Applying sites.0002_alter_domain_unique...")  # as Django's do, without an end of line
sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
"""
CODE = "def add(a, b):\n    return a - b\n"
TESTS = """import unittest
from calc import add


class Tests(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(1, 0), 1)
"""
CALLED_PASSED = """


import unittest
unittest.TextTestResult.addFailure = lambda result, test, error: result.addSuccess(test)"""
WRITES = """


import os
for number in range(3, 1024):
    try:
        os.write(number, b"0 [1]\\n")
    except OSError:
        pass"""
OF_FIX = """
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""


@pytest.mark.slow
def test_a_repository_with_its_own_runner_is_graded(store: Store, tmp_path: Path) -> None:
    """Gold resolves; nothing else does, whatever it prints."""
    project = tmp_path / "django"
    project.mkdir()
    git(project, "init", "-q")
    commit(project, "A", {"calc.py": CODE, "tests/runtests.py": RUNTESTS, "tests/sums/__init__.py": "",
                          "tests/sums/tests.py": TESTS})  # fmt: skip
    commit(project, "B", {"calc.py": CODE.replace("a - b", "a + b"), "tests/sums/tests.py": TESTS + OF_FIX})
    base, fixed = git(project, "rev-parse", "HEAD~1"), git(project, "rev-parse", "HEAD")
    instance = Instance(
        instance_id="django__django-1", repo="django/django", base_commit=base,
        patch=git(project, "diff", base, fixed, "--", "calc.py") + "\n",
        test_patch=git(project, "diff", base, fixed, "--", "tests") + "\n", problem_statement="It subtracts.",
        FAIL_TO_PASS=("test_add (sums.tests.Tests)",), PASS_TO_PASS=("test_zero (sums.tests.Tests)",),
    )  # fmt: skip
    options = GradeOptions(
        Repositories([str(project)]), Environments({"default": Environment("/usr/bin/python3")}), SweLimits(seconds=60)
    )
    if "test_add (sums.tests.Tests.test_add)" in _printed(project):  # Python 3.11 and later name the method too
        instance = replace(
            instance,
            FAIL_TO_PASS=("test_add (sums.tests.Tests.test_add)",),
            PASS_TO_PASS=("test_zero (sums.tests.Tests.test_zero)",),
        )
    names = [*instance.PASS_TO_PASS, *instance.FAIL_TO_PASS]
    printed = "".join(f"{name} ... ok\n" for name in names) + "\nRan 2 tests in 0.001s\n\nOK"
    outcomes, reasons = {}, {}
    for name, change in (
        ("gold", "a + b"),
        ("wrong", "a * b"),
        ("exit", "a + b\n\n\nimport os\nos._exit(0)"),
        ("printed", "a * b\n\n\nprint('test_add (sums.tests.Tests) ... ok')\nimport os\nos._exit(0)"),
        ("all printed", f"a * b\n\n\nprint({printed!r}, flush=True)\nimport os\nos._exit(0)"),
        ("called passed", f"a * b{CALLED_PASSED}"),
        ("writes reports", f"a * b{WRITES}"),
    ):
        patch = instance.patch.replace(
            "+    return a + b", "\n".join(f"+{line}" for line in f"    return {change}".split("\n"))
        )
        n_lines = change.count("\n")
        patch = patch.replace("@@ -1,2 +1,2 @@", f"@@ -1,2 +1,{2 + n_lines} @@")
        (graded,) = grade(store, [instance], [Prediction(instance.instance_id, name, patch)], options)
        outcomes[name] = graded.outcome
        assert graded.grading is not None
        reasons[name] = graded.reason
    assert outcomes == {
        "gold": "resolved", "wrong": "unresolved", "exit": "ambiguous_failure", "printed": "ambiguous_failure",
        "all printed": "ambiguous_failure", "called passed": "unresolved", "writes reports": "unresolved",
    }, reasons  # fmt: skip
    assert "before its last report" in reasons["all printed"]
    assert "was failed and was reported as passed" in reasons["called passed"]
    assert "wrote into the pipe" in reasons["writes reports"]


OF_ALL_KINDS = """import asyncio
import io
import unittest


class Kinds(unittest.TestCase):
    def test_passes(self):
        pass

    def test_described(self):
        \"\"\"It says what it does.\"\"\"

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_raises(self):
        raise ValueError

    @unittest.skip("no reason")
    def test_skipped(self):
        pass

    def test_skips(self):
        self.skipTest("no reason")

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    @unittest.expectedFailure
    def test_unexpected(self):
        pass

    def test_subtests(self):
        for number in range(2):
            with self.subTest(number=number):
                self.assertEqual(number, 0)

    def test_runs_tests(self):
        class Inner(unittest.TestCase):
            def test_inner(self):
                self.fail()

        ended = unittest.TextTestRunner(stream=io.StringIO()).run(Inner("test_inner"))
        self.assertEqual(len(ended.failures), 1)

    def test_cleaned(self):
        self.addCleanup(lambda: 1 / 0)


class Coroutines(unittest.IsolatedAsyncioTestCase):
    async def test_awaits(self):
        await asyncio.sleep(0)

    async def test_awaits_and_fails(self):
        await asyncio.sleep(0)
        self.fail()


class NotSetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError

    def test_never(self):
        pass
"""


@pytest.mark.slow
def test_what_unittest_makes_of_tests_is_reported(tmp_path: Path) -> None:
    """Each kind of result has its status; tests that tests run, and tests that did not run, have none."""
    texts = {"tests/runtests.py": RUNTESTS, "tests/sums/__init__.py": "", "tests/sums/tests.py": OF_ALL_KINDS}
    for name, text in texts.items():
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text(text)
    instance = Instance(
        instance_id="django__django-2", repo="django/django", base_commit="0" * 40, patch="", problem_statement="",
        test_patch="diff --git a/tests/sums/tests.py b/tests/sums/tests.py\n--- a/tests/sums/tests.py\n"
        "+++ b/tests/sums/tests.py\n@@ -1 +1 @@\n-a\n+b\n", FAIL_TO_PASS=("a",), PASS_TO_PASS=(),
    )  # fmt: skip
    environment = Environments({"default": Environment("/usr/bin/python3")}).of(instance)
    attempt = run_tests(instance, tmp_path / "work", environment, SweLimits(seconds=60))
    assert (attempt.stage, attempt.reason) == ("tested", "")
    assert attempt.run is not None
    assert attempt.run.reported.status == 1
    statuses = {name.split(" (")[0]: status for name, status in attempt.run.reported.statuses.items()}
    assert statuses == {
        "Applying sites.0002_alter_domain_unique...test_awaits": "PASSED",
        "test_passes": "PASSED", "It says what it does.": "PASSED", "test_fails": "FAILED", "test_raises": "ERROR",
        "test_skipped": "SKIPPED", "test_skips": "SKIPPED", "test_expected": "XFAIL", "test_unexpected": "XPASS",
        "test_subtests": "FAILED", "test_runs_tests": "PASSED", "test_cleaned": "ERROR", "test_awaits": "PASSED",
        "test_awaits_and_fails": "FAILED", "setUpClass": "ERROR",
    }  # fmt: skip
    passed = {name for name, status in attempt.run.printed.items() if status == "PASSED"}
    reported = {name for name, status in attempt.run.reported.statuses.items() if status == "PASSED"}
    assert reported - passed == {name for name in reported if name.startswith("test_awaits ")}
    assert passed <= reported


def _printed(project: Path) -> str:
    words = ["/usr/bin/python3", "tests/runtests.py", "sums.tests"]
    return subprocess.run(words, cwd=project, capture_output=True, text=True, check=False).stderr


BIN_TEST = """import sys
sys.path[:0] = ["."]
from sympy.testing.runtests import test
sys.exit(0 if test(*[word for word in sys.argv[1:] if word[0] != "-"], verbose=True) else 1)
"""
SUMS = """from sympy import Integer
from sympy.sums import add
from sympy.testing.pytest import SKIP, XFAIL, slow


def test_zero():
    assert add(Integer(0), 0) == 0


@XFAIL
def test_expected():
    assert add(1, 1) == 3


@XFAIL
def test_unexpected():
    assert add(0, 0) == 0


@SKIP("no reason")
def test_skipped():
    assert False


@slow
def test_slow():
    assert False


def test_several():
    yield test_zero,
"""
OF_SYMPYS_FIX = """

def test_add():
    assert add(Integer(2), 3) == 5


def test_raises():
    raise ValueError
"""
NEVER_FAILS = """


from sympy.testing.runtests import PyTestReporter
PyTestReporter.test_fail = lambda reporter, error: PyTestReporter.test_pass(reporter)"""


@pytest.mark.slow
def test_what_sympys_runner_makes_of_tests_is_reported(store: Store, tmp_path: Path) -> None:
    """Gold resolves; nothing else does, whatever it prints or replaces; each kind of result has its status."""
    project = tmp_path / "sympy"
    for package in ("sympy", "mpmath"):
        place = Path(importlib.import_module(package).__file__ or "").parent
        shutil.copytree(place, project / package, ignore=shutil.ignore_patterns("tests", "__pycache__", "benchmarks"))
    git(project, "init", "-q")
    commit(project, "A", {"bin/test": BIN_TEST, "sympy/sums.py": CODE, "sympy/tests/test_sums.py": SUMS})
    commit(project, "B", {"sympy/sums.py": CODE.replace("a - b", "a + b"),
                          "sympy/tests/test_sums.py": SUMS + OF_SYMPYS_FIX})  # fmt: skip
    base, fixed = git(project, "rev-parse", "HEAD~1"), git(project, "rev-parse", "HEAD")
    instance = Instance(
        instance_id="sympy__sympy-1", repo="sympy/sympy", base_commit=base, problem_statement="It subtracts.",
        patch=git(project, "diff", base, fixed, "--", "sympy/sums.py") + "\n",
        test_patch=git(project, "diff", base, fixed, "--", "sympy/tests") + "\n",
        FAIL_TO_PASS=("test_add",), PASS_TO_PASS=("test_zero",),
    )  # fmt: skip
    environments = Environments({"default": Environment("/usr/bin/python3")})
    options = GradeOptions(Repositories([str(project)]), environments, SweLimits(seconds=120))
    forged_lines = "".join(f"\n{name} ok" for name in ("test_zero", "test_add")) + "\n tests finished: 2 passed, in 1 s"
    graded = {}
    for name, change in (
        ("gold", "a + b"),
        ("wrong", "a * b"),
        ("all printed", f"a * b\n\n\nimport os\nprint({forged_lines!r}, flush=True)\nos._exit(0)"),
        ("never fails", f"a * b{NEVER_FAILS}"),
    ):
        text = CODE.replace("a - b", change)
        (project / "sympy" / "sums.py").write_text(text)
        patch = git(project, "diff", base, "--", "sympy/sums.py") + "\n"
        (graded[name],) = grade(store, [instance], [Prediction(instance.instance_id, name, patch)], options)
    assert {name: each.outcome for name, each in graded.items()} == {
        "gold": "resolved", "wrong": "unresolved", "all printed": "ambiguous_failure", "never fails": "unresolved",
    }, graded  # fmt: skip
    assert "before its last report" in graded["all printed"].reason
    assert "test_add was failed and was reported as passed" in graded["never fails"].reason
    git(project, "checkout", "-q", "-f", fixed)
    attempt = run_tests(instance, project, environments.of(instance), SweLimits(seconds=120))
    assert (attempt.stage, attempt.reason) == ("tested", "")
    assert attempt.run is not None
    assert attempt.run.reported.status == 1
    assert attempt.run.reported.statuses == {
        "test_zero": "PASSED", "test_add": "PASSED", "test_raises": "ERROR", "test_expected": "XFAIL",
        "test_unexpected": "XPASS", "test_skipped": "SKIPPED", "test_slow": "SKIPPED",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("repository", "line"),
    [
        ("sphinx-doc/sphinx", "a" + " " * 9_990),
        ("sympy/sympy", "_" * 9_990),
        ("psf/requests", "PASSED " + "[" * 9_990),
        ("django/django", "x ... Testing against Django installed in "),
        ("", "PASSED " + "x" * 10_000_000),
    ],
)
def test_a_log_that_patched_code_made_for_it_is_read_in_time(repository: str, line: str) -> None:
    """Patterns that try each beginning with each end would take hours for these, and nothing could interrupt them."""
    log = "\n".join([line] * (4_000_000 // len(line) + 1))
    assert set(parse_log(log, repository)) <= {"[" * 9_990}


def test_a_number_of_thousands_of_digits_is_no_count() -> None:
    """Python refuses to read it, which would end the grading of all predictions."""
    assert printed_counts(f"= {'1' * 5000} passed in 1s") is None
