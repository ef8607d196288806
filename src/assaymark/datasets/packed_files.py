"""Gzipped data files, unpacked within limits: a megabyte may hold a gigabyte, and one line of it no end."""

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assaymark.errors import DataError

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
