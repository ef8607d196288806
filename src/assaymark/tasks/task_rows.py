"""The rows of a task: its data set, read and passed through the task's `process_docs`.

Our own library's functions get our `Rows`, which needs only pyarrow. Other task files expect a `datasets.Dataset` and
get one where that library is installed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.datasets import DatasetSpec, LoadedDataset, Row, Rows, load_dataset
from assaymark.datasets.dataset import Splits
from assaymark.datasets.files import MOST_FAULTS
from assaymark.datasets.load import of_splits
from assaymark.errors import AssaymarkError, DataError, PlanError
from assaymark.limits.characters import exception_text
from assaymark.records import Skipped, content_hash
from assaymark.tasks.functions import load_function, place_in, published_seeds
from assaymark.tasks.images import with_images
from assaymark.tasks.task import FunctionRef, Task

if TYPE_CHECKING:
    from datasets import Dataset

ByRow = Iterable[Mapping[str, object]]


class TaskRows:
    """The rows that a task's samples and shots come from. Splits are read when they are needed."""

    def __init__(
        self, task: Task, data_dir: Path | None, metadata: Mapping[str, object], *, skip_bad_rows: bool = False
    ) -> None:
        self.task = task
        self.dataset = self._load(data_dir, metadata, skip_bad_rows)
        self._by_split: dict[tuple[str, FunctionRef | None], Rows] = {}
        self._fault: Callable[[Row], str | None] | None = None

    def leave_out(self, fault: Callable[[Row], str | None]) -> None:
        """Leave out, from now on, the rows of every split for which `fault` returns a fault."""
        self._fault = fault
        self._by_split.clear()

    def _load(self, data_dir: Path | None, metadata: Mapping[str, object], skip_bad_rows: bool) -> LoadedDataset:
        task = self.task
        if task.custom_dataset is None:
            return load_dataset(replace(task.dataset, skip_bad_rows=skip_bad_rows), data_dir)
        function = load_function(task.custom_dataset, task.trusted)
        kwargs = {**task.metadata, **metadata, **dict(task.dataset.kwargs)}
        if task.custom_dataset.declared_as is not None:
            return _declared_rows(task, task.custom_dataset, function, metadata)
        with published_seeds():
            splits = function(**kwargs)
        spec = DatasetSpec(task.dataset.path or task.name, task.dataset.name)
        if all(hasattr(split, "data") for split in splits.values()):
            return of_splits(spec, splits)
        raise DataError(f"custom_dataset of {task.name} returned {type(splits).__name__}; expected a DatasetDict")

    @property
    def evaluated(self) -> Rows:
        """The rows of the evaluated split."""
        return self._split(self.task.splits.evaluated or "", self.task.process_docs)

    def pool(self) -> Sequence[Row]:
        """Return the rows that shots are drawn from.

        Source: lm-evaluation-harness 0.4.13: fewshot split, else literal samples, else train, validation, test.
        """
        task = self.task
        if task.fewshot.split is not None:
            return self._split(task.fewshot.split, task.fewshot.process_docs)
        samples = task.fewshot.samples
        if isinstance(samples, FunctionRef):
            with published_seeds():
                return [dict(row) for row in load_function(samples, task.trusted)()]
        if samples is not None:
            return [dict(row) for row in samples]
        split = task.splits.training or task.splits.validation or task.splits.test
        return self._split(split or "", task.process_docs)

    def _split(self, name: str, process: FunctionRef | None) -> Rows:
        key = (name, process)
        if key not in self._by_split:
            rows = self.dataset.splits[name]
            if self.task.dataset.renamed:
                rows = rows.rename_columns(dict(self.task.dataset.renamed))
            processed = rows if process is None else self._processed(rows, process)
            if self.task.prompt.image is not None:
                processed = with_images(processed, self.task.prompt.image, self.dataset.folder)
            self._by_split[key] = (
                processed if self._fault is None else without_faults(processed, rows.skipped, self._fault)
            )
        return self._by_split[key]

    def _processed(self, rows: Rows, process: FunctionRef) -> Rows:
        function = load_function(process, self.task.trusted)
        whole = self.task.origin != "assaymark" and find_spec("datasets") is not None
        try:
            with published_seeds():
                if not whole:
                    return rows_of(function(rows))
                with without_progress_bars():
                    return rows_of(function(as_dataset(rows)))
        except AssaymarkError:
            raise
        except Exception as error:
            raise DataError(
                f"{process.path} of task {self.task.name} failed on the rows of {self.task.dataset.title}: "
                f"{exception_text(error)}"
            ) from error


