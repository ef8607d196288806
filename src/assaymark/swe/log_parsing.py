"""What pytest printed, by SWE-bench's rules: a status for each test id, and the numbers of its last line."""

import re
from collections.abc import Mapping

__all__ = ["parse_pytest_log", "printed_counts", "status_key"]

STATUSES = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
_WITH_COLOUR = frozenset({"astropy/astropy", "scikit-learn/scikit-learn", "sphinx-doc/sphinx"})
_WITH_OPTIONS = frozenset({"pydicom/pydicom", "psf/requests", "pylint-dev/pylint"})
_STATUS = "|".join(STATUSES)
_STATUS_FIRST = re.compile(rf"({_STATUS})\s+(\S+)")
_ID_FIRST = re.compile(rf"(\S+)\s+({_STATUS})(?:\s|$)")
_N_SKIPPED = re.compile(r"\[\d+\]")
_COLOUR = re.compile(r"\x1b?\[\d+m")
_CONTROL = re.compile(r"[\x01-\x1f]")
_OPTION = re.compile(r"(.*?)\[(.*)\]")
_LAST_LINE = re.compile(r"^=*[ ]?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+ ?s", re.MULTILINE)
_WORDS = {"error": "errors", "warning": "warnings"}


def parse_pytest_log(log: str, repository: str = "") -> dict[str, str]:
    """Return test id -> status of the lines that `pytest -rA` prints; of several lines of a test, the last.

    An id with spaces is cut at the first one, as it is in SWE-bench's lists.

    Args:
        log: what was printed.
        repository: owner/name; some have a rule of their own.

    Source: swebench.harness.log_parsers.python, release 5.0.2.
    """
    statuses: dict[str, str] = {}
    for line in log.split("\n"):
        text = _CONTROL.sub("", _COLOUR.sub("", line)) if repository in _WITH_COLOUR else line
        if (status_first := _STATUS_FIRST.match(text)) is not None:
            status, name = status_first.groups()
            if status == "FAILED":
                name = text.replace(" - ", " ").split()[1]
            if status == "SKIPPED" and _N_SKIPPED.match(name):
                continue
        elif (id_first := _ID_FIRST.match(text)) is not None:
            name, status = id_first.groups()
        else:
            continue
        statuses[status_key(name, repository)] = status
    return statuses


def status_key(name: str, repository: str = "") -> str:
    """Return the form in which a printed log has a test id."""
    words = name.split()
    key = words[0] if words else name
    parts = _OPTION.search(key) if repository in _WITH_OPTIONS else None
    if parts is None:
        return key
    option = parts[2]
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.split("/")[-1]
    return f"{parts[1]}[{option}]"


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
