"""Make a task of a CSV or JSONL file: its columns determine the task, and what was guessed is reported.

Known columns: `question,A,B,C,D,answer` and `prompt,option_a,option_b,gold` (a choice by letter),
`question,choices,answer`, `question,answer` and `prompt,reference` (a generated answer, compared exactly),
`instruction,input,output` (Alpaca's), `messages`, ShareGPT's `conversations` and TRL's `prompt,completion` (chats),
`question,tools,calls` (calls of functions), `text` (its perplexity). Names may be upper or lower case, with spaces
(`row_columns`); CSV may be separated by `,` `;` tab or `|`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark.datasets import Rows
from assaymark.datasets.csv_files import sniff_delimiter
from assaymark.datasets.files import READABLE, at_most, read_files
from assaymark.errors import DataError
from assaymark.tasks.answer_readings import READINGS
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.image_columns import refuse_other_media, with_option_lists
from assaymark.tasks.row_columns import plain_name, refuse_faulty_lines, refuse_faulty_rows
from assaymark.tasks.row_shapes import Shape, check_of, shape_of
from assaymark.tasks.task import Task
from assaymark.tasks.tool_use import faults_of_rows

__all__ = [
    "OwnData",
    "OwnRows",
    "ignored_columns",
    "is_rows_file",
    "rows_of_file",
    "shape_in",
    "task_from_rows",
    "with_plain_names",
]

SHOWN_COLUMNS = frozenset({"category", "subject", "topic"})  # they group the samples on their page


@dataclass(frozen=True, slots=True)
class OwnData:
    """How rows that are named as a task are read."""

    data_dir: Path | None = None  # local copies of data sets of the Hub
    skip_bad_rows: bool = False
    answers: str | None = None  # how answers name an option, a key of `answer_readings.READINGS`; None: guessed

    @property
    def reading(self) -> str | None:
        """The reading of the answers that was named."""
        return None if self.answers is None else READINGS[self.answers]


GUESSED = OwnData()


@dataclass(frozen=True, slots=True)
class OwnRows:
    """A file of rows and what was guessed about it."""

    rows: Rows
    shape: Shape
    builder: str  # dataset_path of a task file: csv, json or parquet
    options: dict[str, Any]  # of dataset_kwargs: the delimiter, where it is no comma
    renamed: dict[str, str]  # columns whose names a template cannot use -> their names in the task


def is_rows_file(path: Path) -> bool:
    """Return whether a file, by the end of its name, contains rows."""
    return path.name.endswith(READABLE)


def task_from_rows(path: Path, data: OwnData = GUESSED) -> tuple[Task, list[str]]:
    """Return the task made of a file of rows, and notes on what was guessed.

    Where bad rows are skipped they are not checked here; the task leaves out those that it cannot read.

    Raises: DataError if the columns are none of the known sets, or rows are faulty.
    """
    own = rows_of_file(path, data)
    spec = {
        "task": path.name.split(".")[0],
        "dataset_path": own.builder,
        "dataset_kwargs": {"data_files": {"test": path.name}, **own.options},
        "test_split": "test",
        "fewshot_split": "test",  # the sample itself is excluded from its shots
        "metadata": {"version": "1.0", **({} if data.answers is None else {"answers": data.answers})},
        **({"rename_columns": own.renamed} if own.renamed else {}),
        **own.shape.spec,
    }
    note = f"{path.name}: {own.shape.guess}{ignored_columns(own.rows, own.shape)}"
    return task_from_spec(spec, path, "user"), [note]


def ignored_columns(rows: Rows, shape: Shape) -> str:
    """Return the end of the note on what was guessed: which columns are not used."""
    ignored = [n for n in rows.column_names if n not in shape.used and n.strip().lower() not in SHOWN_COLUMNS]
    return f"; ignored columns: {', '.join(ignored)}" if ignored else ""


def rows_of_file(path: Path, data: OwnData) -> OwnRows:
    """Return a file's rows with what was guessed about them.

    Raises: DataError if the columns are none of the known sets; for answers that can be read in two ways; for faulty
        rows, unless they are to be skipped.
    """
    skip_bad_rows = data.skip_bad_rows
    is_csv = bool({".csv", ".tsv"} & set(path.suffixes))
    builder = "parquet" if path.suffix == ".parquet" else "csv" if is_csv else "json"
    options: dict[str, Any] = {}
    if is_csv and path.stat().st_size:
        delimiter = sniff_delimiter(path)
        if not skip_bad_rows:
            refuse_faulty_lines(path, delimiter, data.reading)
        options = {"delimiter": delimiter} if delimiter != "," else {}
    rows = read_files([path], options, skip_bad_rows=skip_bad_rows)
    if not rows:
        raise DataError(f"{path} has no rows" + (f"; {rows.skipped}" if rows.skipped.n else ""))
    refuse_other_media(path, rows)
    rows, renamed = with_plain_names(with_option_lists(rows))
    shape = shape_in(path, rows, data)
    if shape is None:
        raise DataError(
            f"{path}: its columns are {', '.join(rows.column_names)}; expected question,A,B,C,D,answer or "
            "prompt,option_a,option_b,gold or question,choices,answer or question,answer or prompt,reference or "
            "instruction,input,output or messages or conversations or question,tools,calls or text; else write a task "
            "file"
        )
    if shape.tools is not None and not skip_bad_rows and (faults := faults_of_rows(rows, shape.tools)):
        raise DataError(f"{path}: {at_most(faults)}; correct them, skip them (--skip_bad_rows), or write a task file")
    if shape.tools is None and not skip_bad_rows and (check := check_of(shape)) is not None:
        refuse_faulty_rows(path, rows, check)
    return OwnRows(rows, shape, builder, options, renamed)


def with_plain_names(rows: Rows) -> tuple[Rows, dict[str, str]]:
    """Return rows whose columns have names that templates can use (`Option A`: Option_A), and what was renamed."""
    plain = {name: plain_name(name) for name in rows.column_names}
    taken = {name.lower() for name in rows.column_names}
    renamed = {name: made for name, made in plain.items() if made is not None and made.lower() not in taken}
    return (rows.rename_columns(renamed) if renamed else rows), renamed


def shape_in(where: object, rows: Rows, data: OwnData) -> Shape | None:
    """Return the shape of rows, as `shape_of`, with the file or data set named in its errors."""
    try:
        return shape_of(rows, data.reading)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
