"""Make a task of a file, a folder or a Hub data set: its columns determine the task, and guesses are reported.

Known columns: `question,A,B,C,D,answer` and `prompt,option_a,option_b,gold` (a choice by letter),
`question,choices,answer`, `question,answer` and `prompt,reference` (a generated answer, compared exactly),
`instruction,input,output` (Alpaca's), `messages`, ShareGPT's `conversations` and TRL's `prompt,completion` (chats),
`question,tools,calls` (calls of functions), `text` (its perplexity). Names may be upper or lower case, with spaces
(`row_columns`); CSV may be separated by `,` `;` tab or `|`.

A data set's name is `org/name`, `org/name:config` or `org/name:config:split`. Configuration, split and columns are
guessed, and one line says what was guessed and how to change it.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from assaymark.datasets import DatasetSpec, LoadedDataset, Rows, load_dataset
from assaymark.datasets.csv_files import sniff_delimiter
from assaymark.datasets.files import READABLE, at_most, read_files, split_files
from assaymark.datasets.load import configurations_of
from assaymark.errors import DataError, UnknownName, UsageError, clipped, few
from assaymark.records import JsonValue
from assaymark.registry import nearest
from assaymark.tasks.answer_readings import READINGS
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.images import refuse_other_media, with_option_lists
from assaymark.tasks.row_columns import plain_name, refuse_faulty_lines, refuse_faulty_rows
from assaymark.tasks.row_shapes import Shape, check_of, shape_of
from assaymark.tasks.task import Task
from assaymark.tasks.tool_use import faults_of_rows

SUBJECT_COLUMNS = ("subject", "category", "topic")  # each of their values has a score of its own
_SUBJECT_LENGTH = 80
AS_TEXTS: dict[str, JsonValue] = {"dtype": "str"}  # of dataset_kwargs: cells of CSV files stay as they are written


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
    """A file of rows and the guesses about it."""

    rows: Rows
    shape: Shape
    builder: str  # dataset_path of a task file: csv, json or parquet
    options: dict[str, JsonValue]  # of dataset_kwargs: the delimiter where it is no comma, and `AS_TEXTS`
    renamed: dict[str, str]  # columns whose names a template cannot use -> their names in the task


def is_rows_file(path: Path) -> bool:
    """Return whether a file, by the end of its name, contains rows."""
    return path.name.lower().endswith(READABLE)


def row_file_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the name of the task of each file of rows, absolute paths: the file's own, without its ending.

    Files of one name have as much of their paths as tells them apart, below the folder that all of them are in:
    `nums.csv` and `sub/nums.csv` are `nums` and `sub/nums`. Files that differ in their endings only share a name.
    """
    alike: dict[str, list[Path]] = {}
    for path in dict.fromkeys(paths):
        alike.setdefault(name_of_rows(path), []).append(path)
    return {path: name for files in alike.values() for path, name in _names_of_files(files).items()}


def name_of_rows(path: Path) -> str:
    """Return the name of a file of rows without its ending: `e0.5.csv` is `e0.5`."""
    n_end = max((len(end) for end in READABLE if path.name.lower().endswith(end)), default=0)
    return path.name[: len(path.name) - n_end]


def _names_of_files(files: Sequence[Path]) -> dict[Path, str]:
    top = os.path.commonpath([file.parent for file in files])
    parts = {file: (*file.parent.relative_to(top).parts, name_of_rows(file)) for file in files}
    names = {}
    for file, own in parts.items():
        others = [other for each, other in parts.items() if each != file]
        n_parts = next((n for n in range(1, len(own)) if not any(other[-n:] == own[-n:] for other in others)), len(own))
        names[file] = "/".join(own[-n_parts:])
    return names