def _declared_rows(
    task: Task, ref: FunctionRef, function: Callable[..., ByRow | Mapping[str, ByRow]], metadata: Mapping[str, object]
) -> LoadedDataset:
    """Return the rows of a task's own function: a list of dicts for the evaluated split, or a dict of such lists.

    Raises: DataError, with file and line where they are known, for a function that fails or returns anything else.
    """
    file = ref.file or task.source
    try:
        with published_seeds():
            returned = function(**metadata)
            by_split = returned if isinstance(returned, Mapping) else {task.splits.evaluated or "test": returned}
            splits = {str(name): [dict(row) for row in rows] for name, rows in by_split.items()}
    except AssaymarkError:
        raise
    except Exception as error:
        raise DataError(
            f"{place_in(file, error)} the rows that {ref.name} returns failed: {exception_text(error)}; "
            "expected a list of dicts, or a dict of such lists by split"
        ) from error
    for name, rows in splits.items():
        for index, row in enumerate(rows):
            try:
                content_hash(row)
            except (TypeError, ValueError) as error:
                where = f"{file}: row {index + 1} of split {name} of task {task.name}"
                raise DataError(f"{where} cannot be stored: {error}; expected JSON's values") from error
    readers = {name: partial(Rows.of, rows) for name, rows in splits.items()}
    return LoadedDataset(Splits(task.name, readers), content_hash(splits), "memory")


def without_faults(rows: Rows, skipped: Skipped, fault: Callable[[Row], str | None]) -> Rows:
    """Return the rows without those that have a fault; `skipped` are those that could not be read before."""
    good: list[int] = []
    bad: list[tuple[int, str]] = []
    n_bad = 0
    for index, row in enumerate(rows.passing()):
        why = fault(row)
        if why is None:
            good.append(index)
            continue
        n_bad += 1
        if len(bad) < MOST_FAULTS:
            bad.append((index, why))
    if n_bad:
        places = rows.places([index for index, _ in bad])
        first = [f"{place}{why}" for place, (_, why) in zip(places, bad, strict=True)]
        skipped = Skipped(skipped.n + n_bad, tuple(sorted((*skipped.first, *first), key=_number)[:MOST_FAULTS]))
        rows = rows.select(good)
    rows.skipped = skipped
    return rows


def _number(place: str) -> int:
    """Return the number of the line or row with which the description of a fault begins."""
    match = re.search(r"\d+", place)
    return int(match[0]) if match else 0


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Disable the progress bars of `datasets`, and restore its setting afterwards."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not hidden:
            datasets.enable_progress_bars()


def as_dataset(rows: Rows) -> "Dataset":
    """Return the rows as a `datasets.Dataset`, in memory."""
    import datasets

    if rows.table is None:
        return datasets.Dataset.from_list(rows.to_list())
    return datasets.Dataset(datasets.table.InMemoryTable(rows.table))


def rows_of(processed: object) -> Rows:
    """Convert the result of `process_docs` (our rows, a `datasets.Dataset` or a list) to our rows."""
    if isinstance(processed, Rows):
        return processed
    if hasattr(processed, "flatten_indices"):
        flat = processed.flatten_indices()
        return Rows.of_table(flat.data.table, dict.fromkeys(flat.features))
    if isinstance(processed, Sequence):
        return Rows.of(processed)
    raise PlanError(f"process_docs returned {type(processed).__name__}; expected rows")
