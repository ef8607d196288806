"""The answers to judge: the stored ones of one run, or of two runs to the same questions.

Answers are read from the store turn by turn. A failed request has no answer: it is counted, but not judged.

A judging makes one request for each answer, or two for each pair of answers, one in each order.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.judges.judge_prompts import JudgedExchange, JudgePrompt, mark_for
from assaymark.models.model import Model
from assaymark.models.text.tokenizer import control_texts
from assaymark.records import (
    GenerateQuery,
    GenerationSettings,
    Message,
    Output,
    QueryKind,
    Request,
    Sample,
    TextPart,
    content_hash,
)
from assaymark.registry import meant, nearest
from assaymark.store import RunRow, SampleRecord, Store

Key = tuple[str, int, int]  # task, sample index, turn


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """One question at one turn, with the answer of each judged run."""

    sample: Sample
    turn: int
    exchanges: tuple[JudgedExchange, ...]  # in the order of the runs
    reference: str | None

    @property
    def key(self) -> Key:
        """Task, sample index and turn, by which scores are joined with the answers' samples."""
        return (self.sample.task, self.sample.index, self.turn)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Characters of each judged answer."""
        return tuple(len(exchange.answers[-1]) for exchange in self.exchanges)


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """All items of the judged runs, by task in the first run's order."""

    items: Mapping[str, Sequence[JudgedItem]]
    n_without_answer: int = 0  # questions that one of the runs could not answer
    n_unmatched: int = 0  # questions that only one of the runs was asked
    left_out: tuple[str, ...] = field(default=())  # tasks that hold no texts

    @property
    def hash(self) -> str:
        """The hash of all questions, answers and references, which identifies the judging."""
        parts = [
            [
                *item.key,
                item.sample.sha256,
                item.reference,
                *([exchange.questions, exchange.answers] for exchange in item.exchanges),
            ]
            for item in self.all()
        ]
        return content_hash(parts)

    def all(self) -> Iterator[JudgedItem]:
        """Yield the items of all tasks."""
        for items in self.items.values():
            yield from items


def read_judged_answers(
    store: Store,
    rows: Sequence[RunRow],
    *,
    limit: int | None = None,
    reference: str | None = None,
    wanted: Sequence[str] = (),
) -> JudgedAnswers:
    """Return the questions of one or two runs, with their answers.

    Args:
        rows: one run, or two on the same tasks; questions are matched by position and content of their row.
        limit: number of questions of each task; None: all.
        reference: column of the data set with the reference answer (a list has one for each turn); None: the task's own
            target.
        wanted: tasks, by their names; none: all that the runs share.

    Raises: UsageError if a run is an audit, or the runs share no task; DataError if they hold no generated texts or no
        common question; UnknownName for a column that the data set lacks, and for a task.
    """
    for row in rows:
        if row.plan.audit is not None:
            raise UsageError(f"{row.short_id} is an audit or a judging ({row.plan.audit}); name a run of a model")
    tasks = [task for task in rows[0].tasks if all(task in row.tasks for row in rows)]
    if not tasks:
        raise UsageError(f"runs {rows[0].short_id} and {rows[1].short_id} have no task in common; nothing to compare")
    for name in wanted:
        if meant(name, tasks) not in tasks:
            where = "run" if len(rows) == 1 else "both runs"
            raise UnknownName(f"task in the {where}", name, nearest(name, tasks), f"known: {', '.join(tasks[:10])}")
    chosen = {meant(name, tasks) for name in wanted}
    tasks = [task for task in tasks if not chosen or task in chosen]
    items: dict[str, list[JudgedItem]] = {}
    counts = [0, 0]
    left_out: list[str] = []
    for task in tasks:
        answered = [_answers(store, row, task) for row in rows]
        if not all(answered):
            left_out.append(task)
            continue
        matched, n_without, n_unmatched = _matched(answered, limit, reference)
        counts = [counts[0] + n_without, counts[1] + n_unmatched]
        items[task] = matched
    if not any(items.values()):
        raise DataError(
            f"{' and '.join(row.short_id for row in rows)}: there is no generated answer to judge in "
            f"{', '.join(tasks[:5])}; judges read texts, so name a run of a task of output_type generate_until"
        )
    return JudgedAnswers(items, counts[0], counts[1], tuple(left_out))


def _answers(store: Store, row: RunRow, task: str) -> dict[Key, tuple[SampleRecord, Output | None]]:
    """Return the generated answer to each question of a task; None where the request failed."""
    answers: dict[Key, tuple[SampleRecord, Output | None]] = {}
    for record in store.samples(row.run_id, task):
        if not any(query.kind is QueryKind.GENERATE for query in record.request.queries):
            return {}
        if record.sample is not None:
            texts = [output for output in record.outputs if output.text is not None]
            answers[task, record.request.sample_index, record.request.turn] = (record, texts[0] if texts else None)
    return answers


