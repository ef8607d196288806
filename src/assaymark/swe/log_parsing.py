"""Parsing of test runners' logs by SWE-bench's rules: a status for each test id, and the numbers of the last line.

Patched code prints what it likes, up to 32 MiB, so each rule takes time in proportion to the log: where SWE-bench's
pattern would try every beginning with every end, the same is found without a pattern.

Source: swebench.harness.log_parsers.python, release 5.0.2.
"""

import re
from collections.abc import Mapping

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
_WORDS = {"error": "errors", "warning": "warnings"}


def parse_log(log: str, repository: str = "") -> dict[str, str]:
    """Return test id -> status from the output of a repository's runner; of several lines of a test, the last.

    Args:
        log: what was printed.
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
        counts[_WORDS.get(word, word)] = int(number)
    return counts
