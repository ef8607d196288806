"""Repositories whose tests are not run by pytest: their runner's command, and the end that its output must have.

A runner that is unittest's reports what it makes of each test, as pytest does. Another one's verdict is read from
printed lines alone, and each grading says so. The last lines and the exit status must agree with the lines of tests.

Source: swebench's eval scripts and MAP_REPO_VERSION_TO_SPECS.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["PRINTED_ALONE", "RUNNERS", "Runner"]

PRINTED_ALONE = "the verdict is that of printed lines alone: this repository's runner has no other channel"


@dataclass(frozen=True, slots=True)
class Runner:
    """How a repository's tests are run.

    Attributes:
        words: of the command, after the interpreter.
        named: turns paths of files of tests into arguments.
        variables: of the process.
        is_unittest: whether the first word is a script that runs unittest in its own process.
        end: finds the last lines that a run has, with the number of tests as its first group.
    """

    words: tuple[str, ...]
    named: Callable[[str], str]
    end: re.Pattern[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    is_unittest: bool = False

    def arguments(self, tests: Sequence[str]) -> list[str]:
        """Return what follows the first word of the command that runs files of tests."""
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
        _module,
        re.compile(r"^Ran (\d+) tests? in [\d.]+s\n\n(?:OK|FAILED)", re.MULTILINE),
        is_unittest=True,
    ),
    "sympy/sympy": Runner(
        ("bin/test", "-C", "--verbose"),
        str,
        re.compile(r"^[= ]*tests finished: (\d+) passed", re.MULTILINE),
        {"PYTHONWARNINGS": "ignore::UserWarning,ignore::SyntaxWarning"},
    ),
}
