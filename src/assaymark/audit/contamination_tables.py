"""The contamination audit as a terminal table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.audit.contamination import ContaminationTest
from assaymark.audit.verdicts import METHODS, contamination_methods, contamination_verdict, was_run
from assaymark.records import JsonValue
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, shown_p, significant
from assaymark.results.views.cells import plain_table

__all__ = ["contamination_json", "contamination_table", "test_cells", "test_headers"]


def contamination_table(tests: Sequence[ContaminationTest]) -> RenderableType:
    """Return the verdict in one sentence, one table per test over the tasks, and what each test does not show.

    Tests that could not be run are named in the sentence, with the reason, and have no table.
    """
    methods = contamination_methods(tests)
    opening = [Text(contamination_verdict(tests), style="bold"), *([Text(methods, style="dim")] if methods else [])]
    parts: list[RenderableType] = [Padding(Group(*opening), (0, 1, 1, 1))]
    run = [test for test in tests if was_run(test)]
    for name in dict.fromkeys(test.test for test in run):
        own = [test for test in run if test.test == name]
        table = plain_table()
        named, statistic, *numbers = test_headers(own)
        table.add_column(named, overflow="fold")
        table.add_column(statistic, no_wrap=True)
        for header in numbers:
            table.add_column(header, justify="right", no_wrap=True)
        for test in own:
            table.add_row(*test_cells(test, own))
        notes = [Text(f"{test.task}: {'; '.join(test.notes)}", style="dim") for test in own if test.notes]
        caveat = Text(f"Does not show: {own[0].not_shown}", style="italic")
        parts.append(Padding(Group(table, *notes, caveat), (0, 1, 1, 1)))
    return Group(*parts)


def _has_control(tests: Sequence[ContaminationTest]) -> bool:
    return any(test.control_p is not None for test in tests)


def test_headers(tests: Sequence[ContaminationTest]) -> list[str]:
    """Return the columns of a table of one test's results over tasks; its name is that of the tasks' column."""
    return [tests[0].test, "statistic", "n", "p", "p (Holm)", *(["control p"] if _has_control(tests) else [])]


def test_cells(test: ContaminationTest, tests: Sequence[ContaminationTest]) -> list[str]:
    """Return a row of that table."""
    cells = [test.task, _statistic(test), f"{test.n:,}", shown_p(test.p), shown_p(test.p_holm)]
    return [*cells, shown_p(test.control_p)] if _has_control(tests) else cells


def _statistic(test: ContaminationTest) -> str:
    if test.statistic is None:
        return NOTHING
    if test.test == "overlap":
        return f"{test.statistic:.1%} {test.statistic_name.removeprefix('share ')}"
    sign = "-" if test.statistic < 0 else ""
    return f"{test.statistic_name} {sign}{significant(abs(test.statistic), 3)}"


def contamination_json(tests: Sequence[ContaminationTest]) -> list[dict[str, Any]]:
    """Return every test with stable names; `items` holds each sample's value."""
    return [
        {**asdict(test), "method": METHODS[test.test], "not_shown": test.not_shown, "items": _items(test)}
        for test in tests
    ]


def _items(test: ContaminationTest) -> list[JsonValue]:
    return [{"sample_index": index, "value": value} for index, value in test.items]
