"""Make a task of a data set that is named by its Hub id or folder.

Its name is `org/name`, `org/name:config` or `org/name:config:split`. Configuration, split and columns are guessed, and
one line says what was guessed and how to change it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assaymark.datasets import DatasetSpec, Rows, load_dataset
from assaymark.datasets.configurations import configurations_of
from assaymark.datasets.files import split_files
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.registry import nearest
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.image_columns import refuse_other_media, with_option_lists
from assaymark.tasks.own_rows import OwnData, ignored_columns, shape_in, with_plain_names
from assaymark.tasks.row_columns import refuse_faulty_rows
from assaymark.tasks.row_shapes import Shape, check_of
from assaymark.tasks.task import Task

__all__ = ["DatasetName", "OwnDataset", "dataset_name", "find_dataset", "spec_of_dataset", "task_from_dataset"]

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
        given = [self.path, self.config or "", self.split or ""]
        return ":".join(given).rstrip(":")


@dataclass(frozen=True, slots=True)
class OwnDataset:
    """A data set's rows and what was guessed about it."""

    name: DatasetName  # with configuration and split
    splits: tuple[str, ...]
    fewshot_split: str
    rows: Rows
    shape: Shape
    renamed: dict[str, str]  # columns whose names a template cannot use -> their names in the task


def dataset_name(text: str) -> DatasetName | None:
    """Return the data set that a name stands for: a folder of rows, or the form of a Hub id; None for other names."""
    path, *rest = text.split(":")
    if len(rest) > 2:
        return None
    config, split = (*(part or None for part in rest), None, None)[:2]
    folder = Path(path).expanduser()
    if path and folder.is_dir():
        inner = (folder, folder / "data", *(each for each in folder.iterdir() if each.is_dir()))
        is_set = any(split_files(each) for each in inner)
        return DatasetName(str(folder.resolve()), config, split) if is_set else None
    return DatasetName(path, config, split) if _HUB_ID.fullmatch(path) else None


def task_from_dataset(name: DatasetName, own: OwnData) -> tuple[Task, list[str]]:
    """Return the task made of a data set, and the note on what was guessed.

    Raises: as `find_dataset`.
    """
    found = find_dataset(name, own)
    others = [split for split in found.splits if split != found.name.split]
    guess = (
        f"{name.path}: configuration '{found.name.config or 'default'}', split '{found.name.split}'"
        + (f" (of {', '.join(found.splits)})" if others else "")
        + f", shots from '{found.fewshot_split}'; {found.shape.guess}{ignored_columns(found.rows, found.shape)}"
        + f"; to change it name {name.path}:CONFIG:SPLIT, or edit the file that `assaymark task init {name}` writes"
    )
    return task_from_spec(spec_of_dataset(found), Path(str(found.name)), "user"), [guess]


def spec_of_dataset(found: OwnDataset) -> dict[str, Any]:
    """Return the keys of a task file for a data set."""
    bare = re.sub(r"[^\w.-]+", "_", Path(found.name.path).name)
    config = found.name.config
    return {
        "task": bare if config in {None, "default"} else f"{bare}_{config}",
        "dataset_path": found.name.path,
        **({} if config is None else {"dataset_name": config}),
        "test_split": found.name.split,
        "fewshot_split": found.fewshot_split,
        **({"rename_columns": found.renamed} if found.renamed else {}),
        **found.shape.spec,
        "metadata": {"version": "1.0"},
    }


def find_dataset(name: DatasetName, own: OwnData) -> OwnDataset:
    """Return a data set's rows with what was guessed: configuration, split and columns.

    Raises: UsageError where several configurations or splits are possible; UnknownName for one that does not exist;
        DataError for a data set that is not found, for unknown columns, and for faulty rows unless they are to be
        skipped; MissingExtra without the library `datasets`, where it is needed.
    """
    config = _config_of(name, own.data_dir)
    loaded = load_dataset(DatasetSpec(name.path, config, skip_bad_rows=own.skip_bad_rows), own.data_dir)
    split = _split_of(name, list(loaded.splits))
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
    fewshot = next((one for one in FEWSHOT if one in loaded.splits and one != split), split)
    return OwnDataset(DatasetName(name.path, config, split), tuple(loaded.splits), fewshot, rows, shape, renamed)


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
    found = next((split for split in EVALUATED if split in known), known[0] if len(known) == 1 else None)
    if found is None:
        raise UsageError(f"{name.path} has no split test, validation or train; name one, as "
                         f"{name.path}:{name.config or ''}:{known[0]}; {_listed(known)}")  # fmt: skip
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"it has: {', '.join(names[:SHOWN])}{more}"
