"""Rows from files on this machine: Parquet through pyarrow, JSON lines, JSON and CSV, plain or gzipped.

Digests of files, cached by path, size, inode and times, so that a large file is hashed once. The inode's own time tells
of a copy over the file with the size and modification time that it had.
"""

import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark import settings
from assaymark.datasets.csv_files import read_csv
from assaymark.datasets.dataset import DataOrigin, DatasetSpec, LoadedDataset, Splits
from assaymark.datasets.packed_files import open_packed_text
from assaymark.datasets.rows import ClassLabel, Row, Rows
from assaymark.errors import DataError
from assaymark.limits.nesting import TOO_LARGE, parse_json
from assaymark.records import JsonValue, Skipped

if TYPE_CHECKING:
    from pyarrow import Table


def file_digest(path: Path) -> str:
    """Return the hex sha256 of a file's bytes; for an unchanged file from the cache."""
    status = path.stat()
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns]
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    note = settings.cache_folder() / "digests" / f"{name}.json"
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["stamp"] == stamp:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not cached, or the cache file is damaged: read the file
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    settings.remember(note, json.dumps({"stamp": stamp, "sha256": digest, "path": str(path)}))
    return digest


def combined_digest(parts: Iterable[tuple[str, str]]) -> str:
    """Return `sha256:<hex>` over (name, digest) pairs, whatever their order."""
    text = "\n".join(f"{name}\t{digest}" for name, digest in sorted(parts))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
MOST_FAULTS = 20  # faults of a file that a message lists
# raised by json, gzip and pyarrow
_UNREADABLE = (OSError, ValueError, LookupError, EOFError, TypeError, OverflowError, NotImplementedError, zlib.error)
READABLE = (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".jsonl.gz", ".json.gz", ".csv.gz")


def read_files(
    paths: Sequence[Path], options: Mapping[str, JsonValue] | None = None, *, skip_bad_rows: bool = False
) -> Rows:
    """Return the rows of several files of one format, concatenated.

    `skip_bad_rows` leaves out lines of CSV and JSON lines files that are no rows; they are in `Rows.skipped`.

    Raises: DataError with the file's name, if it is absent or cannot be read.
    """
    options = options or {}
    for path in paths:
        if path.is_dir():
            raise DataError(f"{path} is a folder; expected a file ({', '.join(READABLE)})")
        if not path.is_file():
            raise DataError(f"no data file {path}")
    kind = _kind_of(paths[0])
    try:
        if kind == "parquet":
            import pyarrow as pa

            tables = [read_table(path) for path in paths]
            table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
            return Rows.of_table(table, class_labels(table.schema.metadata or {}))
        if kind in {"csv", "tsv"}:
            return read_csv(paths, options, "\t" if kind == "tsv" else ",", skip_bad_rows=skip_bad_rows)
        field = options.get("field")
        if not isinstance(field, str | None):
            raise TypeError(f"field is {field!r:.60}, which is no key")
        return _read_jsons(paths, field, skip_bad_rows=skip_bad_rows)
    except _UNREADABLE as error:
        for path in paths if len(paths) > 1 else ():
            read_files([path], options, skip_bad_rows=skip_bad_rows)  # raises for the one that cannot be read
        names = ", ".join(str(path) for path in paths)
        raise DataError(f"cannot read {names}: {error}; expected {kind}") from error


def _kind_of(path: Path) -> str:
    suffixes = [part for part in path.suffixes if part != ".gz"]
    kind = suffixes[-1].lstrip(".").lower() if suffixes else ""
    if kind not in {"parquet", "jsonl", "json", "csv", "tsv"}:
        raise DataError(f"unknown format of {path}; expected one of {', '.join(READABLE)}")
    return kind


def read_table(path: Path) -> "Table":
    """Return a Parquet file as a pyarrow table.

    `pyarrow.parquet.read_table` returns the same table, but imports pyarrow.dataset and with it pandas, which takes
    0.25 s at the start of every command that reads rows.
    """
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return file.read()


