"""Win rates of suites whose composite is how often a model beats the others, over columns and all compared runs.

One run has no win rate, so this belongs to a comparison of several. The rate is the mean over columns of the share of
other runs that a run beats there, ties counting half; its standard error takes into account that the runs have the
same questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.documents.blocks import Block, Paragraph, table
from assaymark.documents.numbers import counted, shown_interval, shown_value
from assaymark.records import Estimate
from assaymark.results.evidence.composites import SuiteRows, member_scores
from assaymark.results.evidence.records import ScoreRow
from assaymark.statistics.board_scores import Part, estimate_win_rates
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.tasks.suite_scores import column_parts
from assaymark.tasks.suites import ChosenSuite


@dataclass(frozen=True, slots=True)
class BoardRun:
    """The data of one run that win rates need."""

    label: str
    run_id: str
    suites: tuple[ChosenSuite, ...]
    rows: tuple[ScoreRow, ...]
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class WinRates:
    """One suite's win rates, one per run; none where a run lacks a column, with the reason in `why`."""

    suite: str
    columns: tuple[str, ...]
    runs: tuple[tuple[str, str], ...]  # (label, run id)
    rates: tuple[IntervalEstimate, ...] = ()
    why: str | None = None


def win_rates(runs: Sequence[BoardRun], confidence: float = 0.95) -> list[WinRates]:
    """Return the win rates of every suite that all runs have and whose aggregate is winrate."""
    shared = [
        chosen
        for chosen in runs[0].suites
        if chosen.suite.aggregate == "winrate" and all(_find(run, chosen.suite.name) is not None for run in runs)
    ]
    return [_rates(chosen.suite.name, runs, confidence) for chosen in shared]


def _find(run: BoardRun, name: str) -> ChosenSuite | None:
    return next((chosen for chosen in run.suites if chosen.suite.name == name), None)


def _rates(name: str, runs: Sequence[BoardRun], confidence: float) -> WinRates:
    columns: list[Mapping[str, Part]] = []
    wanted: tuple[str, ...] = ()
    for run in runs:
        chosen = _find(run, name)
        if chosen is None:
            continue
        rows = SuiteRows([chosen])
        for _ in rows.watch(run.rows):
            pass
        suite = chosen.suite
        columns.append(column_parts(suite, member_scores(chosen, rows, run.estimates), clip=suite.clip))
        wanted = suite.columns
    who = tuple((run.label, run.run_id) for run in runs)
    holes = [
        f"{run.label} has no {column}"
        for run, of_run in zip(runs, columns, strict=True)
        for column in wanted
        if column not in of_run
    ]
    if holes:
        return WinRates(name, wanted, who, why=", ".join(holes))
    values = [[of_run[column] for of_run in columns] for column in wanted]
    return WinRates(name, wanted, who, tuple(estimate_win_rates(values, confidence)))


def win_rate_blocks(suites: Sequence[WinRates]) -> list[Block]:
    """Return a table per suite, the best run first; of a suite without win rates why there are none."""
    blocks: list[Block] = []
    for rates in suites:
        ranked = sorted(zip(rates.runs, rates.rates, strict=False), key=lambda pair: -pair[1].value)
        rows = [
            (
                f"{label} ({run_id})",
                shown_value(rate.value, proportion=True),
                shown_interval(rate.low, rate.high, proportion=True),
            )
            for (label, run_id), rate in ranked
        ]
        shown = [table(("run", "mean win rate", "95% interval"), rows)] if rows else []
        blocks += [Paragraph(_title(rates), "verdict"), *shown]
    return blocks


def _title(rates: WinRates) -> str:
    if rates.why is not None:
        return f"{rates.suite}: no win rates, {rates.why}"
    return f"{rates.suite}: mean win rate over {counted(len(rates.columns), 'column')} among {len(rates.runs)} runs"
