"""The samples that a perturbation broke: whose score is lower for the perturbed copy than for the sample as it is.

Words of a copy that the original does not have in that place are found by a longest common subsequence of words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from assaymark.errors import UsageError
from assaymark.records import RunPlan
from assaymark.results.evidence.from_store import score_rows
from assaymark.results.evidence.records import row_value
from assaymark.results.evidence.task_facts import tasks_from
from assaymark.store import RunRow, SampleRecord, Store

MOST_WORDS = 4000  # longer texts are not compared: the time grows with the square of their length
_PIECE = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A part of a perturbed text."""

    text: str
    is_changed: bool


def marked_texts(original: str, perturbed: str) -> list[MarkedText]:
    """Return the perturbed text in parts; parts that the original does not have are marked."""
    before, after = _PIECE.findall(original), _PIECE.findall(perturbed)
    if original == perturbed or max(len(before), len(after)) > MOST_WORDS:
        return [MarkedText(perturbed, is_changed=False)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    parts = (("".join(after[start:end]), tag != "equal") for tag, _, _, start, end in matcher.get_opcodes())
    return [MarkedText(text, is_changed=changed) for text, changed in parts if text]


def original_of(store: Store, run_id: str, plan: RunPlan, record: SampleRecord) -> SampleRecord | None:
    """Return the original of a perturbed sample; None if the sample is not perturbed, or its original is not stored."""
    of = next(
        (each.perturbed["of"] for each in plan.tasks if each.name == record.request.task and each.perturbed), None
    )
    if of is None:
        return None
    return next(store.samples(run_id, of, indices=[record.request.sample_index]), None)


def broken_samples(store: Store, row: RunRow, task: str) -> Iterator[SampleRecord]:
    """Yield the perturbed copies of a task's samples that score lower than their originals.

    Args:
        store: the run's store.
        row: the run.
        task: a task of the run: either of copies, or of their originals, which selects the copies by all perturbations.

    Raises: UsageError if the task has no copies, or the run has no results yet.
    """
    copies = {each.name: each.perturbed["of"] for each in row.plan.tasks if each.perturbed is not None}
    wanted = {name: of for name, of in copies.items() if task in {name, of}}
    if not wanted:
        raise UsageError(
            f"run {row.short_id} has no perturbed copies of {task}; evaluate some: assaymark run --perturb robustness"
        )
    primary = {each.name: each.primary for each in tasks_from(row.extra)}
    for copy, of in wanted.items():
        by = primary.get(of)
        if by is None:
            raise UsageError(f"run {row.short_id} has no results yet; finish it by running it again")
        before, after = (_values(store, row.run_id, name, by) for name in (of, copy))
        broken = [index for index in after if index in before and after[index] < before[index]]
        if broken:
            yield from store.samples(row.run_id, copy, indices=broken)


def _values(store: Store, run_id: str, task: str, by: tuple[str, str]) -> dict[int, float]:
    rows = score_rows(store, run_id, task)
    return {row.sample_index: row_value(row) for row in rows if (row.metric, row.filter) == by}
