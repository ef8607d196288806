"""Perturbed copies of a task's samples, as tasks of their own beside it: `mmlu_anatomy~mild_mix`.

A copy has the sample's place, its shots, unperturbed, and its hash, so that it is paired with the original, and sealed
with it. Samples whose question does not change have no copy, as in HELM.

A sample's generator is that of an instance of HELM's, whose ids go over all splits. A task file says what they are:
`metadata: {helm_ids: {after: 17}}` where HELM numbers 17 rows of other splits first, `{column: key}` where it takes
them from a column. Otherwise they are the positions in the evaluated split.

A task file does not say which columns the question is. A text of a row is a part of the question if another text in its
place changes the prompt and neither the choices nor the target; it is a reference if it changes one of those, or is an
option that the prompt lists after its letter. Where the answer is generated, the options are the texts that the prompt
shows directly after the labels A, B, ..., or the texts of a list that begin with them; a column that has the question
together with its options is the question.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from string import ascii_uppercase
from typing import Any

from assaymark.errors import DataError, MalformedSample, PlanError
from assaymark.perturbations.named import Perturbation
from assaymark.prompts.few_shot import Shots
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import question_in
from assaymark.records import JsonValue, Output, Render, Request, Sample, Score, TaskPlan
from assaymark.scoring.run_code import Sandbox
from assaymark.tasks.bound import BoundSamples, BoundTask
from assaymark.tasks.task import MetricSpec, Selection, Task
from assaymark.tasks.yaml_tasks import layout_of

MARK = "~"
Path = tuple[str | int, ...]  # keys and positions to a text of a row
Form = tuple[str, ...]  # a path with any position as "*": the same for all rows
MOST_ROWS = 16  # rows that are looked at to find the parts
ANY = "*"
LONGEST_LABEL = 16  # characters, with the space around it
_START, _END = "Qz ", " zQ"  # put around a text to see where the prompt shows it
# before an option: "A. ", "(b) ", "**C)** "
_LABEL = re.compile(r"(?:\A|[\s*_])[(\[]?([A-Za-z])([.):\]])[*_]*[ \t]*\Z")
_OWN_LABEL = re.compile(r"[ \t]*[(\[]?[A-Za-z][.):\]]")  # of an option that has its label in its text


@dataclass(frozen=True, slots=True)
class _QuestionParts:
    """The forms of paths to a task's questions, in the order in which prompts show them, and to its references."""

    questions: tuple[Form, ...]
    references: tuple[Form, ...]

    def of(self, row: Mapping[str, object]) -> tuple[list[Path], list[Path]]:
        """Return the paths to a row's references and to the parts of its question."""
        by_form: dict[Form, list[Path]] = {}
        for path, _ in _texts(row):
            by_form.setdefault(_form(path), []).append(path)
        references, questions = (
            [path for form in forms for path in by_form.get(form, ())] for forms in (self.references, self.questions)
        )
        return references, questions


def find_parts(layout: PromptFields, rows: Sequence[Mapping[str, object]]) -> _QuestionParts:
    """Return where a task's rows have their questions and references, from its first rows.

    Raises: PlanError where no text of them is a question alone, so that a copy would be another question or none.
    """
    if layout.messages is not None or layout.turns is not None or layout.tools is not None:
        raise PlanError("it is a conversation, or has tools")
    places: dict[Form, int] = {}  # of questions: where in the prompt the first of the rows shows them
    references: dict[Form, None] = {}
    for row in rows[:MOST_ROWS]:
        own = _read(layout, row)
        if own is None or not isinstance(own[0], str):
            raise PlanError("its choices are contexts, so there is no question that they share")
        text, choices = own[0], own[1]
        options = {option.strip() for option in question_in(row, text, choices)[1]} if choices else set()
        before: dict[Path, str] = {}  # of a generated answer: what the prompt shows before each text
        for path, value in _texts(row):
            changed = _read(layout, with_texts(row, {path: f"{_START}{value}{_END}"}))
            if value.strip() in options or (changed is not None and changed[1:] != own[1:]):
                references[_form(path)] = None
            elif changed is not None and changed[0] != text and any(map(str.isalpha, value)):
                places.setdefault(_form(path), text.find(value.strip()))
            if not choices and changed is not None and isinstance(changed[0], str) and _START in changed[0]:
                own_label = _OWN_LABEL.match(value) if ANY in _form(path) else None
                before[path] = changed[0].partition(_START)[0] + (own_label[0] if own_label is not None else "")
        references.update(dict.fromkeys(map(_form, _labelled(before))))
    questions = [form for form in sorted(places, key=lambda form: places[form]) if form not in references]
    if not questions:
        raise PlanError("no text of its rows is in the prompt and not in the answer too")
    return _QuestionParts(tuple(questions), tuple(references))