def class_labels(metadata: Mapping[bytes, bytes]) -> dict[str, ClassLabel]:
    """Return the columns that are class labels according to the Hub's metadata."""
    if b"huggingface" not in metadata:
        return {}
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"] or {}
    except (ValueError, KeyError, TypeError, RecursionError):  # not the Hub's
        return {}
    return {
        name: ClassLabel(tuple(feature["names"]))
        for name, feature in features.items()
        if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel" and feature.get("names")
    }


def _text(path: Path) -> str:
    if path.suffix == ".gz":
        with open_packed_text(path) as stream:
            return stream.read()
    return path.read_text(encoding="utf-8-sig")


def _read_jsons(paths: Sequence[Path], field: str | None, *, skip_bad_rows: bool) -> Rows:
    all_rows: list[Row] = []
    places: list[str] = []
    faults: list[str] = []
    for path in paths:
        rows, own_places, own_faults = _read_json(path, field)
        if own_faults and not skip_bad_rows:
            raise ValueError(at_most(own_faults))
        where = "" if len(paths) == 1 else f"{path.name} "
        all_rows += rows
        places += [f"{where}{place}" for place in own_places]
        faults += [f"{where}{fault}" for fault in own_faults]
    made = Rows.of(all_rows)
    made.skipped = Skipped(len(faults), tuple(faults[:MOST_FAULTS]))
    made.places = lambda indices: [places[index] for index in indices]
    return made


def _read_json(path: Path, field: str | None) -> tuple[list[Row], list[str], list[str]]:
    """Return a file's rows, where each stands, and the faults of lines that are no rows."""
    text = _text(path)
    if not text.strip():
        return [], [], []
    if field is None and not text.lstrip().startswith("[") and _is_lines(text):
        rows, places, faults = _read_lines(text)
        if (
            len(rows) == 1
            and not faults
            and ".jsonl" not in path.suffixes
            and (whole := _by_column(rows[0])) is not None
        ):
            return whole, [f"row {number}" for number in range(1, len(whole) + 1)], []
        return rows, places, faults
    try:
        rows = _read_whole(path, text, field)
    except ValueError as error:
        if field is None and ".jsonl" in path.suffixes and str(error).startswith(("Extra data", TOO_LARGE)):
            return _read_lines(text)  # which say where
        raise
    return rows, [f"row {number}" for number in range(1, len(rows) + 1)], []


def _read_whole(path: Path, text: str, field: str | None) -> list[Row]:
    rows = parse_json(text, unique=True)
    if field is not None:
        if not isinstance(rows, dict) or field not in rows:
            raise ValueError(f"{path} has no field {field!r:.80}")
        rows = rows[field]
    if isinstance(rows, Mapping):
        by_column = _by_column(rows)
        if by_column is None and all(isinstance(values, list) for values in rows.values()):
            by_column = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
        if by_column is None:
            raise ValueError("an object with values that are not lists; expected rows, or a list for each column")
        rows = by_column
    if not isinstance(rows, list):
        raise ValueError(f"{type(rows).__name__} instead of rows")  # noqa: TRY004 - the file is wrong
    bad = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if bad is not None:
        raise ValueError(f"row {bad + 1} is {rows[bad]!r:.60}, not an object")
    return rows


