"""Reading other tools' files: JSON that must be an object, members of zip archives whatever their compression."""

import json
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalstone.errors import DataError

__all__ = ["json_object", "object_in", "one_model", "parse_json", "zip_member"]

ZSTANDARD = 93  # the zip format's number of a compression that zipfile knows from Python 3.14 on
LOCAL_HEADER = 30  # bytes before a member's name, the last four of them the lengths of name and extra field


def json_object(file: Path) -> dict[str, Any]:
    """Return a file's JSON object.

    Raises: DataError where the file is not there, is no JSON, or holds something else.
    """
    try:
        loaded = parse_json(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is no JSON: {error}") from error
    if not isinstance(loaded, dict):
        raise DataError(f"{file} holds a {type(loaded).__name__}; expected an object")
    return loaded


def object_in(file: Path) -> dict[str, Any]:
    """Return a file's JSON object; empty where it holds none, so that a file of another kind is told from its keys."""
    try:
        return json_object(file)
    except DataError:
        return {}


def parse_json(text: str | bytes, place: str) -> Any:
    """Return what JSON text holds; a number that is not finite (NaN, Infinity, 1e400) is undefined, so None.

    Args:
        text: the JSON.
        place: where it is from, for the message.

    Raises: DataError where it is no JSON, or nested deeper than can be read.
    """
    try:
        return json.loads(text, parse_constant=_undefined, parse_float=_finite)
    except ValueError as error:
        raise DataError(f"{place} is no JSON: {error}") from error
    except RecursionError as error:
        raise DataError(f"{place} is nested too deeply to be read; expected what an evaluation tool writes") from error


def _undefined(_: str) -> None:
    return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def zip_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return one member's bytes, of Zstandard too.

    Raises: DataError for another compression that is not known here.
    """
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        try:
            return archive.read(name)
        except NotImplementedError as error:
            raise DataError(f"{archive.filename}: {name} is compressed by method {info.compress_type}") from error
    import pyarrow as pa

    with Path(str(archive.filename)).open("rb") as file:
        file.seek(info.header_offset + LOCAL_HEADER - 4)
        n_name, n_extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(n_name + n_extra, 1)
        packed = file.read(info.compress_size)
    return bytes(pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read())


def one_model(names: Sequence[str], place: Path) -> str:
    """Return the one model that logs are of.

    Raises: DataError where they are of several.
    """
    found = sorted(set(names))
    if len(found) > 1:
        raise DataError(f"{place} holds logs of {len(found)} models ({', '.join(found[:4])}); import them one by one")
    return found[0]
