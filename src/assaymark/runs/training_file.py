"""Write a training file for a run's wrong answers: chats of other rows of the same subjects.

The evaluated rows are the run's test. Training on them would invalidate the test, so they are written only on request,
and the run is marked then. Other rows that repeat an evaluated row (`tasks.training_examples.EvaluatedRows`) are left
out.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from assaymark.datasets.csv_files import sniff_delimiter
from assaymark.datasets.files import READABLE
from assaymark.documents.numbers import counted
from assaymark.drafts import open_whole
from assaymark.errors import DataError, MalformedSample, UsageError, write_errors
from assaymark.records import JsonValue, Sample, ScoreStatus
from assaymark.results.evidence.from_store import deciding_score, wrong_samples
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.reproduce import stored_tasks
from assaymark.runs.run import Run
from assaymark.runs.stored import open_run
from assaymark.settings import data_folder
from assaymark.store import SampleRecord
from assaymark.store.public_store import public_store
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.own_rows import is_rows_file, subject_of
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import SplitNames, Task
from assaymark.tasks.training_examples import EvaluatedRows, chat_example, refuse_untrainable

CONTAMINATED: Final = "contaminated"  # in a run's facts


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The data to write, and its source."""

    train_on: str | None = None  # a split of the tasks' data sets, or a file of rows; None: the evaluated rows
    contaminate: bool = False  # write evaluated rows, and rows that repeat them, and mark the run
    by_subject: bool = False  # the subjects with the lowest values first
    tasks: Sequence[str] = ()  # some of the run's; without any, all
    task_files: Sequence[str] = ()  # of the run's tasks, where they have moved
    include_path: Sequence[str] = ()
    data_dir: str | None = None
    with_sealed: bool = False


@dataclass(frozen=True, slots=True)
class SubjectCount:
    """One subject of a training file."""

    task: str
    subject: str
    n_wrong: int  # answers of the run
    n_examples: int  # in the file


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """A training file that was written."""

    path: Path
    subjects: tuple[SubjectCount, ...]
    n_repeated: int = 0  # rows left out because they repeat an evaluated row, or written in spite of it
    n_without_answer: int = 0  # rows left out because they state no right answer
    n_sealed: int = 0  # rows left out because they are rows of a sealed task
    notes: tuple[str, ...] = ()
    is_contaminated: bool = False

    json_keys = "path n_examples n_repeated n_without_answer n_sealed is_contaminated subjects notes"

    @property
    def n_examples(self) -> int:
        """The number of conversations in the file."""
        return sum(subject.n_examples for subject in self.subjects)

    def lines(self) -> Iterator[str]:
        """Yield remarks for readers of the file."""
        for subject in self.subjects:
            yield f"{subject.subject}: {subject.n_wrong:,} wrong, {counted(subject.n_examples, 'example')}"
        if self.n_repeated:
            what = "written that repeat evaluated rows" if self.is_contaminated else "left out: evaluated rows repeated"
            yield f"{counted(self.n_repeated, 'row')} {what}"
        if self.n_without_answer:
            yield f"{counted(self.n_without_answer, 'row')} left out: no right answer is stated"
        if self.n_sealed:
            yield f"{counted(self.n_sealed, 'row')} left out: of sealed tasks; --with_sealed writes them"
        yield from self.notes
        yield f"{self.path}: {counted(self.n_examples, 'example')}"


@dataclass(frozen=True, slots=True)
class _Subject:
    """Wrong answers of one subject of one task; the subject is "" if the task's rows name none."""

    task: str
    name: str


