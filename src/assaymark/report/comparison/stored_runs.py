"""Evidence of stored runs prepared for a comparison: another tool's samples are matched by their questions."""

from collections.abc import Sequence
from dataclasses import replace

from assaymark.report.comparison.questions import run_questions, stores_rows, tool_of
from assaymark.report.comparison.same_questions import aligned, same_questions
from assaymark.report.evidence.records import RunEvidence
from assaymark.store import Store

__all__ = ["matched_evidence"]

Stored = tuple[Store, str]


def matched_evidence(evidence: Sequence[RunEvidence], runs: Sequence[Stored]) -> list[RunEvidence]:
    """Return the evidence of stored runs, the samples of every later run matched with those of the first.

    Runs of one tool are paired by the hash of the tool's logged sample, ours and lm-eval's by the hash of the row.
    Other runs, and tasks without a common row, are matched by the text of the question.

    Raises: UsageError if a run has no question in common with the first.
    """
    first, *others = evidence
    return [first, *(_matched(first, runs[0], one, run) for one, run in zip(others, runs[1:], strict=True))]


def _matched(first: RunEvidence, first_run: Stored, second: RunEvidence, second_run: Stored) -> RunEvidence:
    tools = [tool_of(store.run(run_id)) for store, run_id in (first_run, second_run)]
    if tools[0] == tools[1]:
        return second
    known = {(row.task, row.sample_sha256) for row in first.rows}
    equal = [row for row in second.rows if (row.task, row.sample_sha256) in known]
    if all(stores_rows(tool) for tool in tools) and equal:
        n_rows = len({(row.task, row.sample_index) for row in equal})
        return replace(
            second,
            pairing=(
                f"{n_rows:,} samples of {tools[1]} paired with the samples that have the same row of the data set",
            ),
        )
    found = same_questions(run_questions(*first_run), run_questions(*second_run))
    n_samples = len({(row.task, row.sample_index) for row in second.rows})
    how = (
        f"by the question's text and options, of {tools[1]} with {tools[0]}: {len(found.pairs):,} of {n_samples:,} "
        f"samples; excluded: {found.n_unknown:,} without a match, {found.n_ambiguous:,} with several"
    )
    return aligned(first, second, found.pairs, how)
