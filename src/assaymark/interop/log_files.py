"""Reading of other tools' files: JSON objects, and members of zip archives with any compression."""

import io
import json
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from assaymark.errors import DataError
from assaymark.limits.regular_files import open_regular
from assaymark.records import JsonValue

ZSTANDARD = 93  # the zip format's number for Zstandard, which zipfile supports from Python 3.14 on
LOCAL_HEADER = 30  # bytes before a member's name, the last four of them the lengths of name and extra field


def open_log(file: Path) -> BinaryIO:
    """Open a tool's file, which may be a link. Raises: DataError for a pipe, a device, or one that cannot be read."""
    try:
        return open_regular(file)
    except DataError as error:
        raise DataError(f"{file} {error}; expected a file of an evaluation tool") from error


def open_text(file: Path, encoding: str = "utf-8", errors: str = "strict", newline: str | None = None) -> io.TextIOBase:
    """Open a tool's file as text. Raises: as `open_log`."""
    return io.TextIOWrapper(open_log(file), encoding, errors, newline)


def json_object(file: Path) -> dict[str, JsonValue]:
    """Return a file's JSON object.

    Raises: DataError if the file does not exist, is not JSON, or is not an object.
    """
    try:
        with open_text(file) as opened:
            loaded = parse_json(opened.read(), str(file))
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not JSON: {error}") from error
    if not isinstance(loaded, dict):
        raise DataError(f"{file} contains a {type(loaded).__name__}; expected an object")
    return loaded


def object_in(file: Path) -> dict[str, JsonValue]:
    """Return a file's JSON object; empty if it has none, so that a file's kind can be determined from its keys."""
    try:
        return json_object(file)
    except DataError:
        return {}


def parse_json(text: str | bytes, source: str) -> JsonValue:
    """Return the value of JSON text; a number that is not finite (NaN, Infinity, 1e400) becomes None.

    source: the file or position of the text, for the message.

    Raises: DataError if it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except ValueError as error:
        raise DataError(f"{source} is not JSON: {error}") from error
    except RecursionError as error:
        raise DataError(f"{source} is nested too deeply; expected a file of an evaluation tool") from error


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def zip_member(archive: zipfile.ZipFile, file: Path, name: str) -> bytes:
    """Return one member's bytes; Zstandard is supported too. file: the archive's, for messages.

    Raises: DataError for an unsupported compression.
    """
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        try:
            return archive.read(name)
        except NotImplementedError as error:
            raise DataError(f"{file}: {name} is compressed by method {info.compress_type}") from error
    import pyarrow as pa

    with open_log(file) as opened:
        opened.seek(info.header_offset + LOCAL_HEADER - 4)
        n_name, n_extra = (int.from_bytes(opened.read(2), "little") for _ in range(2))
        opened.seek(n_name + n_extra, 1)
        packed = opened.read(info.compress_size)
    return bytes(pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read())


def one_model(names: Sequence[str], path: Path) -> str:
    """Return the model of logs that are all of the same model.

    Raises: DataError if they are of several models.
    """
    models = sorted(set(names))
    if len(models) > 1:
        raise DataError(f"{path} has logs of {len(models)} models ({', '.join(models[:4])}); import them one by one")
    return models[0]
