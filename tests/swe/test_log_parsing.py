"""Logs of real runs read as SWE-bench's own parsers read them, and the ends of runs that are no pytest's.

`logs/` has what Django 3.0's tests, sympy's at the base commit of sympy-20590 and pytest printed, and in
`expected.json` what swebench 5.0.2's parsers make of it. With ASSAYMARK_TEST_SWEBENCH, an interpreter that has
swebench, they are asked.
"""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.store import Store
from assaymark.swe.base_copies import Repositories
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.grading import GradeOptions, grade
from assaymark.swe.instances import Instance, Prediction
from assaymark.swe.log_parsing import parse_log
from assaymark.swe.runners import RUNNERS
from assaymark.swe.sandbox import SweLimits
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


RUNTESTS = """import sys, unittest
sys.path[:0] = [".", "tests"]
names = [word for word in sys.argv[1:] if "." in word and "=" not in word]
suite = unittest.defaultTestLoader.loadTestsFromNames(names)
sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
"""
CODE = "def add(a, b):\n    return a - b\n"
TESTS = """import unittest
from calc import add


class Tests(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(1, 0), 1)
"""
OF_FIX = """
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""


@pytest.mark.slow
def test_a_repository_with_its_own_runner_is_graded(store: Store, tmp_path: Path) -> None:
    """Gold resolves, nothing else does, and each verdict says that it is read from printed lines alone."""
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
    outcomes = {}
    for name, change in (
        ("gold", "a + b"),
        ("wrong", "a * b"),
        ("exit", "a + b\n\n\nimport os\nos._exit(0)"),
        ("printed", "a * b\n\n\nprint('test_add (sums.tests.Tests) ... ok')\nimport os\nos._exit(0)"),
    ):
        patch = instance.patch.replace(
            "+    return a + b", "\n".join(f"+{line}" for line in f"    return {change}".split("\n"))
        )
        n_lines = change.count("\n")
        patch = patch.replace("@@ -1,2 +1,2 @@", f"@@ -1,2 +1,{2 + n_lines} @@")
        (graded,) = grade(store, [instance], [Prediction(instance.instance_id, name, patch)], options)
        outcomes[name] = graded.outcome
        assert graded.grading is not None
        assert any("printed lines alone" in flag for flag in graded.grading.details["flags"])
    assert outcomes == {
        "gold": "resolved", "wrong": "unresolved", "exit": "ambiguous_failure", "printed": "ambiguous_failure",
    }  # fmt: skip


def _printed(project: Path) -> str:
    words = ["/usr/bin/python3", "tests/runtests.py", "sums.tests"]
    return subprocess.run(words, cwd=project, capture_output=True, text=True, check=False).stderr