def _labelled(before: Mapping[Path, str]) -> list[Path]:
    """Return the paths to the texts that a prompt lists after the labels A, B, ..., in this order and from A on.

    Texts of several columns after "A:" and "B:" may be what two speakers say, so a colon labels those of a list only.

    before: for each text of a row, the prompt up to it.
    """
    lists: list[list[Path]] = [[]]
    for path, text in sorted(before.items(), key=lambda item: len(item[1])):
        label = _LABEL.search(text[-LONGEST_LABEL:])
        if label is None or (label[2] == ":" and ANY not in _form(path)):
            continue
        letter, n = label[1].upper(), len(lists[-1])
        if letter == ascii_uppercase[n : n + 1]:
            lists[-1].append(path)
        elif letter == "A":
            lists.append([path])
    return [path for listed in lists if len(listed) > 1 for path in listed]


def with_texts(row: Mapping[str, object], texts: Mapping[Path, str]) -> dict[str, object]:
    """Return a copy of a row with other texts at these paths."""
    changed = deepcopy(dict(row))
    for path, text in texts.items():
        place: Any = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = text
    return changed


def _read(layout: PromptFields, row: Mapping[str, object]) -> tuple[object, list[str], object] | None:
    """Return a row's question, choices and target; None where a function of the task fails on it."""
    try:
        choices = [] if layout.choices is None else [str(choice) for choice in layout.choices(row)]
        return layout.text(row), choices, layout.target(row)
    except Exception:  # noqa: BLE001 - a task's own function may raise anything at a text that it does not expect
        return None


