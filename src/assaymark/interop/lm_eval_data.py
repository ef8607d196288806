"""lm-eval's own tasks with local data: data sets are searched in ASSAYMARK_DATA before the Hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.datasets.files import local_files
from assaymark.datasets.load import names_of_same_rows
from assaymark.settings import data_folder

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

__all__ = ["data_from_folder"]


@contextmanager
def data_from_folder() -> Iterator[None]:
    """Within the block, make `datasets.load_dataset`, which lm-eval calls, search ASSAYMARK_DATA first.

    Data sets that the folder does not have are loaded from the Hub. Without the variable nothing changes.

    Raises: UsageError if the variable does not name a folder.
    """
    root = data_folder()
    if root is None:
        yield
        return
    import datasets

    hub = datasets.load_dataset

    def load(path: str, name: str | None = None, *args: object, **kwargs: object) -> "Dataset | DatasetDict":
        is_plain = not args and not kwargs.get("data_files") and not kwargs.get("data_dir")
        files = _parquet_files(root, str(path), name) if is_plain else {}
        if not files:
            return hub(path, name, *args, **kwargs)
        return hub("parquet", data_files=files, split=kwargs.get("split"))

    datasets.load_dataset = load
    try:
        yield
    finally:
        datasets.load_dataset = hub


def _parquet_files(root: Path, path: str, name: str | None) -> dict[str, list[str]]:
    """Return the data set's Parquet files in the folder, by split; empty if there are none."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        return {}
    for known in names_of_same_rows(path):
        by_split = local_files(root, known, name)
        if by_split and all(file.suffix == ".parquet" for files in by_split.values() for file in files):
            return {split: [str(file) for file in files] for split, files in by_split.items()}
    return {}