def task_from_rows(path: Path, data: OwnData = GUESSED, name: str | None = None) -> tuple[Task, list[str]]:
    """Return the task made of a file of rows, and notes on the guesses.

    Where bad rows are skipped they are not checked here; the task leaves out those that it cannot read. `name` is the
    task's, as `row_file_names` has it; without it the file's own.

    Raises: DataError if the columns are none of the known sets, or rows are faulty.
    """
    own = rows_of_file(path, data)
    task_name = name or name_of_rows(path)
    spec = {
        "task": task_name,
        "dataset_path": own.builder,
        "dataset_kwargs": {"data_files": {"test": path.name}, **own.options},
        "test_split": "test",
        "fewshot_split": "test",  # the sample itself is excluded from its shots
        "metadata": {"version": "1.0", **({} if data.answers is None else {"answers": data.answers})},
        **({"rename_columns": own.renamed} if own.renamed else {}),
        **own.shape.spec,
    }
    file_label = path.name if task_name == name_of_rows(path) else f"{Path(task_name).parent.as_posix()}/{path.name}"
    note = f"{file_label}: {own.shape.guess}{ignored_columns(own.rows, own.shape)}{coded_letters(own.rows, own.shape)}"
    return task_from_spec(spec, path, "user"), [note]


def ignored_columns(rows: Rows, shape: Shape) -> str:
    """Return the end of the note on what was guessed: which columns are not used, and which of several has subjects."""
    unused = {n.strip().lower(): n for n in rows.column_names if n not in shape.used}
    subjects = [unused.pop(column) for column in SUBJECT_COLUMNS if column in unused]
    rest = [n for n in rows.column_names if n in {*unused.values(), *subjects[1:]}]
    named = f"; subjects: column {subjects[0]}" if len(subjects) > 1 else ""
    return named + (f"; ignored columns: {', '.join(rest)}" if rest else "")


def subject_of(row: Mapping[str, object]) -> str | None:
    """Return the value of a row's first column of SUBJECT_COLUMNS, in any case, that has one; None without.

    In the row of an application they are among its metadata and inputs.
    """
    parts = [own for own in (row.get("inputs"), row.get("metadata"), row) if isinstance(own, Mapping)]
    named = {str(name).strip().lower(): value for own in parts for name, value in own.items()}
    for column in SUBJECT_COLUMNS:
        value = named.get(column)
        if isinstance(value, str) and (line := " ".join(value.split())):
            line = "".join(character if character.isprintable() else "\ufffd" for character in line)
            return clipped(line, _SUBJECT_LENGTH)
    return None


_CODED = re.compile(  # of a web page, of UTF-8 that was read as Windows-1252, and a letter that was lost
    r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{2,5}|#x[\da-fA-F]{2,4});|[ÃÂ][\u0080-\u00bf\u0152-\u0178\u2013-\u2122]|"
    r"â€[\u0080-\u00bf\u0152-\u0178\u2013-\u2122]|\ufffd"
)


def coded_letters(rows: Rows, shape: Shape) -> str:
    """Return the end of the note where letters are codes, which readers never see and models do not write."""
    n, first = 0, ""
    for column in shape.used:
        for value in rows.values(column):
            if isinstance(value, str) and (match := _CODED.search(value)) is not None:
                n, first = n + 1, first or f"'{value[max(0, match.start() - 10) : match.end() + 10]}' in '{column}'"
    texts = "1 text has" if n == 1 else f"{n:,} texts have"
    return f"; {texts} letters as codes or of another encoding ({first}): save the file as plain UTF-8" if n else ""


def rows_of_file(path: Path, data: OwnData) -> OwnRows:
    """Return a file's rows with the guesses about them.

    Raises: DataError if the columns are none of the known sets; for answers that can be read in two ways; for faulty
        rows, unless they are to be skipped.
    """
    skip_bad_rows = data.skip_bad_rows
    endings = [each.lower() for each in path.suffixes]
    is_csv = bool({".csv", ".tsv"} & set(endings))
    builder = "parquet" if endings[-1:] == [".parquet"] else "csv" if is_csv else "json"
    options: dict[str, JsonValue] = {}
    if is_csv and path.stat().st_size:
        delimiter = sniff_delimiter(path)
        if not skip_bad_rows:
            refuse_faulty_lines(path, delimiter, data.reading)
        options = {"delimiter": delimiter} if delimiter != "," else {}
    rows = read_files([path], options, skip_bad_rows=skip_bad_rows)
    if is_csv and not _are_as_written(
        rows, lambda: read_files([path], options | AS_TEXTS, skip_bad_rows=skip_bad_rows)
    ):
        options |= AS_TEXTS
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


