"""Evidence of stored runs prepared for a comparison: another tool's samples are matched by their questions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from assaymark.errors import UsageError
from assaymark.results.comparison.matching import same_questions
from assaymark.results.comparison.questions import SampleKey, SampleQuestion, run_questions, stores_rows, tool_of
from assaymark.results.evidence.records import RunEvidence
from assaymark.store import RunRow, Store


def aligned(first: RunEvidence, second: RunEvidence, pairs: Mapping[SampleKey, SampleKey], how: str) -> RunEvidence:
    """Return the second run with its matched samples named as in the first, and a note on how they were matched.

    Samples without a match are excluded. Raises: UsageError if no sample has a match.
    """
    if not pairs:
        raise UsageError(
            f"{first.label} and {second.label} have no question in common: {how}; nothing can be compared sample by "
            "sample"
        )
    hashes = {(row.task, row.sample_index): row.sample_sha256 for row in first.rows}
    rows = tuple(
        replace(row, task=key[0], sample_index=key[1], sample_sha256=hashes[key])
        for row in second.rows
        if (key := pairs.get((row.task, row.sample_index))) is not None and key in hashes
    )
    names = Counter((task, pairs[task, index][0]) for task, index in pairs)
    tasks = {mine: replace(task, name=mine) for task in second.tasks for (theirs, mine) in names if theirs == task.name}
    settings = {mine: second.task_settings.get(theirs, {}) for theirs, mine in names}
    renamed = [f"{theirs} as {mine}" for theirs, mine in names if theirs != mine]
    more = " and more" if len(renamed) > 4 else ""
    note = f"paired {how}" + (f"; {', '.join(renamed[:4])}" if renamed else "") + more
    return replace(
        second,
        rows=rows,
        tasks=tuple(tasks.values()),
        groups=(),
        task_settings=settings,
        prompt_hashes={pairs[key]: value for key, value in second.prompt_hashes.items() if key in pairs},
        choices={pairs[key]: texts for key, texts in second.choices.items() if key in pairs},
        pairing=(note,),
    )


Stored = tuple[Store, str]


def matched_evidence(evidence: Sequence[RunEvidence], runs: Sequence[Stored]) -> list[RunEvidence]:
    """Return the evidence of stored runs, the samples of every later run matched with those of the first.

    Runs of one tool are paired by the hash of the tool's logged sample, ours and lm-eval's by the hash of the row.
    Other runs, and tasks without a common row, are matched by the text of the question.

    Raises: UsageError if a run has no question in common with the first.
    """
    first, *others = evidence
    return [
        first,
        *(_matched(first, runs[0], run_evidence, run) for run_evidence, run in zip(others, runs[1:], strict=True)),
    ]


def _copies(row: RunRow) -> dict[str, tuple[str, str]]:
    """Return the original and the perturbation's label of each task of perturbed copies."""
    return {
        task.name: (str(task.perturbed["of"]), str(task.perturbed["by"]))
        for task in row.plan.tasks
        if task.perturbed is not None
    }


def _equal_copies(
    pairs: Mapping[SampleKey, SampleKey],
    questions: Sequence[Mapping[SampleKey, SampleQuestion]],
    copies: Sequence[Mapping[str, tuple[str, str]]],
) -> dict[SampleKey, SampleKey]:
    """Return the copies whose originals are matched and whose questions are the same to the letter.

    Spaces and case count, since they are what a perturbation changes.
    """
    ours = {of_by: name for name, of_by in copies[0].items()}
    equal: dict[SampleKey, SampleKey] = {}
    for (task, index), asked in questions[1].items():
        of, by = copies[1].get(task, ("", ""))
        match = pairs.get((of, index))
        if match is None or (name := ours.get((match[0], by))) is None:
            continue
        own = questions[0].get((name, match[1]))
        if own is not None and (_states(own, asked) or _states(asked, own)):
            equal[task, index] = name, match[1]
    return equal


def _states(container: SampleQuestion, asked: SampleQuestion) -> bool:
    return bool(asked.question) and str(asked.question).strip() in container.text


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
    questions = [run_questions(*run) for run in (first_run, second_run)]
    copies = [_copies(store.run(run_id)) for store, run_id in (first_run, second_run)]
    originals = [
        {key: asked for key, asked in own.items() if key[0] not in of_run}
        for own, of_run in zip(questions, copies, strict=True)
    ]
    matches = same_questions(*originals)
    matches = replace(matches, pairs={**matches.pairs, **_equal_copies(matches.pairs, questions, copies)})
    n_samples = len({(row.task, row.sample_index) for row in second.rows})
    how = (
        f"by the question's text and options, of {tools[1]} with {tools[0]}: {len(matches.pairs):,} of {n_samples:,} "
        f"samples; excluded: {matches.n_unknown:,} without a match, {matches.n_ambiguous:,} with several"
    )
    return aligned(first, second, matches.pairs, how)