def _by_column(value: Mapping[str, JsonValue]) -> list[Row] | None:
    """Return the rows of an object that is a whole table; None for one that may be a single row.

    Source: pandas, DataFrame.to_json: its forms columns (the default), index, split and table; a list of texts for each
        column is what `datasets.Dataset.to_dict` makes.
    """
    parts = list(value.values())
    if {"columns", "data"} <= value.keys() <= {"columns", "index", "data"}:
        names, lines = value["columns"], value["data"]
        if isinstance(names, list) and isinstance(lines, list) and all(isinstance(line, list) for line in lines):
            return [dict(zip(map(str, names), line, strict=True)) for line in lines if isinstance(line, list)]
    if value.keys() == {"schema", "data"} and isinstance(value["data"], list):
        return [{k: v for k, v in row.items() if k != "index"} for row in value["data"] if isinstance(row, dict)]
    columns = [part for part in parts if isinstance(part, dict)]
    if parts and len(columns) == len(parts) and all(part.keys() == columns[0].keys() for part in columns):
        inner = list(columns[0])
        if inner and all(map(str.isdigit, inner)):
            return [{name: part[key] for name, part in zip(value, columns, strict=True)} for key in inner]
        if all(map(str.isdigit, value)):
            return columns
    lists = [part for part in parts if isinstance(part, list)]
    is_table = len(lists) == len(parts) > 1 and len({len(part) for part in lists}) == 1 and all(lists)
    if is_table and any(all(isinstance(each, str) for each in part) for part in lists):
        return [dict(zip(value, line, strict=True)) for line in zip(*lists, strict=True)]
    return None


def _read_lines(text: str) -> tuple[list[Row], list[str], list[str]]:
    """Return the rows of JSON lines, where each stands, and the faults of the other lines."""
    rows, places, faults = [], [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line, unique=True)
        except (ValueError, RecursionError) as error:
            faults.append(f"line {number}: {error}")
            continue
        if isinstance(row, dict):
            rows.append(row)
            places.append(f"line {number}")
        else:
            faults.append(f"line {number} is {row!r:.60}, not an object")
    return rows, places, faults


def at_most(faults: Sequence[str], most: int = MOST_FAULTS) -> str:
    """Return the first faults of a file as one text, and the number of the others."""
    return "; ".join(faults[:most]) + (f"; and {len(faults) - most:,} more" if len(faults) > most else "")


def _is_lines(text: str) -> bool:
    first = next((line for line in text.split("\n") if line.strip()), "")
    try:
        parse_json(first)
    except ValueError:
        return False
    return True


def data_files(spec: DatasetSpec) -> dict[str, list[str]]:
    """Return split -> names of the files that a task names; empty if it names none.

    Raises: DataError for a value that names no files.
    """
    named = dict(spec.kwargs).get("data_files", {})
    by_split = named if isinstance(named, Mapping) else {"train": named}
    names: dict[str, list[str]] = {}
    for split, files in by_split.items():
        listed = [files] if isinstance(files, str) else files
        if not isinstance(listed, list | tuple) or not all(isinstance(n, str) and "\0" not in n for n in listed):
            raise DataError(f"data_files is {named!r:.120}; expected a file, a list of files, or split -> files")
        names[split] = list(listed)
    return names


def named_files(spec: DatasetSpec) -> dict[str, list[Path]] | None:
    """Return split -> files if the task names local files; None if it names none, or remote ones.

    Raises: DataError for a pattern that matches nothing.
    """
    if spec.path not in {"json", "csv", "parquet"} or "data_files" not in dict(spec.kwargs):
        return None
    names = data_files(spec)
    if any("://" in name for files in names.values() for name in files):
        return None
    return {split: [path for name in files for path in _expand(name, spec.base)] for split, files in names.items()}


def _expand(name: str, base: Path | None) -> list[Path]:
    folders = [Path()] if Path(name).is_absolute() else [*([base] if base else []), Path.cwd()]
    for folder in folders:
        if (folder / name).is_file():  # its name may have the signs of a pattern
            return [folder / name]
        if any(sign in name for sign in "*?["):
            root = Path(Path(name).anchor) if Path(name).is_absolute() else folder
            pattern = str(Path(name).relative_to(root)) if Path(name).is_absolute() else name
            if matches := sorted(root.glob(pattern)):
                return matches
    places = dict.fromkeys(str(folder.absolute()) for folder in folders)
    raise DataError(f"no data file '{name}'; looked in {', '.join(places)}")


def load_named(spec: DatasetSpec, by_split: Mapping[str, Sequence[Path]]) -> LoadedDataset:
    """Return the data set of the files that a task names."""
    return _loaded(spec, by_split, "files")