def _are_as_written(rows: Rows, texts: Callable[[], Rows]) -> bool:
    """Return whether numbers and other values of a CSV file read as its cells: 7 does, and 007, 1E3 and TRUE do not.

    texts: reads the same cells as texts; only where a column is of another type.
    """
    first = {name: next((value for value in rows.values(name) if value is not None), "") for name in rows.column_names}
    typed = [name for name, value in first.items() if not isinstance(value, str)]
    if not typed:
        return True
    cells = texts()
    return all(
        value is None or str(value) == text
        for name in typed
        for value, text in zip(rows.values(name), cells.values(name), strict=True)
    )


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


EVALUATED = ("test", "validation", "valid", "val", "dev", "train")
FEWSHOT = ("dev", "train", "validation", "valid", "val", "test")
SHOWN = 12  # configurations that an error lists
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A data set as it was named, with its configuration and split where they were given."""

    path: str
    config: str | None = None
    split: str | None = None

    def __str__(self) -> str:
        """Return the name, as it can be given again."""
        parts = [self.path, self.config or "", self.split or ""]
        return ":".join(parts).rstrip(":")


@dataclass(frozen=True, slots=True)
class OwnDataset:
    """A data set's rows and the guesses about it."""

    name: DatasetName  # with configuration and split
    splits: tuple[str, ...]
    fewshot_split: str
    rows: Rows
    shape: Shape
    renamed: dict[str, str]  # columns whose names a template cannot use -> their names in the task
    options: dict[str, JsonValue]  # of dataset_kwargs: `AS_TEXTS`, where it is needed


_OTHER_TABLES = frozenset({".xlsx", ".xls", ".ods", ".txt", ".docx", ".xml", ".arrow", ".feather", ".sqlite"})


def dataset_name(text: str) -> DatasetName | None:
    """Return the data set that a name stands for: a folder of rows, or the form of a Hub id; None for other names.

    Raises: DataError for a file of another kind than those whose rows are read.
    """
    drive, plain = os.path.splitdrive(text)
    path, *rest = plain.split(":")
    if len(rest) > 2:
        return None
    config, split = (*(part or None for part in rest), None, None)[:2]
    folder = Path(drive + path).expanduser()
    if path and folder.is_dir():
        inner = (folder, folder / "data", *(each for each in folder.iterdir() if each.is_dir()))
        is_set = any(split_files(each) for each in inner)
        return DatasetName(str(folder.resolve()), config, split) if is_set else None
    if folder.suffix in _OTHER_TABLES and folder.is_file():
        known = ", ".join(sorted({name for name in READABLE if name.count(".") == 1}))
        raise DataError(
            f"cannot read rows of {folder}; expected a file that ends with {known}: save it as one of these"
        )
    return DatasetName(path, config, split) if _HUB_ID.fullmatch(path) else None


def task_from_dataset(name: DatasetName, own: OwnData) -> tuple[Task, list[str]]:
    """Return the task made of a data set, and the note on the guesses.

    Raises: as `find_dataset`.
    """
    dataset = find_dataset(name, own)
    others = [split for split in dataset.splits if split != dataset.name.split]
    guess = (
        f"{name.path}: configuration '{dataset.name.config or 'default'}', split '{dataset.name.split}'"
        + (f" (of {', '.join(dataset.splits)})" if others else "")
        + f", shots from '{dataset.fewshot_split}'; {dataset.shape.guess}{ignored_columns(dataset.rows, dataset.shape)}"
        + f"; to change it name {name.path}:CONFIG:SPLIT, or edit the file that `assaymark task init {name}` writes"
    )
    return task_from_spec(spec_of_dataset(dataset), Path(str(dataset.name)), "user"), [guess]


def spec_of_dataset(dataset: OwnDataset) -> dict[str, object]:
    """Return the keys of a task file for a data set."""
    bare = re.sub(r"[^\w.-]+", "_", Path(dataset.name.path).name)
    config = dataset.name.config
    return {
        "task": bare if config in {None, "default"} else f"{bare}_{config}",
        "dataset_path": dataset.name.path,
        **({} if config is None else {"dataset_name": config}),
        **({"dataset_kwargs": dataset.options} if dataset.options else {}),
        "test_split": dataset.name.split,
        "fewshot_split": dataset.fewshot_split,
        **({"rename_columns": dataset.renamed} if dataset.renamed else {}),
        **dataset.shape.spec,
        "metadata": {"version": "1.0"},
    }


