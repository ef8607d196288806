"""Evidence of stored runs made ready to be compared: another tool's samples are matched by what they asked."""

from collections.abc import Sequence
from dataclasses import replace

from evalstone.report.comparison.questions import asked_questions, keeps_rows, tool_of
from evalstone.report.comparison.same_questions import aligned, same_questions
from evalstone.report.evidence.records import RunEvidence
from evalstone.store import Store

__all__ = ["matched_evidence"]

Stored = tuple[Store, str]


def matched_evidence(evidence: Sequence[RunEvidence], runs: Sequence[Stored]) -> list[RunEvidence]:
    """Return the evidence of stored runs with every later one's samples matched with the first's.

    Runs of one tool pair by the hash of what the tool logs of a sample, ours and lm-eval's by the hash of the row.
    Others, and tasks of which no row is the same, are matched by the text of the question.

    Raises: UsageError where a run has no question in common with the first.
    """
    first, *others = evidence
    return [first, *(_matched(first, runs[0], one, run) for one, run in zip(others, runs[1:], strict=True))]


def _matched(first: RunEvidence, first_run: Stored, second: RunEvidence, second_run: Stored) -> RunEvidence:
    tools = [tool_of(store.run(run_id)) for store, run_id in (first_run, second_run)]
    if tools[0] == tools[1]:
        return second
    known = {(row.task, row.sample_sha256) for row in first.rows}
    equal = [row for row in second.rows if (row.task, row.sample_sha256) in known]
    if all(keeps_rows(tool) for tool in tools) and equal:
        n_rows = len({(row.task, row.sample_index) for row in equal})
        return replace(second, pairing=(f"{n_rows:,} samples of {tools[1]} paired by the hash of their rows",))
    found = same_questions(asked_questions(*first_run), asked_questions(*second_run))
    n_samples = len({(row.task, row.sample_index) for row in second.rows})
    how = (
        f"by the question's text and options, of {tools[1]} with {tools[0]}: {len(found.places):,} of {n_samples:,} "
        f"samples; {found.n_unknown:,} were not asked there, {found.n_ambiguous:,} fit several and are left out"
    )
    return aligned(first, second, found.places, how)
