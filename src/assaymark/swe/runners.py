"""Repositories whose tests are not run by pytest: their runner's command, and the end that its output must have.

A runner reports what it makes of each test, as pytest does. Its last lines and exit status must agree with the lines
of its tests.

Source: swebench's eval scripts and MAP_REPO_VERSION_TO_SPECS.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Runner:
    """How a repository's tests are run.

    Attributes:
        words: of the command, after the interpreter; the first is a script that runs tests in its own process.
        reports: whose results are reported: unittest or sympy.
        named: turns paths of files of tests into arguments.
        variables: of the process.
        end: finds the last lines that a run has. The number of tests in them says nothing of ours: tests may share a
            description, by which unittest names them, and sympy counts functions of generators, which have no name.
    """

    words: tuple[str, ...]
    reports: Literal["unittest", "sympy"]
    named: Callable[[str], str]
    end: re.Pattern[str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, tests: Sequence[str]) -> list[str]:
        """Return the arguments of the command that runs files of tests."""
        return [*self.words[1:], *dict.fromkeys(self.named(test) for test in tests)]

    def why_incomplete(self, log: str, status: int, statuses: Mapping[str, str]) -> str:
        """Return how a run's end contradicts the lines of its tests, in words; empty where it does not."""
        last = None
        for match in self.end.finditer(log):
            last = match
        if last is None:
            return f"the runner ended with status {status} before its last lines"
        if any(line.startswith("test_") for line in log[last.end() :].splitlines()):
            return "tests are printed after the runner's last lines"
        if status and statuses and not {"FAILED", "ERROR"} & set(statuses.values()):
            return f"the runner ended with status {status}, and no test is printed as failed"
        return ""


def _module(path: str) -> str:
    return path.removeprefix("tests/").removesuffix(".py").replace("/", ".")


RUNNERS: Mapping[str, Runner] = {
    "django/django": Runner(
        ("./tests/runtests.py", "--verbosity", "2", "--settings=test_sqlite", "--parallel", "1"),
        "unittest",
        _module,
        re.compile(r"^Ran \d+ tests? in [\d.]+s\n\n(?:OK|FAILED)", re.MULTILINE),
    ),
    "sympy/sympy": Runner(
        ("bin/test", "-C", "--verbose"),
        "sympy",
        str,
        re.compile(r"^[= ]*tests finished: \d+ passed", re.MULTILINE),
        # -C sets the second, too late for sympy that is imported before the script runs
        {"PYTHONWARNINGS": "ignore::UserWarning,ignore::SyntaxWarning", "SYMPY_USE_CACHE": "no"},
    ),
}