def write_training_file(store: str | None, name: str, path: str | Path, options: TrainingOptions) -> TrainingFile:
    """Write conversations for the subjects in which a run answered wrongly, one JSON object a line.

    Each has `messages` (of TRL, torchtune and OpenAI), `task` and `subject`. Failed requests are not wrong answers.

    name: the run's id, the beginning of one, or `last`. path: the file, .jsonl.

    Raises: UsageError where evaluated rows would be written unasked, no row would be, or a task has no answers of text;
        UnknownName for an unknown run or task; DataError for rows that cannot be read; StoreError if the file cannot be
        written.
    """
    target = Path(path)
    if target.suffix != ".jsonl":
        raise UsageError(f"--chat writes JSON lines; '{target.name}' does not end in .jsonl")
    run = open_run(store, name)
    run.refuse_without_results()
    wrong = _wrong_by_subject(run, options)
    bound, how = _bound_tasks(run, options, wrong)
    maker = _Maker(run, options, wrong, bound, how)
    if options.train_on is None and not options.contaminate:
        raise UsageError(_why_refused(run, maker.tasks))
    examples = maker.examples()
    if not examples:
        raise UsageError(maker.why_nothing())
    is_contaminated = options.contaminate and (options.train_on is None or maker.n_repeated > 0)
    if is_contaminated:  # first: a call that is killed leaves no file of an unmarked run
        _mark(run, target, maker.n_by_subject)
    with write_errors(target, "name another file with -o"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_whole(target, "backslashreplace") as file:
            file.writelines(f"{json.dumps(example, ensure_ascii=False)}\n" for example in examples)
    counts = (
        SubjectCount(each.task, each.name or maker.titles[each.task], n, maker.n_by_subject[each])
        for each, n in wrong.items()
    )
    return TrainingFile(
        target, tuple(counts), maker.n_repeated, maker.n_without_answer, maker.n_sealed, tuple(maker.notes),
        is_contaminated,
    )  # fmt: skip


def _wrong_by_subject(run: Run, options: TrainingOptions) -> dict[_Subject, int]:
    """Return the number of wrong answers of each subject, in the order in which subjects are written."""
    names = run.row.tasks
    run.check_tasks(options.tasks)
    withheld = {} if options.with_sealed else public_store(run.store).withheld_tasks(run.id)
    chosen = [task for task in names if (not options.tasks or task in options.tasks) and task not in withheld]
    if not chosen:
        raise UsageError(
            f"all tasks are sealed ({', '.join(list(withheld)[:5])}); give --with_sealed to write their rows"
        )
    counts: Counter[_Subject] = Counter()
    for task in chosen:
        for record in _wrong_answers(run, task):
            counts[_Subject(task, (record.sample and subject_of(record.sample.row)) or "")] += 1
    if not counts:
        raise UsageError(
            f"run {run.short_id} has no wrong answer in {', '.join(chosen[:5])}; there is nothing to train"
        )
    if not options.by_subject:
        return dict(counts)
    values = {subject: value for task in chosen for subject, value in _values_of(run, task)}
    return dict(sorted(counts.items(), key=lambda pair: values.get(pair[0], float("-inf"))))


def _wrong_answers(run: Run, task: str) -> Iterator[SampleRecord]:
    """Yield the samples of a task whose answers are wrong or cannot be read; a failed request has no answer."""
    for record in wrong_samples(run.store, run.id, task):
        score = deciding_score(record)
        if score is not None and score.status is not ScoreStatus.FAILED:
            yield record


def _values_of(run: Run, task: str) -> Iterator[tuple[_Subject, float]]:
    """Yield the value of a task and of each of its subjects; higher is better."""
    subjects = [(str(each.details["alias"]), each) for each in run.subjects(task)]
    for name, estimate in [("", run.estimate(task)), *subjects]:
        if estimate.value is not None:
            yield _Subject(task, name), estimate.value if estimate.higher_is_better else -estimate.value


def _bound_tasks(
    run: Run, options: TrainingOptions, wrong: Mapping[_Subject, int]
) -> tuple[dict[str, BoundTask], BindOptions]:
    """Return all tasks of the run with all rows of their evaluated splits, and the options that they are bound with.

    Raises: UsageError where one is not known here, or one with wrong answers has none that are texts.
    """
    call: EvaluateOptions = {"include_path": options.include_path, "data_dir": options.data_dir}
    selection, settled = stored_tasks(run, options.task_files, call)
    tasks = {task.name: task for task in selection.tasks}
    if lacking := [name for name in run.row.tasks if name not in tasks]:
        raise UsageError(
            f"the file of task '{lacking[0]}' is not known; give it with --tasks, or its folder with --include_path"
        )
    for subject in wrong:
        refuse_untrainable(tasks[subject.task])
    how = BindOptions(
        num_fewshot=0, data_dir=data_folder(settled.get("data_dir")), skip_bad_rows=run.row.plan.skip_bad_rows,
        confirm_unsafe_code=True,  # nothing is scored, so no generated code runs
    )  # fmt: skip
    return {name: bind(tasks[name], how) for name in run.row.tasks}, how


def _why_refused(run: Run, tasks: Mapping[str, Task]) -> str:
    """Return why evaluated rows are not written, and what can be done instead."""
    splits = sorted({split for task in tasks.values() if (split := task.splits.training) is not None})
    own = f"--train_on {splits[0]} (a split of the same data set)" if splits else "--train_on FILE"
    other = ", --train_on FILE (other rows of the same subjects)" if splits else " (other rows of the same subjects)"
    return (
        f"the rows that run {run.short_id} answered wrongly are its test, and a model trained on them is not tested by "
        f"them any more; give {own}{other}, or --contaminate, which writes them and marks the run"
    )


class _Maker:
    """Makes the examples of a training file."""

    def __init__(
        self, run: Run, options: TrainingOptions, wrong: Mapping[_Subject, int], bound: Mapping[str, BoundTask],
        how: BindOptions,
    ) -> None:  # fmt: skip
        self.run, self.options, self.wrong, self.bound, self.how = run, options, wrong, bound, how
        self.tasks = {subject.task: bound[subject.task].task for subject in wrong}
        self.titles = {name: task.alias or name for name, task in self.tasks.items()}
        self.n_repeated = self.n_without_answer = self.n_sealed = 0
        self._sealed = None if options.with_sealed else run.store.seals.recogniser()
        self.n_by_subject: Counter[_Subject] = Counter()
        self.notes: list[str] = []
        self._evaluated = EvaluatedRows()

    def examples(self) -> list[dict[str, JsonValue]]:
        """Return the examples in the order of the subjects."""
        pools = self._pools()
        for each in self.bound.values():  # of all tasks: a row of one may be a test row of another
            self._evaluated.add(each)
        examples: list[dict[str, JsonValue]] = []
        n_rows = n_assigned = 0
        for task, pool in pools.items():
            n_rows += len(pool.samples)
            subjects = [subject for subject in self.wrong if subject.task == task]
            for sample in pool.samples:
                pool.by_subject.setdefault(_subject_in(subjects, subject_of(sample.row)), []).append(sample)
            n_assigned += sum(len(samples) for subject, samples in pool.by_subject.items() if subject is not None)
        n_rows += self._n_of_other_tasks
        for subject in self.wrong:
            if subject.task in pools:
                examples += self._of_subject(subject, pools[subject.task])
        if n_rows > n_assigned:
            rows = counted(n_rows - n_assigned, "row")
            self.notes.append(f"{rows} left out: of subjects without a wrong answer")
        return examples

    _n_of_other_tasks = 0  # rows of a file whose subject is not one of the tasks

    def why_nothing(self) -> str:
        """Return why there is no example."""
        parts = [*self.notes]
        if self.n_repeated:
            parts.append(f"{counted(self.n_repeated, 'row repeats', 'rows repeat')} evaluated rows")
        if self.n_without_answer:
            parts.append(f"{counted(self.n_without_answer, 'row states', 'rows state')} no right answer")
        if self.n_sealed:
            parts.append(f"{counted(self.n_sealed, 'row is', 'rows are')} of sealed tasks; --with_sealed writes them")
        why = "; ".join(parts) or "there are no rows"
        return f"no example is left, and nothing was written: {why}; name other rows with --train_on"

    def _of_subject(self, subject: _Subject, pool: "_Pool") -> Iterator[dict[str, JsonValue]]:
        """Yield the examples of one subject."""
        for sample in pool.by_subject.get(subject, ()):
            if self._sealed is not None and self._sealed.sources_of_row(sample.row):
                self.n_sealed += 1
                continue
            try:
                repeats = self.options.train_on is not None and self._evaluated.repeats(pool.bound, sample)
                self.n_repeated += repeats
                if repeats and not self.options.contaminate:
                    continue
                example = chat_example(pool.bound, sample)
            except MalformedSample as error:
                raise DataError(f"sample {sample.index} for task {subject.task}: {error}") from error
            if example is None:
                self.n_without_answer += 1
                continue
            self.n_by_subject[subject] += 1
            own = subject_of(sample.row) or self.titles[subject.task]
            yield {"messages": example, "task": subject.task, "subject": own}

    def _pools(self) -> dict[str, "_Pool"]:
        """Return the rows that may be written, by task."""
        rows = self.options.train_on
        if rows is None:
            return {name: _Pool(self.bound[name], self._wrong_rows(name)) for name in self.tasks}
        if (file := _named_file(rows)) is not None:
            return self._of_file(file)
        return self._of_split(rows)

    def _wrong_rows(self, name: str) -> list[Sample]:
        """Return the evaluated rows of a task that were answered wrongly."""
        hashes = {record.request.sample_sha256 for record in _wrong_answers(self.run, name)}
        samples = [sample for sample in _in_order(self.bound[name]) if sample.sha256 in hashes]
        if len({sample.sha256 for sample in samples}) < len(hashes):
            raise DataError(
                f"the rows of task {name} are no longer those that run {self.run.short_id} was evaluated on; evaluate "
                "them again"
            )
        return samples

    def _of_split(self, split: str) -> dict[str, "_Pool"]:
        """Return the rows of a split of each task's own data set; tasks without it are noted."""
        evaluated = [name for name, task in self.tasks.items() if task.splits.evaluated == split]
        if evaluated and not self.options.contaminate:
            raise UsageError(
                f"split '{split}' is the one that task {evaluated[0]} was evaluated on; a model trained on it is not "
                "tested by it any more: name another split or a file with --train_on, or give --contaminate"
            )
        pools: dict[str, _Pool] = {}
        for name, task in self.tasks.items():
            try:
                bound = bind(replace(task, splits=SplitNames(test=split)), self.how)
            except DataError as error:
                self.notes.append(str(error))
                continue
            pools[name] = _Pool(bound, _in_order(bound))
        if not pools:
            raise DataError(f"{self.notes[0]}; name another split, or a file of rows, with --train_on")
        return pools

    def _of_file(self, file: Path) -> dict[str, "_Pool"]:
        """Return a file's rows by task: where there are several, a row's subject names the one to which it belongs.

        Raises: UsageError where no row names one.
        """
        pools: dict[str, _Pool] = {}
        n_rows = 0
        for name, task in self.tasks.items():
            try:
                bound = bind(_reading(task, file), self.how)
            except DataError as error:
                raise DataError(
                    f"{file.name} lacks columns of task {name}: {error}; name other tasks with --task"
                ) from error
            samples = _in_order(bound)
            n_rows = len(samples)
            if len(self.bound) > 1:
                own = {name.lower(), self.titles[name].lower()}
                samples = [sample for sample in samples if (subject_of(sample.row) or "").lower() in own]
            pools[name] = _Pool(bound, samples)
        self._n_of_other_tasks = n_rows - sum(len(pool.samples) for pool in pools.values())
        if self._n_of_other_tasks == n_rows:
            some = ", ".join(list(self.titles.values())[:5])
            raise UsageError(
                f"{file.name}: no row names one of the subjects with wrong answers; the run has several tasks, so a "
                f"column subject, category or topic has to name a row's task ({some})"
            )
        return pools


@dataclass(frozen=True, slots=True)
class _Pool:
    """Rows of one task that may be written, and the task as it is bound to them."""

    bound: BoundTask
    samples: Sequence[Sample]
    by_subject: dict[_Subject | None, list[Sample]] = field(default_factory=dict)


def _in_order(bound: BoundTask) -> list[Sample]:
    return sorted(bound.samples(), key=lambda sample: sample.index)


def _subject_in(subjects: Sequence[_Subject], name: str | None) -> _Subject | None:
    """Return the subject to which a row belongs; a row that names none goes with the first one of its task."""
    if name is None:
        return subjects[0]
    return next((subject for subject in subjects if subject.name in {"", name}), None)


def _named_file(text: str) -> Path | None:
    """Return the file that is named; None for a split. Raises: UsageError where there is no such file of rows."""
    file = Path(text).expanduser()
    looks_like_one = file.name.endswith(READABLE) or "/" in text
    if looks_like_one and not file.is_file():
        raise UsageError(f"there is no file '{text}'; expected rows of the task's columns ({', '.join(READABLE)})")
    if file.is_file() and not is_rows_file(file):
        raise UsageError(f"'{text}' is not a file of rows; expected one of {', '.join(READABLE)}")
    return file if looks_like_one else None


def _reading(task: Task, file: Path) -> Task:
    """Return the task with the rows of a file that has its columns, in place of its own."""
    is_csv = bool({".csv", ".tsv"} & set(file.suffixes))
    builder = "parquet" if file.suffix == ".parquet" else "csv" if is_csv else "json"
    kwargs: tuple[tuple[str, JsonValue], ...] = (("data_files", {"test": [str(file.absolute())]}),)
    if is_csv and file.suffix != ".gz" and file.stat().st_size:
        kwargs = (*kwargs, ("delimiter", sniff_delimiter(file)))
    dataset = replace(task.dataset, path=builder, name=None, revision=None, kwargs=kwargs, base=None)
    return replace(task, dataset=dataset, splits=SplitNames(test="test"), custom_dataset=None)


def _mark(run: Run, file: Path, n_by_subject: Mapping[_Subject, int]) -> None:
    """Store with a run that evaluated rows of it were written to train on."""
    tasks = list(dict.fromkeys(subject.task for subject, n in n_by_subject.items() if n))
    at = datetime.now(UTC).isoformat(timespec="seconds")
    n = sum(n_by_subject.values())
    line = (
        f"contaminated: {counted(n, 'evaluated row')} of {', '.join(tasks[:3])}{' and others' * (len(tasks) > 3)} "
        f"written to {file.name} as training data on {at[:10]}; a model trained on that file has seen this test"
    )
    entry: dict[str, JsonValue] = {"at": at, "file": file.name, "tasks": tasks, "n_rows": n, "line": line}
    extra = {**run.row.extra, CONTAMINATED: [*run.row.extra.get(CONTAMINATED, ()), entry]}
    run.store.save_estimates(run.id, run.estimates, extra)
