"""CSV files: read by pyarrow as a whole, or line by line to check a user's own file before it becomes a task.

Large CSV files: converted once per process to a file of record batches, of which one is in memory at a time.

The column types are those that pyarrow infers from the whole file. Its streaming reader infers them from the first
block only, so a column that does not convert gets the next type in pyarrow's order, and reading begins again.

Gzipped data files, unpacked within limits: a megabyte may hold a gigabyte, and one line of it no end.
"""

import codecs
import csv
import gzip
import io
import os
import re
import tempfile
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from assaymark import settings
from assaymark.datasets.rows import Row, Rows
from assaymark.errors import DataError
from assaymark.records import Skipped

if TYPE_CHECKING:
    from _csv import Reader

    from pyarrow import RecordBatch, Table
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

FREE_BYTES = 64 << 20  # unpacked bytes that any file may have
MOST_RATIO = 200  # unpacked to packed bytes beyond that; text has 3 to 10, gzip's limit is 1,032
LONGEST_LINE = 64 << 20  # bytes


class _Unpacked(io.RawIOBase):
    """The bytes in a gzipped file.

    Raises: DataError while it is read, if there are too many for its size, or a line is too long.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._file = path, gzip.open(path, "rb")  # noqa: SIM115 - closed with this object
        self._most = max(FREE_BYTES, MOST_RATIO * path.stat().st_size)
        self._n = self._n_line = 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override] # any buffer, in typeshed
        """Fill the buffer with what comes next and return the number of bytes, 0 at the end."""
        data = self._file.read1(len(buffer))
        buffer[: len(data)] = data
        self._n += len(data)
        end = data.rfind(b"\n")
        longest = self._n_line + (len(data) if end < 0 else data.find(b"\n"))
        self._n_line = self._n_line + len(data) if end < 0 else len(data) - end - 1
        if self._n > self._most:
            raise DataError(
                f"{self._path} has {self._path.stat().st_size:,} bytes that unpack to more than {self._most:,}; "
                f"expected at most {MOST_RATIO} times as many, or {FREE_BYTES >> 20} MiB. Unpack it, if it is what it "
                "should be"
            )
        if longest > LONGEST_LINE:
            raise DataError(
                f"{self._path} unpacks to a line of more than {LONGEST_LINE >> 20} MiB; expected a row on each line. "
                "Unpack it, if it is what it should be"
            )
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_packed(path: Path) -> io.BufferedReader:
    """Return the bytes in a gzipped file.

    Raises: OSError; DataError, while it is read, beyond the limits.
    """
    return io.BufferedReader(_Unpacked(path), 1 << 18)


def open_packed_text(path: Path, newline: str | None = None) -> io.TextIOWrapper:
    """Return the text in a gzipped file: UTF-8, with or without a byte order mark.

    Raises: OSError; DataError, while it is read, beyond the limits.
    """
    return io.TextIOWrapper(open_packed(path), encoding="utf-8-sig", newline=newline)


@contextmanager
def arrow_input(path: Path) -> Iterator[Path | io.BufferedReader]:
    """Yield the source from which pyarrow reads a file: its path, which it maps itself, or the unpacked bytes.

    Raises: OSError; DataError, while it is read, beyond the limits.
    """
    if path.suffix != ".gz":
        yield path
        return
    with open_packed(path) as file:
        yield file


Read = TypeVar("Read")

BLOCK_BYTES = 1 << 20  # pyarrow reads up to 32 blocks ahead
LARGEST_BLOCK = 2**30
KEPT_SECONDS = 86_400
_NOT_CONVERTED = re.compile(r"In CSV column #(\d+): .*CSV conversion error to ([^:]+):")
_TOO_LONG = "straddling object"


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
            if _TOO_LONG in str(error):
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


DELIMITERS = ",;\t|"
PACKED = 30  # assumed largest compression ratio of a gzipped text file
SNIFFED = 1 << 20  # characters that are searched for the header
LARGEST_CELL = 2**31 - 1
AT_ONCE = 1000  # records
LARGE = 32 << 20  # bytes above which a file is not read into memory as a whole
LARGE_PACKED = 8 << 20  # the same for a gzipped file
MOST_LISTED = 20  # lines that are no rows, of which the location is kept


@dataclass(frozen=True, slots=True)
class CsvLine:
    """One record: the line of the file in which it begins, counted from 1, and its cells."""

    number: int
    cells: tuple[str, ...]


def sniff_delimiter(path: Path) -> str:
    """Return the delimiter that the file names (`sep=;`), else the one of `,` `;` tab `|` with the most columns.

    Raises: DataError for a file that cannot be read or is not UTF-8.
    """
    if (stated := stated_delimiter(path)) is not None:
        return stated
    with _opened(path) as stream:
        beginning = _decoded(path, lambda: stream.read(SNIFFED))
    readers = {sign: csv.reader(io.StringIO(beginning, newline=""), delimiter=sign) for sign in DELIMITERS}
    counts = {sign: len(_next_record(reader) or ()) for sign, reader in readers.items()}
    return max(DELIMITERS, key=lambda sign: counts[sign])  # the comma if none occurs


def stated_delimiter(path: Path) -> str | None:
    """Return the delimiter that a first line states for Excel (`sep=;`), which is no row; None without such a line."""
    with _opened(path) as stream:
        match = _decoded(path, lambda: re.fullmatch(r'"?sep=([^"\r\n])"?[\r\n]*', stream.readline(12), re.IGNORECASE))
    return None if match is None else match[1]


def csv_lines(path: Path, delimiter: str) -> Iterator[CsvLine]:
    """Yield the records of a file, the header first, without empty lines and the one that states the delimiter.

    Raises: DataError for a file that cannot be read or is not UTF-8.
    """
    n_before = int(stated_delimiter(path) is not None)
    with _opened(path) as stream:
        reader = csv.reader(stream, delimiter=delimiter)
        while True:
            lines = _decoded(path, lambda: _next_lines(reader))
            yield from (line for line in lines if line.cells and line.number > n_before)
            if len(lines) < AT_ONCE:
                return


def _next_lines(reader: "Reader") -> list[CsvLine]:
    """Return the next records, of any size; the limit on cells is global to the process, so it is restored at once."""
    before = csv.field_size_limit(LARGEST_CELL)
    try:
        number, lines = reader.line_num, []
        for cells in islice(reader, AT_ONCE):
            lines.append(CsvLine(number + 1, tuple(cells)))
            number = reader.line_num
        return lines
    finally:
        csv.field_size_limit(before)


def _next_record(reader: "Reader") -> list[str] | None:
    """Return the next record, of any size; the limit on cells is global to the process, so it is restored at once."""
    before = csv.field_size_limit(LARGEST_CELL)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(before)


def _opened(path: Path) -> io.TextIOWrapper:
    try:
        if path.suffix == ".gz":
            return open_packed_text(path, newline="")
        return path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _decoded(path: Path, read: Callable[[], Read]) -> Read:
    try:
        return read()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8: line {_undecodable_line(path)}, byte {error.object[error.start]:#04x}; save the "
            f"file as UTF-8 (for example: iconv -f {_likely_encoding(path)} -t utf-8 {path.name})"
        ) from error
    except (OSError, EOFError, csv.Error, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from error


def _likely_encoding(path: Path) -> str:
    """Return iconv's name of the encoding that a file with other bytes than UTF-8's probably has."""
    with path.open("rb") as file:
        begins_with = file.read(2)
    return "utf-16" if begins_with in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "latin1"


def _undecodable_line(path: Path) -> int:
    with open_packed(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return 1


def read_csv(
    paths: Sequence[Path], options: Mapping[str, object], separator: str, *, skip_bad_rows: bool = False
) -> Rows:
    """Return the rows of several files, concatenated.

    A single large file is converted on disk, so that memory is bounded; see `csv_stream`.

    Args:
        paths: the files.
        options: `sep` or `delimiter`, `header`, `column_names`, as in the library `datasets`.
        separator: the default delimiter.
        skip_bad_rows: leave out lines with another number of cells than the header; they are in `Rows.skipped`.

    Raises: OSError, ValueError as pyarrow; ValueError for text that is not UTF-8, or an invalid option.
    """
    import pyarrow as pa

    for path in paths:
        if (encoding := _likely_encoding(path)) == "utf-16":
            raise ValueError(f"{path.name} is UTF-16; save it as UTF-8 (iconv -f {encoding} -t utf-8 {path.name})")
    stated = {stated_delimiter(path) for path in paths}
    if len(stated) > 1:
        raise ValueError("some of the files begin with a line sep=, and others do not or with another sign")
    delimiter, read_options = _options(options, next(iter(stated)) or separator)
    if stated != {None}:
        read_options["skip_rows"] = 1 + int(str(read_options["skip_rows"]))
    faults = _line_faults(paths, delimiter) if skip_bad_rows else Skipped()
    rejected = _Rejected()
    made_options = _csv_options(delimiter, read_options, rejected if skip_bad_rows else None)
    stored = None
    if len(paths) == 1 and paths[0].stat().st_size > (LARGE_PACKED if paths[0].suffix == ".gz" else LARGE):
        status = paths[0].stat()
        stored = _stored(
            paths[0], (status.st_mtime_ns, status.st_size), delimiter, tuple(read_options.items()), skip_bad_rows
        )
        rejected.n = faults.n  # blocks are read again where types change, so the rejected lines cannot be counted
    if stored is not None:
        rows = Rows.of_source(stored.n_rows, stored.rows, stored.column, stored.names)
    else:
        rejected.n = 0
        rows = Rows.of_table(
            pa.concat_tables([_table(path, made_options) for path in paths], promote_options="permissive")
        )
    if rejected.n != faults.n:
        raise ValueError(f"{faults.n} of its lines are no rows by one count and {rejected.n} by another; correct them")
    rows.skipped = faults
    if len(paths) == 1:
        rows.places = lambda indices: _places(paths[0], delimiter, indices, has_header="column_names" not in options)
    return rows


@lru_cache(maxsize=2)  # a file is read to choose its columns, and again when it is evaluated
def _stored(
    path: Path, _stamp: tuple[int, int], delimiter: str, read: tuple[tuple[str, object], ...], skip_bad_rows: bool
) -> BatchFile | None:
    return batch_file(path, _csv_options(delimiter, dict(read), _Rejected() if skip_bad_rows else None))


@dataclass(slots=True)
class _Rejected:
    """Leaves out the lines that pyarrow cannot read, and counts them."""

    n: int = 0

    def __call__(self, _: object) -> str:
        self.n += 1
        return "skip"


def _options(options: Mapping[str, object], separator: str) -> tuple[str, dict[str, object]]:
    """Return the delimiter, and the arguments of pyarrow's ReadOptions besides the size of a block."""
    names, delimiter = options.get("column_names"), options.get("sep") or options.get("delimiter") or separator
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"column_names is {names!r:.80}; expected a list of names")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
        raise ValueError(f"the delimiter is {delimiter!r:.80}; expected one character")
    has_header = "column_names" not in options and options.get("header", 0) is not None
    return delimiter, {
        "column_names": None if names is None else tuple(names),
        "autogenerate_column_names": not has_header and "column_names" not in options,
        "skip_rows": 1 if "column_names" in options and options.get("header") == 0 else 0,
    }


