"""Perturbed copies of a task's samples, as tasks of their own beside it: `mmlu_anatomy~mild_mix`.

A copy has the sample's place, its shots, unperturbed, and its hash, so that it is paired with the original, and sealed
with it. Samples whose question does not change have no copy, as in HELM.

A sample's generator is that of an instance of HELM's, whose ids go over all splits. A task file says what they are:
`metadata: {helm_ids: {after: 17}}` where HELM numbers 17 rows of other splits first, `{column: key}` where it takes
them from a column. Otherwise they are the positions in the evaluated split.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from assaymark.errors import DataError, MalformedSample, PlanError
from assaymark.perturbations.named import Perturbation
from assaymark.prompts.few_shot import Shots
from assaymark.records import JsonValue, Output, Render, Request, Sample, Score, Skipped, TaskPlan
from assaymark.scoring.run_code import Sandbox
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.question_parts import QuestionParts, find_parts, with_texts
from assaymark.tasks.task import MetricSpec, Selection, Task
from assaymark.tasks.yaml_tasks import layout_of

MARK = "~"


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


class PerturbedTask:
    """A `BoundTask` of the copies that a perturbation makes of another one's samples."""

    is_conversation = False
    skipped = Skipped()  # counted with the original
    not_circular: str | None = None

    def __init__(self, own: BoundTask, parts: QuestionParts | None, perturbation: Perturbation) -> None:
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

    def samples(self) -> Sequence[Sample]:
        """Return the copies, in the order of the originals."""
        return self._samples

    def requests(self, render: Render | None = None) -> Iterator[Request]:
        """Yield one request per copy."""
        for sample in self._samples:
            yield self.request(sample, render)

    def request(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of one copy: the original's shots, and its own question.

        Raises: MalformedSample naming task and sample, where the task cannot be made of the changed row.
        """
        try:
            return replace(self._own.request(sample, render), task=self.name)
        except MalformedSample as error:
            raise MalformedSample(f"{self.name}: {error}") from error

    def next(
        self,
        request: Request,  # noqa: ARG002 - conversations have no copies
        sample: Sample,  # noqa: ARG002
        outputs: Sequence[Output],  # noqa: ARG002
        render: Render | None = None,  # noqa: ARG002
    ) -> Request | None:
        """Return None: there is one turn."""
        return None

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


def _parts_of(own: BoundTask) -> QuestionParts:
    name = own.plan.name
    rows = [sample.row for sample in own.samples()]
    try:
        return find_parts(layout_of(own.task, frozenset(rows[0]), shot=False), rows)
    except PlanError as error:
        raise PlanError(f"task {name} cannot be perturbed: {error}; omit it, or --perturb") from error
