"""Large CSV files: converted once per process to a file of record batches, of which one is in memory at a time.

The column types are those that pyarrow infers from the whole file. Its streaming reader infers them from the first
block only, so a column that does not convert gets the next type in pyarrow's order, and reading begins again.
"""

import os
import re
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark import settings
from assaymark.datasets.rows import Row

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions
from assaymark.datasets.packed_files import arrow_input

BLOCK_BYTES = 1 << 20  # pyarrow reads up to 32 blocks ahead
LARGEST_BLOCK = 2**30
KEPT_SECONDS = 86_400
_NOT_CONVERTED = re.compile(r"In CSV column #(\d+): .*CSV conversion error to ([^:]+):")
TOO_LONG = "straddling object"


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """pyarrow's options: parse and convert, and those of reading without the block size."""

    parse: "ParseOptions"
    convert: "ConvertOptions"
    read: "Callable[[int], ReadOptions]"  # of a block size in bytes


class BatchFile:
    """The rows of a converted file, read from one record batch at a time."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._reader = pa.ipc.open_file(pa.OSFile(str(path)))
        self.names: list[str] = self._reader.schema.names
        self._ends: list[int] = []
        n_rows = 0
        for number in range(self._reader.num_record_batches):
            n_rows += self._reader.get_batch(number).num_rows
            self._ends.append(n_rows)
        self.n_rows = n_rows
        self._last: tuple[int, RecordBatch | None] = (-1, None)

    def rows(self, start: int, stop: int) -> list[Row]:
        """Return the rows from `start` up to `stop`."""
        rows: list[Row] = []
        while start < stop:
            number = bisect_right(self._ends, start)
            first = self._ends[number - 1] if number else 0
            part = self._batch(number).slice(start - first, stop - start)
            rows += part.to_pylist()
            start += part.num_rows
        return rows

    def column(self, name: str) -> Iterator[object]:
        """Yield a column's values."""
        for number in range(len(self._ends)):
            yield from self._reader.get_batch(number).column(self.names.index(name)).to_pylist()

    def _batch(self, number: int) -> "RecordBatch":
        if self._last[0] != number:
            self._last = (number, self._reader.get_batch(number))
        return self._last[1]


def batch_file(path: Path, options: CsvOptions) -> BatchFile | None:
    """Return a CSV file's rows; None where only reading it as a whole gives pyarrow's types.

    The converted file is in the cache folder, without a name from the moment it is open.

    Raises: OSError, ValueError as pyarrow.
    """
    types = _first_types(path, options)
    block = BLOCK_BYTES
    while types is not None and block <= LARGEST_BLOCK:
        rows_file = _temporary()
        try:
            _convert(path, options, types, block, rows_file)
            return BatchFile(rows_file)
        except ValueError as error:
            if TOO_LONG in str(error):
                block *= 4
            elif not _loosened(types, error):
                return None
        finally:
            with suppress(OSError):  # Windows keeps it until the process ends
                rows_file.unlink()
    return None


def _temporary() -> Path:
    folder = settings.cache_folder() / "rows"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.arrow"):  # by a process that was killed while it converted a file
            if left.stat().st_mtime < time.time() - KEPT_SECONDS:
                left.unlink()
        handle, name = tempfile.mkstemp(".arrow", dir=folder)
    except OSError:
        handle, name = tempfile.mkstemp(".arrow")
    os.close(handle)
    return Path(name)


def _first_types(path: Path, options: CsvOptions) -> dict[str, object] | None:
    """Return the types of the first block's columns; None for names that occur twice or a row that fills no block."""
    from pyarrow import csv as arrow_csv

    try:
        with (
            arrow_input(path) as file,
            arrow_csv.open_csv(
                file,
                read_options=options.read(BLOCK_BYTES),
                parse_options=options.parse,
                convert_options=options.convert,
            ) as reader,
        ):
            schema = reader.schema
    except ValueError:
        return None
    return dict(zip(schema.names, schema.types, strict=True)) if len(set(schema.names)) == len(schema) else None


def _convert(path: Path, options: CsvOptions, types: dict[str, object], block: int, target: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    convert = arrow_csv.ConvertOptions(
        strings_can_be_null=options.convert.strings_can_be_null,
        null_values=options.convert.null_values,
        column_types=types,
    )
    with (
        arrow_input(path) as file,
        arrow_csv.open_csv(
            file, read_options=options.read(block), parse_options=options.parse, convert_options=convert
        ) as reader,
        pa.OSFile(str(target), "wb") as stream,
        pa.ipc.new_file(stream, reader.schema) as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)


def _loosened(types: dict[str, object], error: ValueError) -> bool:
    """Give the column that an error names the next type of pyarrow's order; return whether there is one."""
    import pyarrow as pa

    order = [
        pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("ns"),
        pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), pa.float64(), pa.string(),
    ]  # fmt: skip
    match = _NOT_CONVERTED.search(str(error))
    if match is None:
        return False
    name = list(types)[int(match[1])]
    if types[name] not in order[:-1]:
        return False
    types[name] = order[order.index(types[name]) + 1]
    return True