def _csv_options(delimiter: str, read: Mapping[str, object], handler: object) -> CsvOptions:
    from pyarrow import csv as arrow_csv

    return CsvOptions(
        arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handler),
        arrow_csv.ConvertOptions(strings_can_be_null=True, null_values=[""]),  # "N/A" and "null" are texts
        lambda block_size: arrow_csv.ReadOptions(block_size=block_size, **read),
    )


def _table(path: Path, options: CsvOptions) -> "Table":
    from pyarrow import csv as arrow_csv

    def table_of(block: int) -> "Table":
        with arrow_input(path) as file:
            return arrow_csv.read_csv(
                file,
                read_options=options.read(block),
                parse_options=options.parse,
                convert_options=options.convert,
            )

    try:
        table = table_of(_whole_file_block([path]))
    except ValueError as error:
        if _TOO_LONG not in str(error):
            raise
        # a packed file is larger than its size suggests, and a row does not fit into a block
        try:
            table = table_of(2 * LONGEST_LINE)
        except ValueError as again:
            if _TOO_LONG not in str(again):
                raise
            raise ValueError(f"a row has more than {2 * LONGEST_LINE >> 20} MiB") from again
    _refuse_bytes(path, table)
    return table


def _line_faults(paths: Sequence[Path], delimiter: str) -> Skipped:
    """Return the lines that have another number of cells than their file's first one."""
    n = 0
    first: list[str] = []
    for path in paths:
        where = "" if len(paths) == 1 else f"{path.name} "
        width = 0
        for line in csv_lines(path, delimiter):
            width = width or len(line.cells)
            if len(line.cells) != width:
                n += 1
                if len(first) < MOST_LISTED:
                    cells = "cell" if len(line.cells) == 1 else "cells"
                    first.append(f"{where}line {line.number}: {len(line.cells)} {cells}, but the header has {width}")
    return Skipped(n, tuple(first))


