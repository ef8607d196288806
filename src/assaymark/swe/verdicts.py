"""Verdicts on tests from two sources: the reports of a pipe, and the runner's output, read by SWE-bench's rules.

An instance is resolved if both say so. A result in the output alone was printed by something other than pytest.

Patched code prints what it likes, up to 32 MiB, so each rule takes time in proportion to the log: where SWE-bench's
pattern would try every beginning with every end, the same is found without a pattern.

Source: swebench.harness.log_parsers.python, release 5.0.2.
"""

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assaymark.swe.instances import Instance
from assaymark.swe.runners import RUNNERS

FOR_FAILING = frozenset({"PASSED", "XFAIL"})
FOR_PASSING = FOR_FAILING | {"SKIPPED"}
# a line that pytest wrapped before its percentage was read as a test so called: two instances of SWE-bench list it
_PROGRESS = re.compile(r"\[\s*\d+%\]")
_WORDS = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "errors",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}
STATUSES = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
_WITH_COLOUR = frozenset({"astropy/astropy", "scikit-learn/scikit-learn", "sphinx-doc/sphinx"})
_WITH_OPTIONS = frozenset({"pydicom/pydicom", "psf/requests", "pylint-dev/pylint"})
_STATUS = "|".join(STATUSES)
_STATUS_FIRST = re.compile(rf"({_STATUS})\s+(\S.*)")
_PASSED_SECOND = re.compile(r"(\S+)\s+(PASSED)\s")
_N_SKIPPED = re.compile(r"\[\d+\]")
_COLOUR = re.compile(r"\x1b?\[\d+m")
_CONTROL = re.compile(r"[\x01-\x1f]")
_LAST_LINE = re.compile(r"^=*[ ]?((?:\d{1,9} [a-z]+(?:, )?)+) in [\d.]+ ?s", re.MULTILINE)
LONGEST_LINE = 10_000  # characters; a longer one is no result
_INTERRUPTED = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(.*?)\s\.\.\.\sTesting\ against\ Django\ installed\ in\ ((?s:.*?))\ silenced\)\.\nok$",
        r"^(.*?)\s\.\.\.\sInternal\ Server\ Error:\ \/(.*)\/\nok$",
        r"^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
    )
]
_END_OF_INTERRUPTED = re.compile(r" silenced\)\.\nok$", re.MULTILINE)
_PLURALS = {"error": "errors", "warning": "warnings"}


@dataclass(frozen=True, slots=True)
class Reported:
    """The reports that came through the pipe.

    Attributes:
        statuses: test id -> PASSED, FAILED, ERROR, SKIPPED, XFAIL or XPASS.
        counts: the numbers that pytest's last line should have.
        status: with which pytest ended; None where it ended without its last report.
        forged: what is wrong with the reports, in words.
    """

    statuses: Mapping[str, str]
    counts: Mapping[str, int]
    status: int | None
    forged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TestRun:
    """One run of an instance's tests: both sources."""

    __test__ = False  # it is no class of tests

    reported: Reported
    printed: Mapping[str, str]
    printed_counts: Mapping[str, int] | None

    @classmethod
    def of(cls, log: str, reports: bytes, key: bytes, repository: str) -> "TestRun":
        """Return the results of a log and the reports beside it."""
        reported, printed = read_reports(reports, key), parse_log(log, repository)
        if repository in RUNNERS:  # lists have names as printed: Django's migrations print in front of a test's
            of_tests = {name: name.rpartition("...")[2] for name in printed if name.startswith("Applying ")}
            named = {name: reported.statuses[test] for name, test in of_tests.items() if test in reported.statuses}
            return cls(replace(reported, statuses={**reported.statuses, **named}), printed, None)
        return cls(reported, printed, printed_counts(log))


@dataclass(frozen=True, slots=True)
class TestLists:
    """The tests of an instance's two lists that are as they should be, and the others."""

    __test__ = False

    fail_to_pass: Mapping[str, Sequence[str]] = field(default_factory=dict)  # success -> ids, failure -> ids
    pass_to_pass: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def is_resolved(self) -> bool:
        """Whether all are as they should be."""
        return not self.fail_to_pass["failure"] and not self.pass_to_pass["failure"]


def read_reports(reports: bytes, key: bytes) -> Reported:
    """Return the results of authenticated reports. Each continues the one before it; after a wrong one none is read."""
    outcomes: dict[str, dict[str, tuple[str, bool]]] = {}
    made: dict[tuple[str, str], str] = {}
    uncollected: list[str] = []
    forged: list[str] = []
    mac, status, has_started = b"", None, False
    for line in reports.splitlines():
        claimed, _, body = line.partition(b" ")
        mac = hmac.new(key, mac + body, hashlib.sha256).hexdigest().encode("ascii")
        if not hmac.compare_digest(mac, claimed):
            forged.append("something else than the reporting plugin wrote into the pipe of the reports")
            break
        kind, *values = json.loads(body)
        if kind == "start":
            has_started = True
        elif kind == "finish":
            status = int(values[0])
        elif kind == "uncollected":
            uncollected.append(str(values[0]))
        elif kind == "call":
            test, when, raised, outcome = values
            if raised is not None and outcome == "passed":
                forged.append(f"{test} raised {raised} and was called passed")
            made[test, when] = outcome
        else:
            test, when, outcome, is_expected = values
            if outcome == "passed" and made.get((test, when)) != "passed":
                forged.append(f"{test} was {made.get((test, when), 'not run')} and was reported as passed")
            outcomes.setdefault(test, {})[when] = (outcome, bool(is_expected))
    if not has_started:
        status = None
    statuses = {test: _status(phases) for test, phases in outcomes.items()} | dict.fromkeys(uncollected, "ERROR")
    return Reported(statuses, _counts(outcomes, uncollected), status, tuple(dict.fromkeys(forged)))


