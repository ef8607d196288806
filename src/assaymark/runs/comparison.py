"""Comparison of stored runs, sample by sample."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.documents import ShownAsDocument
from assaymark.drafts import write_whole
from assaymark.errors import UsageError, write_errors
from assaymark.results.comparison.records import Comparison
from assaymark.runs.run import Run
from assaymark.runs.stored import existing_store, run_in

if TYPE_CHECKING:
    from altair import LayerChart, VConcatChart

    from assaymark.documents.document import Document
    from assaymark.results.comparison.gates import PairGateResult
    from assaymark.results.comparison.row_pairs import PartDifference, RowPair
    from assaymark.results.evidence.win_rates import WinRates


class RunComparison(ShownAsDocument, Comparison):
    """The second and every later run against the first. Printing it prints its table; a notebook shows it as HTML."""

    __slots__ = ()

    def document(self) -> "Document":
        """Return the verdicts, the differences and what limits them."""
        from assaymark.results.comparison.document import comparison_document

        return comparison_document(self)

    def plot(self) -> "LayerChart | VConcatChart":
        """Return a chart (`altair.Chart`) of the differences with 95% intervals around zero.

        Raises: UsageError where no difference of proportions has an interval; MissingExtra without the extra `charts`.
        """
        from assaymark.documents.notebook import notebook_chart

        why_none = "this comparison has no difference of proportions with an interval"
        return notebook_chart(self.document().blocks, why_none)


def stored_runs(store: str | None, names: Sequence[str]) -> list[Run]:
    """Return stored runs by their names."""
    opened = existing_store(store)
    return [run_in(opened, name) for name in names]


def compare_runs(runs: Sequence[Run], *, strict_prompts: bool = False) -> RunComparison:
    """Return an `assaymark.results.comparison.records.Comparison`: differences with intervals, tests, flips, a verdict.

    Each run is compared with the first one: `difference` is second minus first, `gain` is positive if the second is
    better.

    Raises: UsageError for fewer than two runs, or for runs of different questions.
    """
    from assaymark.results.comparison.compare import compare_runs as compare_evidence
    from assaymark.results.comparison.stored_runs import matched_evidence
    from assaymark.results.evidence.from_store import run_evidence

    if len(runs) < 2:
        raise UsageError(f"a comparison needs two or more runs, not {len(runs)}")
    if len({run.id for run in runs}) < len(runs):
        raise UsageError("the same run was named twice; name different runs")
    evidence = [run_evidence(run.store, run.id) for run in runs]
    matched = matched_evidence(evidence, [(run.store, run.id) for run in runs])
    compared = compare_evidence(matched, strict_prompts=strict_prompts)
    return RunComparison(compared.labels, compared.run_ids, compared.pairs, compared.ranks)


def rows_of_pairs(runs: Sequence[Run], comparison: Comparison) -> "list[list[RowPair]]":
    """Return for each later run its rows beside the first run's, those that got worse first."""
    from assaymark.results.comparison.row_pairs import row_pairs

    first = runs[0].store, runs[0].id
    return [row_pairs(first, (run.store, run.id), pair) for run, pair in zip(runs[1:], comparison.pairs, strict=True)]


def differences_by_part(
    name: str, comparison: Comparison, rows: "Sequence[Sequence[RowPair]]"
) -> "list[list[PartDifference]]":
    """Return for each pair the differences by tag, by split, or by a name in the rows' metadata.

    Raises: UsageError where no row has that name.
    """
    from assaymark.results.comparison.row_pairs import differences_by

    return [differences_by(name, own, pair) for own, pair in zip(rows, comparison.pairs, strict=True)]


def win_rates(runs: Sequence[Run]) -> "list[WinRates]":
    """Return the win rates for the suites of all runs that are ranked by win rate (`report.win_rates.WinRates`)."""
    from assaymark.results.evidence.composites import suites_from
    from assaymark.results.evidence.from_store import label_of, run_evidence
    from assaymark.results.evidence.win_rates import BoardRun
    from assaymark.results.evidence.win_rates import win_rates as of_runs

    boards = []
    for run in runs:
        suites = tuple(suites_from(run.row.extra))
        rows = run_evidence(run.store, run.id).rows if any(s.suite.aggregate == "winrate" for s in suites) else ()
        boards.append(BoardRun(label_of(run.row), run.row.short_id, suites, rows, tuple(run.estimates)))
    return of_runs(boards)


def gate_results(comparison: Comparison, gates: Sequence[str]) -> "list[PairGateResult]":
    """Return the result of each gate expression, such as "mmlu >= -0.01" (`report.comparison.gates.PairGateResult`).

    Raises: UsageError for an expression that cannot be parsed; UnknownName for a task that was not compared.
    """
    from assaymark.results.comparison.gates import check_gates, parse_gate

    return check_gates(comparison, [parse_gate(text) for text in gates])


def write_junit(
    path: Path, comparison: Comparison, results: "Sequence[PairGateResult]", rates: "Sequence[WinRates]" = ()
) -> None:
    """Write the results of gates as JUnit XML, for CI systems, with the verdict and win rates as its output.

    Raises: StoreError if it cannot be written.
    """
    from assaymark.documents.document import document
    from assaymark.results.comparison.gates import junit_xml
    from assaymark.results.evidence.win_rates import win_rate_blocks

    with write_errors("the gates", "name another file with --junit", to=path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, junit_xml(comparison, results, str(document(win_rate_blocks(rates))).splitlines()))


def comparison_with_rates(
    comparison: Comparison, rates: "Sequence[WinRates]" = (), *, flips: bool = False, unfold: bool = False
) -> "Document":
    """Return the comparison, the samples whose outcome changed with `flips`, and any win rates."""
    from assaymark.documents.document import document
    from assaymark.results.comparison.document import comparison_document, flips_blocks
    from assaymark.results.evidence.win_rates import win_rate_blocks

    changed = flips_blocks(comparison) if flips else []
    return document(comparison_document(comparison, unfold=unfold).blocks, changed, win_rate_blocks(rates))
