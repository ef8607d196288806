"""Write the task file of a user's rows: with guessed settings, to be edited, or worded like another task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assaymark.drafts import write_whole
from assaymark.errors import UsageError
from assaymark.platforms import portable_name
from assaymark.records import JsonValue
from assaymark.settings import data_folder
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.new_task_files import NewTask, file_text, new_task
from assaymark.tasks.own_rows import OwnData

GUIDE = "https://github.com/EleutherAI/lm-evaluation-harness/blob/main/docs/task_guide.md"


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The task to write, and where."""

    name: str = ""  # of the task; empty: after the source
    like: str = ""  # a task or group whose prompt and settings it gets
    fewshot: Path | None = None  # a file with the examples of the prompt
    output: Path | None = None  # None: NAME.yaml beside a file of rows, else in the current folder
    data_dir: Path | None = None
    skip_bad_rows: bool = False
    answers: str | None = None  # how answers name an option; None: guessed
    include_path: Sequence[str | Path] = ()  # folders with further tasks that it may be like


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """The files that were written."""

    task: str
    file: Path
    guess: str
    group: str | None = None
    group_file: Path | None = None

    def lines(self) -> list[str]:
        """Return lines on the guesses, the written files and the next steps."""
        written = [str(path) for path in (self.file, self.group_file) if path is not None]
        lines = [self.guess, f"wrote {' and '.join(written)}", f"check it: assaymark task check {self.file}"]
        if self.group_file is not None:
            lines.append(
                f"with its group, whose average has one subject more than the published one: --tasks {self.group_file}"
            )
        return lines

    def to_json(self) -> dict[str, JsonValue]:
        """Return names and paths with stable keys."""
        group_file = None if self.group_file is None else str(self.group_file)
        return {"task": self.task, "file": str(self.file), "guess": self.guess, "group": self.group,
                "group_file": group_file}  # fmt: skip


def init_task(source: str, options: InitOptions) -> WrittenTask:
    """Write the task file of a file of rows, a folder of them or a data set of the Hub, and its group's.

    Raises: UsageError for a file that exists already or cannot be written; as `new_task_files.new_task`.
    """
    path = Path(source).expanduser()
    folder = options.output.parent if options.output else path.parent if path.is_file() else Path()
    own = OwnData(data_folder(options.data_dir), options.skip_bad_rows, options.answers)
    catalog = Catalog.open([Path(each).expanduser() for each in options.include_path])
    new = new_task(source, own, folder, catalog, name=options.name, like=options.like, fewshot=options.fewshot)
    name = str(new.task["task"])
    file = options.output or folder / f"{portable_name(name)}.yaml"
    group_file = None if new.group is None else file.with_name(f"{portable_name(str(new.group['group']))}.yaml")
    for target in (file, group_file):
        if target is not None and target.exists():
            raise UsageError(f"{target} exists already; remove it, or write elsewhere with --output FILE")
    try:
        write_whole(file, file_text(new.task, _comments(source, new, file)))
        if new.group is not None and group_file is not None:
            write_whole(group_file, file_text(new.group, _group_comments(new)))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}") from error
    return WrittenTask(name, file, new.guess, None if new.group is None else str(new.group["group"]), group_file)


def _comments(source: str, new: NewTask, file: Path) -> list[str]:
    same = new.task["fewshot_split"] == new.task["test_split"]
    return [
        f"Made of {source}: {new.guess}.",
        *([f"Prompt, examples and metrics are those of {new.like}."] if new.like else []),
        *(["Few-shot examples are drawn from the evaluated rows; others: data_files, fewshot_split"] if same else []),
        f"Check it: assaymark task check {file.name}",
        f"Run it:   assaymark run --model_args pretrained=DIR --tasks {file.name}",
        "To leave out rows that cannot be read, and count them, add: skip_bad_rows: true",
        f"All keys: {GUIDE}",
    ]


def _group_comments(new: NewTask) -> list[str]:
    return [
        f"{new.joined} and {new.task['task']} in one average, with one subject more than the published benchmark.",
        f"Only the value of {new.joined}, which is shown below it, is comparable with published ones.",
    ]