def _matched(
    answered: Sequence[Mapping[Key, tuple[SampleRecord, Output | None]]], limit: int | None, reference: str | None
) -> tuple[list[JudgedItem], int, int]:
    items: list[JudgedItem] = []
    n_without = n_unmatched = 0
    kept = sorted({key[1] for key in answered[0]})[:limit]
    last = kept[-1] if kept else -1
    for key, (record, _) in answered[0].items():
        if key[1] > last or record.sample is None:
            continue
        others = [of_run.get(key) for of_run in answered]
        same = [
            answer
            for answer in others
            if answer is not None and answer[0].request.sample_sha256 == record.sample.sha256
        ]
        if len(same) < len(answered):
            n_unmatched += 1
        elif any(output is None for _, output in same):
            n_without += 1
        else:
            exchanges = tuple(
                _exchange(sample_record.request, str(output.text))
                for sample_record, output in same
                if output is not None
            )
            items.append(JudgedItem(record.sample, key[2], exchanges, _reference(record, reference)))
    return items, n_without, n_unmatched


def _exchange(request: Request, answer: str) -> JudgedExchange:
    """Return the conversation of a request with its answer, without shots and system message."""
    if not request.messages:
        prompt = request.segments[-1] if request.n_shots else "".join(request.segments)
        return JudgedExchange((prompt.strip(),), (answer.strip(),))
    said = request.messages[-(2 * request.turn + 1) :]
    questions = tuple(message.text.strip() for message in said if message.role == "user")
    earlier = tuple(message.text.strip() for message in said if message.role == "assistant")
    return JudgedExchange(questions, (*earlier, answer.strip()))


def _reference(record: SampleRecord, column: str | None) -> str | None:
    """Return the reference answer; None where there is none."""
    if column is None:
        return record.request.target or None
    row: Mapping[str, object] = record.sample.row if record.sample is not None else {}
    if column not in row:
        raise UnknownName("column of the data set", column, nearest(column, row), f"it has: {', '.join(row)}")
    value = row[column]
    if isinstance(value, list):
        value = value[record.request.turn] if record.request.turn < len(value) else None
    return None if value in (None, "") else str(value)


SWAPPED = ", swapped"  # of the tasks whose requests show the second run's answer first


@dataclass(frozen=True, slots=True)
class Asked:
    """An item with the requests about it: one, or one for each order of two answers."""

    item: JudgedItem
    requests: tuple[Request, ...]
    samples: tuple[Sample, ...]  # of the requests


def task_in_order(task: str, order: int) -> str:
    """Return the task name of requests in an order: 0 is the order of the runs, 1 the other one."""
    return task + SWAPPED if order else task


def requests_of(
    items: Sequence[JudgedItem], prompt: JudgePrompt, model: Model, *, seed: int, max_tokens: int
) -> list[Asked]:
    """Return the requests about each item, for a model.

    Raises: UsageError if the model generates no text, or a prompt with a reference has an item without one.
    """
    if QueryKind.GENERATE not in model.answers:
        raise UsageError(f"{model.identity.name} generates no text, so it cannot be a judge")
    if prompt.reference and (lacking := next((item for item in items if item.reference is None), None)):
        raise UsageError(
            f"prompt '{prompt.name}' shows a reference answer, and {'/'.join(map(str, lacking.key))} has none; name "
            "its column with --reference, or use a prompt without reference"
        )
    settings = GenerationSettings(max_tokens=max_tokens)
    render = JudgePromptWriter(model)
    return [_asked(item, prompt, render, settings, seed) for item in items]


def _asked(
    item: JudgedItem, prompt: JudgePrompt, render: "JudgePromptWriter", settings: GenerationSettings, seed: int
) -> Asked:
    requests, samples = [], []
    for order in range(2 if prompt.is_paired else 1):
        sample = replace(item.sample, task=task_in_order(item.sample.task, order))
        exchanges = tuple(reversed(item.exchanges)) if order else item.exchanges
        mark = mark_for(seed, order, *item.key, *(exchange.answers for exchange in exchanges))
        request = ask(prompt.messages(exchanges, mark, item.reference), render, settings, sample)
        requests.append(replace(request, turn=item.turn, target=item.reference or ""))
        samples.append(sample)
    return Asked(item, tuple(requests), tuple(samples))


def ask(
    messages: tuple[Message, ...], render: "JudgePromptWriter", settings: GenerationSettings, sample: Sample
) -> Request:
    """Return one request of a judge about a sample."""
    text = render(messages)
    segments = () if text is None else (text,)
    queries = (GenerateQuery(0, settings),)
    return Request(sample.task, sample.index, sample.sha256, segments, queries, messages)


class JudgePromptWriter:
    """Writes messages as a model reads them: not at all for a server, else by its template, else as plain text."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._has_template = True

    def __call__(self, messages: Sequence[Message]) -> str | None:
        """Return the text to be continued; None where a server writes it from the messages."""
        if self._model.takes_messages:
            return None
        messages = [self._as_text(message) for message in messages]
        if self._has_template:
            try:
                return self._model.render(messages)
            except UsageError:  # a base model: it has no template
                self._has_template = False
        return "\n\n".join([*(message.text for message in messages), "Judgement:"])

    @cached_property
    def _control(self) -> re.Pattern[str] | None:
        texts = control_texts(getattr(self._model, "tokenizer", None))
        return re.compile("|".join(map(re.escape, texts))) if texts else None

    def _as_text(self, message: Message) -> Message:
        """Return a message in which no text is a control token: a judged answer could end its turn and speak on.

        A space after the first character leaves such a text legible.
        """
        pattern = self._control
        if pattern is None or pattern.search(message.text) is None:
            return message
        parts = (
            TextPart(pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", part.text))
            if isinstance(part, TextPart)
            else part
            for part in message.parts
        )
        return replace(message, parts=tuple(parts))