def _status(phases: Mapping[str, tuple[str, bool]]) -> str:
    setup, call, teardown = (phases.get(when) for when in ("setup", "call", "teardown"))
    if (setup and setup[0] == "failed") or (teardown and teardown[0] == "failed"):
        return "ERROR"
    for phase in (setup, call):
        if phase and phase[0] == "skipped":
            return "XFAIL" if phase[1] else "SKIPPED"
    if call is None:
        return "ERROR"  # it was set up and not called: its process ended
    if call[0] == "failed":
        return "FAILED"
    return "XPASS" if call[1] else "PASSED"


def _counts(outcomes: Mapping[str, Mapping[str, tuple[str, bool]]], uncollected: Sequence[str]) -> Mapping[str, int]:
    """Return the numbers of the last line, in which a failed teardown counts beside its test."""
    counts: Counter[str] = Counter()
    for each in outcomes.values():
        phases, teardown = each, each.get("teardown")
        if teardown and teardown[0] == "failed":
            counts["errors"] += 1
            phases = {when: phase for when, phase in each.items() if when != "teardown"}
            if "call" not in phases and phases.get("setup", ("", False))[0] == "passed":
                continue
        counts[_WORDS[_status(phases)]] += 1
    counts["errors"] += len(uncollected)
    return {word: n for word, n in counts.items() if n}


def grade_tests(instance: Instance, statuses: Mapping[str, str]) -> TestLists:
    """Return which tests are as they should be, by test id -> status.

    An id of SWE-bench's lists may be cut, at a space or within its parameters: it then stands for all ids that begin
    with it, if they agree.

    Source: swebench.harness.grading, release 5.0.2.
    """
    by_key: dict[str, list[str]] = {}
    for test, status in statuses.items():
        by_key.setdefault(status_key(test, instance.repo), []).append(status)
    lists = [
        _split(instance.FAIL_TO_PASS, statuses, by_key, FOR_FAILING),
        _split(instance.PASS_TO_PASS, statuses, by_key, FOR_PASSING),
    ]
    return TestLists(*lists)


def _split(
    tests: Iterable[str], statuses: Mapping[str, str], by_key: Mapping[str, Sequence[str]], good: frozenset[str]
) -> dict[str, list[str]]:
    split: dict[str, list[str]] = {"success": [], "failure": []}
    for test in tests:
        if _PROGRESS.fullmatch(test):
            split["success" if statuses.get(test, "PASSED" if statuses else "") in good else "failure"].append(test)
            continue
        of_test = [statuses[test]] if test in statuses else list(by_key.get(test, ()))
        if not of_test and "[" in test and not test.endswith("]"):
            of_test = [status for key, each in by_key.items() if key.startswith(test) for status in each]
        split["success" if of_test and set(of_test) <= good else "failure"].append(test)
    return split


def disagreements(instance: Instance, run: TestRun) -> list[str]:
    """Describe where the output contradicts the reports."""
    reported = grade_tests(instance, run.reported.statuses)
    printed = grade_tests(instance, run.printed)
    warnings = []
    for by_reports, by_print in (
        (reported.fail_to_pass, printed.fail_to_pass),
        (reported.pass_to_pass, printed.pass_to_pass),
    ):
        only_printed = sorted(set(by_print["success"]) - set(by_reports["success"]))
        warnings += [f"{test} was printed as passed and did not pass" for test in only_printed[:5]]
    words = run.printed_counts
    if words is not None and run.reported.status is not None:
        of_tests = {word: n for word, n in words.items() if word in _WORDS.values()}
        if of_tests != run.reported.counts:
            warnings.append(
                f"pytest's last line says {_in_words(of_tests)}, the reports {_in_words(run.reported.counts)}"
            )
    return warnings


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {word}" for word, n in sorted(counts.items())) or "nothing"


def parse_log(log: str, repository: str = "") -> dict[str, str]:
    """Return test id -> status from the output of a repository's runner; of several lines of a test, the last.

    repository: owner/name; some have a rule of their own.
    """
    log = "\n".join(line for line in log.split("\n") if len(line) <= LONGEST_LINE)
    parser = {"django/django": _parse_django_log, "sympy/sympy": _parse_sympy_log}.get(repository)
    return parse_pytest_log(log, repository) if parser is None else parser(log)


