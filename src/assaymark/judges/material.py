"""What is judged: the stored answers of one run, or of two runs to the same questions.

Answers are read from the store turn by turn. A request that failed has no answer and is not judged; it is counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.judges.judge_prompts import Exchange
from assaymark.records import Output, QueryKind, Request, Sample, content_hash
from assaymark.registry import nearest
from assaymark.store import RunRow, SampleRecord, Store

__all__ = ["Item", "Material", "read_material"]

Key = tuple[str, int, int]  # task, sample index, turn


@dataclass(frozen=True, slots=True)
class Item:
    """One question at one turn, with the answer of each judged run."""

    sample: Sample
    turn: int
    shown: tuple[Exchange, ...]  # in the order of the runs
    reference: str | None

    @property
    def key(self) -> Key:
        """Task, sample index and turn, by which scores are joined with the answers' samples."""
        return (self.sample.task, self.sample.index, self.turn)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Characters of each judged answer."""
        return tuple(len(one.answers[-1]) for one in self.shown)


@dataclass(frozen=True, slots=True)
class Material:
    """All items of the judged runs, by task in the first run's order."""

    items: Mapping[str, Sequence[Item]]
    n_without_answer: int = 0  # questions that one of the runs could not answer
    n_unmatched: int = 0  # questions that only one of the runs was asked
    left_out: tuple[str, ...] = field(default=())  # tasks that hold no texts

    @property
    def hash(self) -> str:
        """Hash of all questions, answers and references: other answers are another judging."""
        parts = [
            [*item.key, item.sample.sha256, item.reference, *([one.questions, one.answers] for one in item.shown)]
            for item in self.all()
        ]
        return content_hash(parts)

    def all(self) -> Iterator[Item]:
        """Yield the items of all tasks."""
        for items in self.items.values():
            yield from items


def read_material(
    store: Store, rows: Sequence[RunRow], *, limit: int | None = None, reference: str | None = None
) -> Material:
    """Return the questions of one or two runs, with their answers.

    Args:
        store: that has the runs.
        rows: one run, or two on the same tasks; questions are matched by position and content of their row.
        limit: number of questions of each task; None: all.
        reference: column of the data set with the reference answer (a list has one for each turn); None: the task's own
            target.

    Raises: UsageError if a run is an audit, or the runs share no task; DataError if they hold no generated texts or no
        common question; UnknownName for a column that the data set lacks.
    """
    for row in rows:
        if row.plan.audit is not None:
            raise UsageError(f"{row.short_id} is an audit or a judging ({row.plan.audit}); name a run of a model")
    tasks = [task for task in rows[0].tasks if all(task in row.tasks for row in rows)]
    if not tasks:
        raise UsageError(f"runs {rows[0].short_id} and {rows[1].short_id} have no task in common; nothing to compare")
    items: dict[str, list[Item]] = {}
    counts = [0, 0]
    left_out: list[str] = []
    for task in tasks:
        answered = [_answers(store, row, task) for row in rows]
        if not all(answered):
            left_out.append(task)
            continue
        found, n_without, n_unmatched = _matched(answered, limit, reference)
        counts = [counts[0] + n_without, counts[1] + n_unmatched]
        items[task] = found
    if not any(items.values()):
        raise DataError(
            f"{' and '.join(row.short_id for row in rows)}: there is no generated answer to judge in "
            f"{', '.join(tasks[:5])}; judges read texts, so name a run of a task of output_type generate_until"
        )
    return Material(items, counts[0], counts[1], tuple(left_out))


def _answers(store: Store, row: RunRow, task: str) -> dict[Key, tuple[SampleRecord, Output | None]]:
    """Return the generated answer to each question of a task; None where the request failed."""
    found: dict[Key, tuple[SampleRecord, Output | None]] = {}
    for record in store.samples(row.run_id, task):
        if not any(query.kind is QueryKind.GENERATE for query in record.request.queries):
            return {}
        if record.sample is not None:
            texts = [output for output in record.outputs if output.text is not None]
            found[task, record.request.sample_index, record.request.turn] = (record, texts[0] if texts else None)
    return found


def _matched(
    answered: Sequence[Mapping[Key, tuple[SampleRecord, Output | None]]], limit: int | None, reference: str | None
) -> tuple[list[Item], int, int]:
    items: list[Item] = []
    n_without = n_unmatched = 0
    kept = sorted({key[1] for key in answered[0]})[:limit]
    last = kept[-1] if kept else -1
    for key, (record, _) in answered[0].items():
        if key[1] > last or record.sample is None:
            continue
        others = [one.get(key) for one in answered]
        same = [one for one in others if one is not None and one[0].request.sample_sha256 == record.sample.sha256]
        if len(same) < len(answered):
            n_unmatched += 1
        elif any(output is None for _, output in same):
            n_without += 1
        else:
            shown = tuple(_exchange(one.request, str(output.text)) for one, output in same if output is not None)
            items.append(Item(record.sample, key[2], shown, _reference(record, reference)))
    return items, n_without, n_unmatched


def _exchange(request: Request, answer: str) -> Exchange:
    """Return the conversation of a request with its answer, without shots and system message."""
    if not request.messages:
        prompt = request.segments[-1] if request.n_shots else "".join(request.segments)
        return Exchange((prompt.strip(),), (answer.strip(),))
    said = request.messages[-(2 * request.turn + 1) :]
    questions = tuple(message.text.strip() for message in said if message.role == "user")
    earlier = tuple(message.text.strip() for message in said if message.role == "assistant")
    return Exchange(questions, (*earlier, answer.strip()))


def _reference(record: SampleRecord, column: str | None) -> str | None:
    """Return the reference answer; None where there is none."""
    if column is None:
        return record.request.target or None
    row: Mapping[str, Any] = record.sample.row if record.sample is not None else {}
    if column not in row:
        raise UnknownName("column of the data set", column, nearest(column, row), f"it has: {', '.join(row)}")
    value = row[column]
    if isinstance(value, list):
        value = value[record.request.turn] if record.request.turn < len(value) else None
    return None if value in (None, "") else str(value)