def find_dataset(name: DatasetName, own: OwnData) -> OwnDataset:
    """Return a data set's rows with the guesses: configuration, split and columns.

    Raises: UsageError where several configurations or splits are possible; UnknownName for one that does not exist;
        DataError for a data set that is not found, for unknown columns, and for faulty rows unless they are to be
        skipped; MissingExtra without the library `datasets`, where it is needed.
    """
    config = _config_of(name, own.data_dir)
    spec = DatasetSpec(name.path, config, skip_bad_rows=own.skip_bad_rows)
    loaded = load_dataset(spec, own.data_dir)
    split = _split_of(name, list(loaded.splits))
    fewshot = next((candidate for candidate in FEWSHOT if candidate in loaded.splits and candidate != split), split)
    options: dict[str, JsonValue] = {}
    if _is_folder_of_csv(loaded):
        as_texts = load_dataset(replace(spec, kwargs=tuple(AS_TEXTS.items())), own.data_dir)
        for each in {split, fewshot}:
            if not _are_as_written(loaded.splits[each], partial(as_texts.splits.__getitem__, each)):
                options = dict(AS_TEXTS)
        loaded = as_texts if options else loaded
    rows = loaded.splits[split]
    where = f"{name.path}, split '{split}'"
    if not rows:
        raise DataError(f"{where} has no rows")
    refuse_other_media(where, rows)
    rows, renamed = with_plain_names(with_option_lists(rows))
    shape = shape_in(where, rows, own)
    if shape is None:
        raise DataError(
            f"{where}: its columns are {', '.join(rows.column_names)}; expected a question (question, prompt, stem, "
            "...) with an answer (answer, label, ...) and choices where it has any, or text; else write a task file"
        )
    if shape.tools is None and not own.skip_bad_rows and (check := check_of(shape)) is not None:
        refuse_faulty_rows(Path(str(replace(name, split=split))), rows, check)
    named = DatasetName(name.path, config, split)
    return OwnDataset(named, tuple(loaded.splits), fewshot, rows, shape, renamed, options)


def _is_folder_of_csv(loaded: LoadedDataset) -> bool:
    """Return whether a data set is a folder of the user's with CSV files."""
    files = loaded.folder.iterdir() if loaded.origin == "files" and loaded.folder is not None else ()
    return any({".csv", ".tsv"} & set(path.suffixes) for path in files)


def _config_of(name: DatasetName, data_dir: Path | None) -> str | None:
    known = configurations_of(name.path, data_dir)
    if name.config is not None:
        if known and name.config not in known:
            raise UnknownName(f"configuration of {name.path}", name.config, nearest(name.config, known), _listed(known))
        return name.config
    if len(known) > 1 and "default" not in known:
        raise UsageError(f"{name.path} has {len(known)} configurations; name one, as {name.path}:{known[0]}; "
                         f"{_listed(known)}")  # fmt: skip
    return known[0] if len(known) == 1 and known[0] != "default" else None


def _split_of(name: DatasetName, known: Sequence[str]) -> str:
    if name.split is not None:
        if name.split not in known:
            raise UnknownName(f"split of {name.path}", name.split, nearest(name.split, known), _listed(known))
        return name.split
    evaluated = next((split for split in EVALUATED if split in known), known[0] if len(known) == 1 else None)
    if evaluated is None and (Path(name.path).expanduser() / "config.json").is_file():
        raise UsageError(f"{name.path} is a model's folder, not a task; write --model_args pretrained={name.path}, and "
                         "name a task or a file of questions with --tasks")  # fmt: skip
    if evaluated is None:
        raise UsageError(f"{name.path} has no split test, validation or train; name one, as "
                         f"{name.path}:{name.config or ''}:{known[0]}; {_listed(known)}")  # fmt: skip
    return evaluated


def _listed(names: Sequence[str]) -> str:
    return f"it has: {few(names, SHOWN)}"