def parse_pytest_log(log: str, repository: str = "") -> dict[str, str]:
    """Return test id -> status of the lines that `pytest -rA` prints; of several lines of a test, the last.

    An id with spaces is cut at the first one, as it is in SWE-bench's lists, but for three repositories.
    """
    statuses: dict[str, str] = {}
    has_colour, is_seaborn = repository in _WITH_COLOUR, repository == "mwaskom/seaborn"
    for line in log.split("\n"):
        text = _CONTROL.sub("", _COLOUR.sub("", line)) if has_colour else line
        if repository == "matplotlib/matplotlib":
            text = text.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3")
        if (status_first := _STATUS_FIRST.match(text)) is not None:
            status, name = status_first.groups()
            if status == "FAILED":
                name = name.split(" - ", 1)[0] if has_colour else name.replace(" - ", " ")
            if not name.strip() or (status == "SKIPPED" and _N_SKIPPED.match(name)):
                continue
            if is_seaborn and status not in {"FAILED", "PASSED"}:
                continue
        elif has_colour and (status_last := _status_last(text)) is not None:
            name, status = status_last
        elif is_seaborn and (passed := _PASSED_SECOND.match(text)) is not None:
            name, status = passed.groups()
        else:
            continue
        statuses[status_key(name, repository)] = status
    return statuses


def _status_last(text: str) -> tuple[str, str] | None:
    r"""Return name and status of a line that (\S.*?)\s+\S*?(STATUS)$ matches; None for another."""
    words = text.rsplit(None, 1)
    status = next((each for each in STATUSES if text.endswith(each)), None)
    return None if status is None or len(words) < 2 or text[0].isspace() else (words[0], status)


def _parse_django_log(log: str) -> dict[str, str]:
    """Return the statuses of lines of unittest's verbose runner, and of results that other output interrupts."""
    statuses: dict[str, str] = {}
    last = None
    for whole in log.split("\n"):
        line = whole.strip()
        if "--version is equivalent to version" in line:
            statuses["--version is equivalent to version"] = "PASSED"
        if " ... " in line:
            last = line.split(" ... ")[0]
        for suffix in (" ... ok", " ... OK", " ...  OK"):
            if line.endswith(suffix):
                if line.startswith("Applying sites.0002_alter_domain_unique...test_no_migrations"):
                    line = line.split("...", 1)[-1].strip()
                statuses[line.rsplit(suffix, 1)[0]] = "PASSED"
                break
        if " ... skipped" in line:
            statuses[line.split(" ... skipped")[0]] = "SKIPPED"
        for word, status in (("FAIL", "FAILED"), ("ERROR", "ERROR")):
            if line.endswith(f" ... {word}"):
                statuses[line.split(f" ... {word}")[0]] = status
            if line.startswith(f"{word}:") and len(line.split()) > 1:
                statuses[line.split()[1]] = status
        if line.startswith("ok") and last is not None:
            statuses[last] = "PASSED"
    # without an end that is to come, the first pattern would look for it from each of its beginnings
    ends = [match.end() for match in _END_OF_INTERRUPTED.finditer(log)]
    for pattern, end in zip(_INTERRUPTED, (max(ends, default=0), len(log), len(log)), strict=True):
        statuses.update((match[1], "PASSED") for match in pattern.finditer(log, 0, end))
    return statuses


def _parse_sympy_log(log: str) -> dict[str, str]:
    """Return the statuses of `bin/test --verbose`: a line for each test, and a heading for each failure."""
    statuses: dict[str, str] = {}
    for line in log.split("\n"):  # SWE-bench's pattern: (_*) (.*)\.py:(.*) (_*)
        heading, is_long, _ = line.partition(" ")[2].rpartition(" ")
        module, is_failure, test = heading.rpartition(".py:")
        if is_long and is_failure:
            statuses[f"{module}.py:{test}"] = "FAILED"
    for whole in log.split("\n"):
        line = whole.strip()
        if line.startswith("test_"):
            for end, status in ((" E", "ERROR"), (" F", "FAILED"), (" ok", "PASSED")):
                if line.endswith(end):
                    statuses[line.split()[0]] = status
    return statuses


def status_key(name: str, repository: str = "") -> str:
    """Return the form in which a printed log has a test id."""
    words = name.split()
    if repository in _WITH_COLOUR:
        return " ".join(words)
    key = words[0] if words else name
    test, _, rest = key.partition("[")
    option, has_option, _ = rest.rpartition("]")
    if not has_option or repository not in _WITH_OPTIONS:
        return key
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.split("/")[-1]
    return f"{test}[{option}]"


def printed_counts(log: str) -> Mapping[str, int] | None:
    """Return the numbers of pytest's last line, such as {"passed": 3, "failed": 1}; None where there is none."""
    lines = _LAST_LINE.findall(log)
    if not lines:
        return None
    counts = {}
    for part in lines[-1].split(", "):
        number, word = part.split(" ")[:2]
        counts[_PLURALS.get(word, word)] = int(number)
    return counts
