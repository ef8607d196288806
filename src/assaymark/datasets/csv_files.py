"""CSV files: read by pyarrow as a whole, or line by line to check a user's own file before it becomes a task."""

import codecs
import csv
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from assaymark.datasets.rows import Rows
from assaymark.errors import DataError
from assaymark.records import Skipped

if TYPE_CHECKING:
    from _csv import Reader

    from pyarrow import Table
from assaymark.datasets.large_csv import TOO_LONG, BatchFile, CsvOptions, batch_file
from assaymark.datasets.packed_files import LONGEST_LINE, arrow_input, open_packed, open_packed_text

Read = TypeVar("Read")


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

    Raises: DataError for a file that cannot be read or is not UTF-8; for quotes that readers of CSV would drop or keep,
        as in `"Hamlet" is by?,5` and `Who?, "Me"`, with the line.
    """
    n_before = int(stated_delimiter(path) is not None)
    well_quoted = _well_quoted(delimiter)
    with _opened(path) as stream:
        taken: list[str] = []  # the text of the record that is being read

        def texts() -> Iterator[str]:
            for text in stream:
                taken.append(text)
                yield text

        reader = csv.reader(texts(), delimiter=delimiter)
        while True:
            lines = _decoded(path, lambda: _next_lines(path, reader, taken, well_quoted))
            yield from (line for line in lines if line.cells and line.number > n_before)
            if len(lines) < AT_ONCE:
                return


def delimiter_of(path: Path) -> str:
    """Return the delimiter of a file of which each record has been read once, as `csv_lines` reads it.

    Raises: DataError as `sniff_delimiter` and `csv_lines`.
    """
    delimiter = sniff_delimiter(path)
    for _ in csv_lines(path, delimiter):
        pass
    return delimiter


def _well_quoted(delimiter: str) -> re.Pattern[str]:
    """Return a pattern of one record whose quotes surround whole cells; blanks may follow a closing quote."""
    sign = re.escape(delimiter)
    cell = rf'(?:"(?>(?:[^"]++|"")*)" *+|(?!"| +"[^"]*+" *+(?:{sign}|[\r\n]|\Z))[^{sign}]*+)'
    # atomic groups, since Python before 3.11.5 matches wrongly where a group has a possessive quantifier
    return re.compile(rf"{cell}(?>(?:{sign}{cell})*)[\r\n]*+", re.DOTALL)


def _next_lines(path: Path, reader: "Reader", taken: list[str], well_quoted: re.Pattern[str]) -> list[CsvLine]:
    """Return the next records, of any size; the limit on cells is global to the process, so it is restored at once."""
    before = csv.field_size_limit(LARGEST_CELL)
    try:
        number, lines = reader.line_num, []
        for cells in islice(reader, AT_ONCE):
            text = "".join(taken)
            taken.clear()
            if '"' in text and not well_quoted.fullmatch(text):
                fault = "has blanks before its quote, goes on after the closing one, or has none"
                raise DataError(
                    f"{path}, line {number + 1}: a cell "
                    + ("escapes quotes by backslashes" if '\\"' in text else fault)
                    + '; expected "..." around it, with each quote in it doubled ("")'
                )
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
    with open_packed(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read()
    if data[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
        return "utf-16"
    return "cp1252" if re.search(rb"[\x80-\x9f]", data) else "latin1"  # which has control characters there


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
        options: `sep` or `delimiter`, `header`, `column_names`, as in the library `datasets`; of `dtype`, `str`: cells
            stay texts, where 02139 would be read as a number.
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
    texts = _text_columns(paths, options, delimiter)
    made_options = _csv_options(delimiter, read_options, rejected if skip_bad_rows else None, texts)
    stored = None
    if len(paths) == 1 and paths[0].stat().st_size > (LARGE_PACKED if paths[0].suffix == ".gz" else LARGE):
        status = paths[0].stat()
        stored = _stored(
            paths[0], (status.st_mtime_ns, status.st_size), delimiter, tuple(read_options.items()), skip_bad_rows, texts
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


@lru_cache(maxsize=4)  # a file is read to choose its columns, with types and as texts, and again when it is evaluated
def _stored(
    path: Path,
    _stamp: tuple[int, int],
    delimiter: str,
    read: tuple[tuple[str, object], ...],
    skip_bad_rows: bool,
    texts: tuple[str, ...],
) -> BatchFile | None:
    return batch_file(path, _csv_options(delimiter, dict(read), _Rejected() if skip_bad_rows else None, texts))


def _text_columns(paths: Sequence[Path], options: Mapping[str, object], delimiter: str) -> tuple[str, ...]:
    """Return the columns that stay texts: all or none. Raises: ValueError for another type than `str`."""
    wanted, names = options.get("dtype"), options.get("column_names")
    if wanted is None:
        return ()
    if wanted != "str":
        raise ValueError(f"dtype is {wanted!r:.80}; expected str, which leaves all cells texts")
    if isinstance(names, list):
        return tuple(names)
    headers = [next(csv_lines(path, delimiter), None) for path in paths]
    return tuple(dict.fromkeys(name for header in headers if header is not None for name in header.cells))


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


def _csv_options(delimiter: str, read: Mapping[str, object], handler: object, texts: Sequence[str]) -> CsvOptions:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = dict.fromkeys(texts, pa.string())

    return CsvOptions(
        arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handler),
        # "N/A" and "null" are texts
        arrow_csv.ConvertOptions(strings_can_be_null=True, null_values=[""], column_types=types),
        lambda block_size: arrow_csv.ReadOptions(block_size=block_size, **read),
    )


def _table(path: Path, options: CsvOptions) -> "Table":
    from pyarrow import csv as arrow_csv

    def table_of(block: int) -> "Table":
        with arrow_input(path) as file:
            return arrow_csv.read_csv(
                file, read_options=options.read(block), parse_options=options.parse, convert_options=options.convert
            )

    try:
        table = table_of(_whole_file_block([path]))
    except ValueError as error:
        if TOO_LONG not in str(error):
            raise
        # a packed file is larger than its size suggests, and a row does not fit into a block
        try:
            table = table_of(2 * LONGEST_LINE)
        except ValueError as again:
            if TOO_LONG not in str(again):
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