def split_files(folder: Path) -> dict[str, list[Path]]:
    """Return split -> files of a folder that contains `<split>.parquet` (or .jsonl, .csv), in shards or whole."""
    by_split: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        suffix = next((s for s in sorted(READABLE, key=len, reverse=True) if path.name.endswith(s)), None)
        if suffix and path.is_file():
            split = _SHARD.sub("", path.name.removesuffix(suffix))
            if not by_split.get(split) or by_split[split][0].suffixes == path.suffixes:
                by_split.setdefault(split, []).append(path)
    return by_split


def load_local(spec: DatasetSpec, data_dir: Path) -> LoadedDataset | None:
    """Return the data set in `<data_dir>/<path>/<name or default>/`; None if there is none."""
    files = local_files(data_dir, spec.path, spec.name)
    return _loaded(spec, files, "local") if files else None


def load_chosen(spec: DatasetSpec, data_dir: Path) -> LoadedDataset | None:
    """Return the data set of the files that a task chooses (data_files) in `<data_dir>/<path>/`, plain or gzipped.

    None where the task chooses none, or the folder does not exist.

    Raises: DataError for a file that is not in the folder.
    """
    root = data_dir / spec.path
    if "data_files" not in dict(spec.kwargs) or spec.path in {"json", "csv", "parquet"} or not root.is_dir():
        return None
    by_split: dict[str, list[Path]] = {}
    for split, names in data_files(spec).items():
        for name in names:
            file = next((path for path in (root / name, root / f"{name}.gz") if path.is_file()), None)
            if file is None:
                raise DataError(f"data set {spec.title}: no file {name} (or {name}.gz) in {root}")
            by_split.setdefault(split, []).append(file)
    return _loaded(spec, by_split, "local")


def local_files(data_dir: Path, path: str, name: str | None) -> Mapping[str, Sequence[Path]]:
    """Return the files of each split in `<data_dir>/<path>/<name or default>/`; empty if there are none.

    Without a configuration name, the only folder of the data set is used whatever its name, as on the Hub.
    """
    root = data_dir / path
    folder = root / (name or "default")
    if not split_files(folder) and name is None and root.is_dir():
        others = [each for each in root.iterdir() if each.is_dir() and not each.name.startswith(("_", "."))]
        if len(others) == 1:
            folder = others[0]
    return split_files(folder)


def load_folder(spec: DatasetSpec) -> LoadedDataset | None:
    """Return the data set if a task's dataset_path is a local folder; None if it is not. Raises: as `folder_files`."""
    files = folder_files(spec)
    return _loaded(spec, files, "files") if files is not None else None


def folder_files(spec: DatasetSpec) -> dict[str, list[Path]] | None:
    """Return split -> files if a task's dataset_path is a local folder; None if it is not.

    Raises: DataError for a folder without split files.
    """
    for root in (Path(spec.path).expanduser(), (spec.base or Path()) / spec.path):
        if not spec.path or not root.is_dir():
            continue
        for folder in (root / (spec.name or "default"), root, root / "data"):
            if files := split_files(folder):
                return files
        if Path(spec.path).is_absolute():
            raise DataError(f"folder {root} contains no <split>.parquet, .jsonl or .csv")
    return None


def _loaded(spec: DatasetSpec, by_split: Mapping[str, Sequence[Path]], origin: DataOrigin) -> LoadedDataset:
    options = {key: value for key, value in spec.kwargs if key != "data_files"}
    readers = {
        split: partial(read_files, paths, options, skip_bad_rows=spec.skip_bad_rows)
        for split, paths in by_split.items()
    }
    parts = [(f"{split}/{i}", file_digest(path)) for split, paths in by_split.items() for i, path in enumerate(paths)]
    folders = {path.parent for paths in by_split.values() for path in paths}
    folder = folders.pop() if len(folders) == 1 else None
    return LoadedDataset(Splits(spec.title, readers), combined_digest(parts), origin, folder=folder)
