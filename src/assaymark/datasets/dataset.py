"""A loaded data set: named splits of rows, and a hash of the bytes from which they were read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assaymark.datasets.rows import Rows
from assaymark.errors import DataError
from assaymark.records import JsonValue

DataOrigin = Literal["local", "hub", "files", "memory"]


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """The data set that a task names."""

    path: str
    name: str | None = None
    revision: str | None = None
    kwargs: tuple[tuple[str, JsonValue], ...] = ()
    base: Path | None = None  # folder of the task file, for relative data_files
    skip_bad_rows: bool = False  # leave out lines of CSV and JSON lines files that are no rows; else they are an error
    renamed: tuple[tuple[str, str], ...] = ()  # columns -> their names in the task

    @property
    def title(self) -> str:
        """The name of the data set in messages."""
        return self.path if self.name is None else f"{self.path} ({self.name})"


@dataclass(frozen=True, slots=True)
class LoadedDataset:
    """A data set whose splits are read on first access."""

    splits: Mapping[str, Rows]
    content_hash: str  # sha256 over the digests of the split files
    origin: DataOrigin
    revision: str | None = None
    folder: Path | None = None  # of its files, to which paths of images in its rows are relative; None: not here


class Splits(Mapping[str, Rows]):
    """Splits by name, each read on first access."""

    def __init__(self, title: str, readers: Mapping[str, Callable[[], Rows]]) -> None:
        self._title = title
        self._readers = dict(readers)
        self._read: dict[str, Rows] = {}

    def __getitem__(self, name: str) -> Rows:
        if name not in self._readers:
            raise DataError(
                f"data set {self._title} has no split '{name}'; it has {', '.join(self._readers) or 'none'}"
            )
        if name not in self._read:
            self._read[name] = self._readers[name]()
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)
