"""A task's samples as audits use them: question, options, correct answer, and the text as training data would have it.

`prompts.questions` separates question and options, so that any multiple-choice task can be evaluated in another
wording.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.prompts.questions import blanked, question_in
from assaymark.records import JsonValue, LoglikelihoodQuery, Render, Request, RollingQuery, Sample
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.rescoring import choice_queries, gold_choices


@dataclass(frozen=True, slots=True)
class AuditItem:
    """One sample as audits use it."""

    index: int
    row: Mapping[str, JsonValue]
    request: Request
    text: str  # the question as the task words it, and its correct answer
    question: str | None = None  # None: it cannot be separated from the rest of the prompt
    options: tuple[str, ...] = ()  # in the row's order; empty for a task without choices
    gold: frozenset[int] = frozenset()  # positions of the correct options
    shots: tuple["AuditItem", ...] = ()  # few-shot examples before it, themselves without shots

    @property
    def has_options(self) -> bool:
        """Whether the sample and all its shots have a question, options and a gold answer."""
        own = self.question is not None and len(set(self.options)) > 1 and bool(self.gold)
        return own and all(shot.has_options for shot in self.shots)


def items_of(bound: BoundTask, render: Render | None = None) -> list[AuditItem]:
    """Return the samples of a task in the order of its file; `render` applies a chat template."""
    items = [_item(bound, sample, bound.request(sample, render)) for sample in bound.samples()]
    return sorted(items, key=lambda item: item.index)


def with_shots(bound: BoundTask, items: Sequence[AuditItem]) -> list[AuditItem]:
    """Return the items with their shots as items.

    Raises: PlanError for a Python class with shots, which does not report which rows they are.
    """
    samples = {sample.index: sample for sample in bound.samples()}
    positions = {item.index: bound.shots_of(samples[item.index]) for item in items}
    rows = {position: bound.shot(position) for position in {position for own in positions.values() for position in own}}
    shots = {position: _item(bound, row, bound.alone(row)) for position, row in rows.items()}
    return [replace(item, shots=tuple(shots[position] for position in positions[item.index])) for item in items]


def _item(bound: BoundTask, sample: Sample, request: Request) -> AuditItem:
    queries = choice_queries(request)
    sample_text = request.segments[-1] if request.segments else request.prompt
    if not queries:
        return AuditItem(sample.index, sample.row, request, _text_with_answer(request, sample_text))
    gold = gold_choices(bound, request, sample)
    right = queries[min(gold)] if gold else queries[0]
    context = sample_text if right.segments is None else "".join(right.segments)
    text = context + right.continuation
    if right.segments is not None:  # the choices are contexts: there is no separate question
        return AuditItem(sample.index, sample.row, request, text, None, (), gold)
    question, options = question_in(sample.row, sample_text, [query.continuation for query in queries])
    return AuditItem(sample.index, sample.row, request, text, question, options, gold)


def _text_with_answer(request: Request, sample_text: str) -> str:
    query = request.queries[0]
    if isinstance(query, RollingQuery):
        return query.text
    if isinstance(query, LoglikelihoodQuery):
        return sample_text + query.continuation
    return f"{sample_text} {request.target}"


def without_question(bound: BoundTask, item: AuditItem, render: Render | None = None) -> Request | None:
    """Return the item's request without its question; options, shots and wording stay.

    None if the question cannot be separated from the rest of the prompt.
    """
    if item.question is None:
        return None
    sample_text = item.request.segments[-1]
    row = blanked(item.row, item.options, sample_text)
    if row == dict(item.row):
        return None
    sample = Sample(item.request.task, item.index, row, item.request.sample_sha256)
    request = bound.request(sample, render)
    return replace(request, target=item.request.target)
