"""Plug-in for pytest: the marker `assaymark`, and the results of gates in JUnit files and below the tests.

    @pytest.mark.assaymark(undecided="skip")
    def test_answers(run):
        assaymark.gate(run, "exact", "lower >= 0.9")

It is loaded in every run of pytest if this package is installed, so it imports little, and names pytest's types in
quotes only: earlier versions do not have all of them.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from assaymark.applications.gate import GateResult

MARK = "assaymark"
_PROPERTY = "assaymark"  # of reports: one line for each gate; it crosses processes (pytest-xdist) and is in JUnit files


def pytest_configure(config: "pytest.Config") -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(undecided='fail', allow_failed=0): evaluates an application; what gates in the test do where there "
        "are too few rows (fail, pass, skip), and how many rows may have failed",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: "pytest.Item") -> Generator[None, object, None]:
    """Let gates know the test that they are in."""
    mark = item.get_closest_marker(MARK)
    from assaymark.applications.gate import CURRENT, Defaults

    def record(result: "GateResult") -> None:
        item.user_properties.extend(result.properties)
        item.user_properties.append((_PROPERTY, result.message))

    try:
        defaults = Defaults(**mark.kwargs) if mark is not None else Defaults()
    except TypeError as error:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.{MARK}: {error}") from None
    CURRENT.append((defaults, record))
    try:
        yield
    finally:
        CURRENT.pop()


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Show the result of every gate below the tests."""
    reports = [
        report
        for outcome_reports in terminalreporter.stats.values()
        for report in outcome_reports
        if hasattr(report, "user_properties")
    ]
    messages = {
        (report.nodeid, text): None
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, text in report.user_properties
        if name == _PROPERTY
    }
    if not messages:
        return
    terminalreporter.section("assaymark gates")
    for node, text in messages:
        terminalreporter.write_line(f"{node}")
        for line in str(text).splitlines():
            terminalreporter.write_line(f"  {line}")
