"""CSV files: read by pyarrow as a whole, or line by line to check a user's own file before it becomes a task."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalstone.datasets.rows import Rows
from evalstone.errors import DataError

__all__ = ["CsvLine", "csv_lines", "read_csv", "sniff_delimiter"]

DELIMITERS = ",;\t|"
PACKED = 30  # assumed largest compression ratio of a gzipped text file
SNIFFED = 1 << 20  # characters that are searched for the header
LARGEST_CELL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CsvLine:
    """One record: the line of the file in which it begins, counted from 1, and its cells."""

    number: int
    cells: tuple[str, ...]


def sniff_delimiter(path: Path) -> str:
    """Return the delimiter among `,` `;` tab `|` that splits the header into the most columns.

    Raises: DataError for a file that cannot be read or is not UTF-8.
    """
    with _opened(path) as stream:
        beginning = _decoded(path, lambda: stream.read(SNIFFED))
    readers = {sign: csv.reader(io.StringIO(beginning, newline=""), delimiter=sign) for sign in DELIMITERS}
    counts = {sign: len(_next_record(reader) or ()) for sign, reader in readers.items()}
    return max(DELIMITERS, key=lambda sign: counts[sign])  # the comma if none occurs


def csv_lines(path: Path, delimiter: str) -> Iterator[CsvLine]:
    """Yield the records of a file, the header first, without empty lines.

    Raises: DataError for a file that cannot be read or is not UTF-8.
    """
    with _opened(path) as stream:
        reader = csv.reader(stream, delimiter=delimiter)
        while True:
            number = reader.line_num + 1
            cells = _decoded(path, lambda: _next_record(reader))
            if cells is None:
                return
            if cells:
                yield CsvLine(number, tuple(cells))


def _next_record(reader: Any) -> list[str] | None:
    """Return the next record, of any size; the limit on cells is global to the process, so it is restored at once."""
    before = csv.field_size_limit(LARGEST_CELL)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(before)


def _opened(path: Path) -> Any:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        return path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _decoded(path: Path, read: Any) -> Any:
    try:
        return read()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8: line {_undecodable_line(path)}, byte {error.object[error.start]:#04x}; save the "
            f"file as UTF-8 (for example: iconv -f latin1 -t utf-8 {path.name})"
        ) from error
    except (OSError, EOFError, csv.Error, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from error


def _undecodable_line(path: Path) -> int:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return 1


def read_csv(paths: Sequence[Path], options: Mapping[str, Any], separator: str) -> Rows:
    """Return the rows of several files, concatenated.

    Args:
        paths: the files.
        options: `sep` or `delimiter`, `header`, `column_names`, as in the library `datasets`.
        separator: the default delimiter.

    Raises: OSError, ValueError as pyarrow; ValueError for text that is not UTF-8, or an invalid option.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, delimiter = options.get("column_names"), options.get("sep") or options.get("delimiter") or separator
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"column_names is {names!r:.80}; expected a list of names")
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
        raise ValueError(f"the delimiter is {delimiter!r:.80}; expected one character")
    has_header = "column_names" not in options and options.get("header", 0) is not None
    skip = 1 if "column_names" in options and options.get("header") == 0 else 0
    read = arrow_csv.ReadOptions(
        block_size=_whole(paths),
        column_names=names,
        autogenerate_column_names=not has_header and "column_names" not in options,
        skip_rows=skip,
    )
    parse = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = arrow_csv.ConvertOptions(strings_can_be_null=True, null_values=[""])  # "N/A" and "null" are texts
    tables = [
        arrow_csv.read_csv(path, read_options=read, parse_options=parse, convert_options=convert) for path in paths
    ]
    for path, table in zip(paths, tables, strict=True):
        _refuse_bytes(path, table)
    return Rows.of_table(pa.concat_tables(tables, promote_options="permissive"))


def _whole(paths: Sequence[Path]) -> int:
    """Return a block size that makes each file one block, so that no cell is split and types are inferred from all."""
    largest = max(path.stat().st_size * (PACKED if path.suffix == ".gz" else 1) for path in paths)
    return min(largest + 1, 2**31 - 1)


def _refuse_bytes(path: Path, table: Any) -> None:
    """Raise ValueError if a column is not UTF-8 text, which pyarrow would return as bytes."""
    import pyarrow as pa

    columns = [field.name for field in table.schema if pa.types.is_binary(field.type)]
    if columns:
        raise ValueError(
            f"{path}: column {', '.join(columns)} is not UTF-8; save the file as UTF-8 "
            f"(for example: iconv -f latin1 -t utf-8 {path.name})"
        )
