"""Write a task of one's own as a benchmark that a data set of the Hub can be: its rows and an eval.yaml."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assaymark.drafts import write_whole
from assaymark.errors import UsageError
from assaymark.platforms import portable_name
from assaymark.records import JsonValue
from assaymark.runs.prepare import split_names
from assaymark.settings import data_folder, store_location
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.eval_yaml import FILE, tasks_of_folder
from assaymark.tasks.eval_yaml_export import ROWS, exported
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.python_tasks import bind


@dataclass(frozen=True, slots=True)
class TaskExportOptions:
    """The task to write, and where."""

    output: Path | None = None  # None: a folder of the task's name
    description: str = ""  # of the benchmark
    data_dir: str | None = None
    answers: str | None = None  # how answers name an option; None: guessed
    include_path: Sequence[str | Path] = ()
    store: str | None = None  # whose sealed rows are not written; None: the default one


@dataclass(frozen=True, slots=True)
class WrittenBenchmark:
    """A benchmark's folder. differs: what it asks or scores otherwise than the task."""

    task: str
    folder: Path
    n_rows: int
    differs: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return lines on the written files and the next steps."""
        return [
            f"wrote {self.folder / FILE} and {self.folder / ROWS}: {self.n_rows:,} rows",
            *(f"not as in the task: {each}" for each in self.differs),
            f"check it: assaymark task check {self.folder}",
            f"upload it: hf upload ORG/{self.folder.name} {self.folder} . --repo-type dataset",
        ]

    def to_json(self) -> dict[str, JsonValue]:
        """Return names and paths with stable keys."""
        return {"task": self.task, "folder": str(self.folder), "n_rows": self.n_rows, "differs": list(self.differs)}


def export_benchmark(name: str, options: TaskExportOptions) -> WrittenBenchmark:
    """Write the folder of a benchmark for one task, and read it back.

    Raises: UsageError for several tasks, for one that an eval.yaml cannot describe, and for files that exist already.
    """
    catalog = Catalog.open([Path(each).expanduser() for each in options.include_path])
    own = OwnData(data_folder(options.data_dir), answers=options.answers)
    tasks = catalog.select(split_names(name), own=own).tasks
    if len(tasks) != 1:
        raise UsageError(f"{name} is {len(tasks)} tasks; export one at a time")
    bound = bind(tasks[0], BindOptions(data_dir=data_folder(options.data_dir)))
    _refuse_sealed(bound, store_location(options.store))
    made = exported(bound, portable_name(tasks[0].name), options.description)
    folder = Path(options.output or portable_name(tasks[0].name)).resolve()  # DIR/../OTHER is OTHER
    if there := next((folder / each for each in (FILE, ROWS) if (folder / each).exists()), None):
        raise UsageError(f"{there} exists already; remove it, or write elsewhere with --output DIR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ROWS, made.rows)
        write_whole(folder / FILE, made.eval_yaml)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from error
    tasks_of_folder(folder)
    return WrittenBenchmark(tasks[0].name, options.output or Path(folder.name), made.n_rows, made.differs)


def _refuse_sealed(bound: BoundTask, store: str) -> None:
    """Raise UsageError for rows that a store has sealed, under any task's name."""
    if not Store.exists(store):
        return
    seals = Store.open_to_read(store).seals
    recogniser = seals.recogniser()
    closed = [seal for seal in seals.all() if seal.is_closed]
    is_sealed = any(bound.task.name == seal.task or bound.plan.dataset_hash == seal.dataset_hash for seal in closed)
    if is_sealed or (recogniser and any(recogniser.sources_of_row(sample.row) for sample in bound.samples())):
        raise UsageError(
            f"task {bound.task.name}: its rows are sealed in {store}, and a benchmark's are for everybody; reveal them "
            "first (`assaymark task reveal`)"
        )