def _texts(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every text in a row that is not empty, at any depth, with its path."""
    if isinstance(value, str):
        if value.strip():
            yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, (*path, str(key)))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _texts(inner, (*path, position))


def _form(path: Path) -> Form:
    return tuple(ANY if isinstance(key, int) else key for key in path)


@dataclass(frozen=True, slots=True)
class _HelmIds:
    """How HELM names the instances of a task."""

    after: int = 0  # rows that are numbered before the evaluated split
    column: str | None = None  # the column of the numbers

    @classmethod
    def of(cls, task: Task) -> "_HelmIds":
        """Return the declaration of a task's file. Raises: DataError for anything else than one of the two."""
        declared = task.metadata.get("helm_ids", {"after": 0})
        match declared:
            case {"after": int(after), **others} if not others and not isinstance(after, bool) and after >= 0:
                return cls(after)
            case {"column": str(column), **others} if not others:
                return cls(0, column)
        raise DataError(
            f"{task.source}: helm_ids is {declared!r:.80}; expected {{after: NUMBER}}, the rows that HELM numbers "
            "before the evaluated split, or {column: NAME}, the column with the numbers"
        )

    def id_of(self, sample: Sample) -> str:
        """Return the id of a sample's instance. Raises: PlanError where the sample does not have the column."""
        if self.column is None:
            return f"id{self.after + sample.index}"
        if self.column not in sample.row:
            raise PlanError(
                f"sample {sample.index} of {sample.task} does not have the column {self.column!r} that helm_ids names; "
                f"its columns: {', '.join(map(str, sample.row))}"
            )
        return f"id{sample.row[self.column]}"


class PerturbedTask(BoundSamples):
    """A `BoundTask` of the copies that a perturbation makes of another one's samples."""

    def __init__(self, own: BoundTask, parts: _QuestionParts | None, perturbation: Perturbation) -> None:
        self._own = own
        self._parts = parts
        self._perturbation = perturbation
        self._ids = _HelmIds.of(own.task)
        self.name = f"{own.plan.name}{MARK}{perturbation.label}"
        self.task = replace(
            own.task, name=self.name, alias=f"{own.task.alias or own.task.name}{MARK}{perturbation.label}"
        )

    @property
    def metrics(self) -> tuple[MetricSpec, ...]:
        """The metrics of the original."""
        return self._own.metrics

    @property
    def n_original(self) -> int:
        """The number of copies: how many more there would be without a limit is not known."""
        return len(self._samples)

    @property
    def dataset_revision(self) -> str | None:
        """That of the original."""
        return self._own.dataset_revision

    @property
    def plan(self) -> TaskPlan:
        """The part of the run's plan for the copies; the perturbation's settings are in the run's."""
        return replace(
            self._own.plan,
            name=self.name,
            n_samples=len(self._samples),
            sample_indices=None,
            drawn=None,
            perturbed={"of": self._own.plan.name, "by": self._perturbation.label},
        )

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox of the original. Raises: PlanError, as it does."""
        return self._own.sandbox

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        copies = (self._copy(sample) for sample in self._own.samples())
        return tuple(copy for copy in copies if copy is not None)

    def _copy(self, sample: Sample) -> Sample | None:
        """Return a sample's copy; None where its question does not change."""
        if self._parts is None:
            columns = self._perturbation.row_of(self._ids.id_of(sample), sample.index, sample.row)
            return None if columns is None else self._with_columns(sample, columns)
        references, questions = self._parts.of(sample.row)
        at = dict.fromkeys(references)  # an option and the answer that repeats it become the same text
        texts = list(dict.fromkeys(_text(sample, path) for path in at))
        own = [_text(sample, path) for path in questions]
        changed, changed_questions = self._perturbation.texts(self._ids.id_of(sample), texts, own)
        if changed_questions == own:
            return None
        by_text = dict(zip(texts, changed, strict=True))
        row = with_texts(
            sample.row,
            {
                **{path: by_text[_text(sample, path)] for path in at},
                **dict(zip(questions, changed_questions, strict=True)),
            },
        )
        return Sample(self.name, sample.index, row, sample.sha256)

    def _with_columns(self, sample: Sample, columns: Mapping[str, JsonValue]) -> Sample | None:
        """Return a sample's copy with other values in some columns; None where they are its own.

        Raises: PlanError for a column that the sample does not have.
        """
        strange = sorted(set(columns) - set(sample.row))
        if strange:
            raise PlanError(
                f"{self._perturbation.label}: a row of the list for sample {sample.index} of {self._own.plan.name} has "
                f"the column {strange[0]!r:.60}; the task's columns: {', '.join(map(str, sample.row))}"
            )
        row = {**sample.row, **columns}
        return None if row == sample.row else Sample(self.name, sample.index, row, sample.sha256)

    @cached_property
    def _originals(self) -> dict[int, Sample]:
        return {sample.index: sample for sample in self._own.samples()}

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the samples that have a copy."""
        return [sample.index for sample in self._samples]

    def request(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of one copy: the original's shots, and its own question.

        Raises: MalformedSample naming task and sample, where the task cannot be made of the changed row.
        """
        try:
            return replace(self._own.request(sample, render), task=self.name)
        except MalformedSample as error:
            raise MalformedSample(f"{self.name}: {error}") from error

    def shots_of(self, sample: Sample) -> Shots:
        """Return the shots of the original."""
        return self._own.shots_of(self._originals[sample.index])

    def shot(self, place: int) -> Sample:
        """Return a row of the original's pool of shots."""
        return self._own.shot(place)

    def alone(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of any row, without shots."""
        return replace(self._own.alone(sample, render), task=self.name)

    def gold_is_absent(self, sample: Sample) -> bool:
        """Return whether the sample's gold answer is none of its choices."""
        return self._own.gold_is_absent(sample)

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the copy's scores, by the original's metrics."""
        return self._own.score(request, sample, outputs)


def _text(sample: Sample, path: Sequence[str | int]) -> str:
    place = sample.row
    for key in path:
        place = place[key]  # type: ignore[index]
    return str(place)


def with_perturbed(
    selection: Selection, bound: Sequence[BoundTask], perturbations: Sequence[Perturbation]
) -> tuple[Selection, tuple[BoundTask, ...]]:
    """Return a selection and its bound tasks with the copies of each task after it.

    A task that a perturbation does not change at all has no copies by it, which a note says.

    Raises: PlanError for a task whose question cannot be told from its answer, naming it.
    """
    tasks, bound_tasks, notes = [], [], []
    for own in bound:
        by_name = next(task for task in selection.tasks if task.name == own.task.name)
        tasks.append(by_name)
        bound_tasks.append(own)
        if own.task.python_class is not None:
            raise PlanError(
                f"task {own.plan.name} is a Python class, so its questions cannot be perturbed; "
                "omit --perturb or the task"
            )
        parts = None if all(each.is_of_rows for each in perturbations) else _parts_of(own)
        for perturbation in perturbations:
            copies = PerturbedTask(own, None if perturbation.is_of_rows else parts, perturbation)
            if not copies.samples():
                notes.append(
                    f"{own.plan.name}: {perturbation.label} changes no question, so nothing is evaluated for it"
                )
                continue
            if perturbation.is_of_rows and (
                n := perturbation.n_of_none((sample.index, sample.row) for sample in own.samples())
            ):
                notes.append(f"{own.plan.name}: {n:,} row(s) of {perturbation.label}' list are of no sample evaluated")
            tasks.append(copies.task)
            bound_tasks.append(copies)
    return replace(selection, tasks=tuple(tasks), notes=(*selection.notes, *notes)), tuple(bound_tasks)


def _parts_of(own: BoundTask) -> _QuestionParts:
    name = own.plan.name
    rows = [sample.row for sample in own.samples()]
    try:
        return find_parts(layout_of(own.task, frozenset(rows[0]), shot=False), rows)
    except PlanError as error:
        raise PlanError(f"task {name} cannot be perturbed: {error}; omit it, or --perturb") from error