def _places(path: Path, delimiter: str, indices: Sequence[int], *, has_header: bool) -> list[str]:
    """Return the lines of the rows at these indices, counted without the lines that are no rows."""
    wanted, by_index, index, width = set(indices), {}, -1 if has_header else 0, 0
    for line in csv_lines(path, delimiter):
        width = width or len(line.cells)
        if len(line.cells) != width:
            continue
        if index in wanted:
            by_index[index] = f"line {line.number}"
            if len(by_index) == len(wanted):
                break
        index += 1
    return [by_index.get(index, f"row {index + 1}") for index in indices]


def _whole_file_block(paths: Sequence[Path]) -> int:
    """Return a block size that makes each file one block, so that no cell is split and types are inferred from all."""
    largest = max(path.stat().st_size * (PACKED if path.suffix == ".gz" else 1) for path in paths)
    return min(largest + 1, 2**31 - 1)


def _refuse_bytes(path: Path, table: "Table") -> None:
    """Raise ValueError if a column is not UTF-8 text, which pyarrow would return as bytes."""
    import pyarrow as pa

    columns = [field.name for field in table.schema if pa.types.is_binary(field.type)]
    if columns:
        raise ValueError(
            f"{path}: column {', '.join(columns)} is not UTF-8; save the file as UTF-8 "
            f"(for example: iconv -f {_likely_encoding(path)} -t utf-8 {path.name})"
        )
