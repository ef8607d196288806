"""Win rates over runs: computed by hand, paired over shared questions, and refused for missing columns."""

import json
from collections.abc import Mapping, Sequence

import pytest

from assaymark.documents.markdown import markdown_text
from assaymark.results.comparison.document import comparison_to_json
from assaymark.results.comparison.records import Comparison
from assaymark.results.evidence.composites import SuiteRows, composite_estimates, composite_lines
from assaymark.results.evidence.records import RunView, ScoreRow
from assaymark.results.evidence.summarise import summarise
from assaymark.results.evidence.win_rates import (
    BoardRun,
    win_rate_blocks,
    win_rates,
)
from assaymark.tasks.suites import ChosenSuite, suite_from
from tests.results.made import plain_rows, task_of

SUITE = suite_from(
    {"name": "board", "aggregate": "winrate", "members": [{"task": name, "metric": "acc"} for name in ("a", "b", "c")]}
)
CHOSEN = ChosenSuite(SUITE, (("a",), ("b",), ("c",)))


def run(label: str, values: Mapping[str, Sequence[float]]) -> BoardRun:
    """Return a run with these scores by task."""
    rows: list[ScoreRow] = [row for task, scores in values.items() for row in plain_rows(task, list(scores))]
    estimates = summarise(rows, [task_of(task) for task in values], bootstrap_iters=0)
    return BoardRun(label, f"id-{label}", (CHOSEN,), tuple(rows), estimates)


def share(right: int, n: int = 100) -> list[float]:
    """Return scores of which the first `right` of `n` are right."""
    return [1.0] * right + [0.0] * (n - right)


def test_win_rates_by_hand() -> None:
    """The best of three wins everywhere, the second beats the third in two columns of three and ties in none."""
    runs = [
        run("low", {"a": share(20), "b": share(30), "c": share(60)}),
        run("high", {"a": share(80), "b": share(80), "c": share(80)}),
        run("mid", {"a": share(40), "b": share(50), "c": share(40)}),
    ]
    (result,) = win_rates(runs)
    assert [rate.value for rate in result.rates] == pytest.approx([1 / 6, 1.0, 1 / 3])
    assert all(rate.low is not None and rate.high is not None for rate in result.rates)
    table = markdown_text(win_rate_blocks([result])).split("\n")
    assert table[0] == "**board: mean win rate over 3 columns among 3 runs**"
    assert [row.split()[1] for row in table[4:7]] == ["high", "mid", "low"]
    assert "| high (id-high) | 100.0% | " in table[4]
    none = Comparison((), (), ())
    (written,) = json.loads(json.dumps(comparison_to_json(none, [result])))["win_rates"]
    assert written["runs"][1] == {"label": "high", "run_id": "id-high"}


def test_runs_with_similar_answers_are_distinguished() -> None:
    """With eight more right answers, all others the same, the paired error is much smaller than the unpaired one."""
    better = share(50)
    worse = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *better[8:]]
    (result,) = win_rates([run("x", dict.fromkeys("abc", better)), run("y", dict.fromkeys("abc", worse))])
    first = result.rates[0]
    assert first.value == 1.0
    assert first.low is not None
    assert first.low > 0.6


def test_a_missing_column_leaves_no_win_rates() -> None:
    """With a run that lacks a column there are no win rates, and the line names run and column."""
    whole = run("x", dict.fromkeys("abc", share(50)))
    (result,) = win_rates([whole, run("y", dict.fromkeys("ab", share(50)))])
    assert result.rates == ()
    assert markdown_text(win_rate_blocks([result])) == "**board: no win rates, y has no c**\n"


def test_one_run_names_the_command_for_win_rates() -> None:
    """The line under a single run's table names the command instead of a number."""
    alone = run("x", dict.fromkeys("abc", share(50)))
    rows = SuiteRows([CHOSEN])
    list(rows.watch(alone.rows))
    composites = composite_estimates([CHOSEN], rows, alone.estimates)
    (line,) = composite_lines([RunView("x", "1", composites)])
    assert "no composite, a win rate is among several runs: assaymark compare RUN RUN" in line


def test_other_suites_have_none() -> None:
    """A suite with another aggregate has no win rates."""
    mean = ChosenSuite(suite_from({"name": "m", "members": [{"task": "a", "metric": "acc"}]}), (("a",),))
    item = run("x", {"a": share(50)})
    assert win_rates([BoardRun(item.label, item.run_id, (mean,), item.rows, item.estimates)] * 2) == []
