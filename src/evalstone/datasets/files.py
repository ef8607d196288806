"""Rows from files on this machine: Parquet through pyarrow, JSON lines, JSON and CSV, plain or gzipped."""

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from evalstone.datasets.dataset import DatasetSpec, LoadedDataset, Splits
from evalstone.datasets.digests import combined_digest, file_digest
from evalstone.datasets.rows import ClassLabel, Row, Rows
from evalstone.errors import DataError

_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
PACKED = 30  # how many times larger a gzipped file of text is at most, where it matters
READABLE = (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".jsonl.gz", ".json.gz", ".csv.gz")


def read_files(paths: Sequence[Path], options: Mapping[str, Any] | None = None) -> Rows:
    """Return the rows of some files of one kind, one after another.

    Raises: DataError naming the file, if it is absent or cannot be read.
    """
    options = options or {}
    for path in paths:
        if not path.is_file():
            raise DataError(f"no data file {path}")
    kind = _kind_of(paths[0])
    try:
        if kind == "parquet":
            return _read_parquet(paths)
        if kind in {"csv", "tsv"}:
            return _read_csv(paths, options, "\t" if kind == "tsv" else ",")
        return Rows.of([row for path in paths for row in _read_json(path, options.get("field"))])
    except (OSError, ValueError, KeyError, EOFError, RecursionError) as error:
        names = ", ".join(str(path) for path in paths)
        raise DataError(f"cannot read {names}: {error}; expected {kind}") from error


def _kind_of(path: Path) -> str:
    suffixes = [part for part in path.suffixes if part != ".gz"]
    kind = suffixes[-1].lstrip(".").lower() if suffixes else ""
    if kind not in {"parquet", "jsonl", "json", "csv", "tsv"}:
        raise DataError(f"cannot tell how to read {path}; expected one of {', '.join(READABLE)}")
    return kind


def _read_parquet(paths: Sequence[Path]) -> Rows:
    import pyarrow as pa

    tables = [read_table(path) for path in paths]
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return Rows.of_table(table, class_labels(table.schema.metadata or {}))


def read_table(path: Path) -> Any:
    """Return a Parquet file as a pyarrow table.

    `pyarrow.parquet.read_table` gives the same table, but imports pyarrow.dataset and with it pandas, which takes a
    quarter of a second at the start of every command that reads rows.
    """
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return file.read()


def class_labels(metadata: Mapping[bytes, bytes]) -> dict[str, ClassLabel]:
    """Return the columns that the Hub's own metadata calls class labels."""
    if b"huggingface" not in metadata:
        return {}
    features = json.loads(metadata[b"huggingface"]).get("info", {}).get("features") or {}
    return {
        name: ClassLabel(tuple(feature["names"]))
        for name, feature in features.items()
        if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel" and feature.get("names")
    }


def _text(path: Path) -> str:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig") as stream:
            return stream.read()
    return path.read_text(encoding="utf-8-sig")


def _read_json(path: Path, field: str | None) -> list[Row]:
    text = _text(path)
    if not text.strip():
        return []
    if field is None and not text.lstrip().startswith("["):
        rows = [json.loads(line) for line in text.split("\n") if line.strip()] if _is_lines(text) else json.loads(text)
    else:
        rows = json.loads(text)
        rows = rows[field] if field is not None else rows
    if isinstance(rows, Mapping):  # columns
        rows = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    bad = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if bad is not None:
        raise ValueError(f"row {bad} is {rows[bad]!r:.60}, no object")
    return cast("list[Row]", rows)


def _is_lines(text: str) -> bool:
    first = next((line for line in text.split("\n") if line.strip()), "")
    try:
        json.loads(first)
    except ValueError:
        return False
    return True


def _read_csv(paths: Sequence[Path], options: Mapping[str, Any], separator: str) -> Rows:
    import pyarrow as pa
    from pyarrow import csv

    has_header = "column_names" not in options and options.get("header", 0) is not None
    skip = 1 if "column_names" in options and options.get("header") == 0 else 0
    read = csv.ReadOptions(
        block_size=_whole(paths),
        column_names=options.get("column_names"),
        autogenerate_column_names=not has_header and "column_names" not in options,
        skip_rows=skip,
    )
    parse = csv.ParseOptions(
        delimiter=options.get("sep") or options.get("delimiter") or separator, newlines_in_values=True
    )
    convert = csv.ConvertOptions(strings_can_be_null=True, null_values=[""])  # "N/A" and "null" are texts
    tables = [csv.read_csv(path, read_options=read, parse_options=parse, convert_options=convert) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        _refuse_bytes(path, table)
    return Rows.of_table(pa.concat_tables(tables, promote_options="permissive"))


def _whole(paths: Sequence[Path]) -> int:
    """Return a size of blocks within which each file is one: no cell lies across two, and types are told from all."""
    largest = max(path.stat().st_size * (PACKED if path.suffix == ".gz" else 1) for path in paths)
    return min(largest + 1, 2**31 - 1)


def _refuse_bytes(path: Path, table: Any) -> None:
    """Raise ValueError where a column is no text in UTF-8: pyarrow would hand on its bytes."""
    import pyarrow as pa

    columns = [field.name for field in table.schema if pa.types.is_binary(field.type)]
    if columns:
        raise ValueError(
            f"{path}: column {', '.join(columns)} is not UTF-8; save the file as UTF-8 "
            f"(for example: iconv -f latin1 -t utf-8 {path.name})"
        )


def named_files(spec: DatasetSpec) -> dict[str, list[Path]] | None:
    """Return split -> files where the task names files on this machine; None where it names none, or remote ones.

    Raises: DataError for a pattern that matches nothing.
    """
    kwargs = dict(spec.kwargs)
    if spec.path not in {"json", "csv", "parquet"} or "data_files" not in kwargs:
        return None
    named = kwargs["data_files"]
    by_split = named if isinstance(named, Mapping) else {"train": named}
    places = {split: [files] if isinstance(files, str) else list(files) for split, files in by_split.items()}
    if any("://" in place for files in places.values() for place in files):
        return None
    return {split: [path for place in files for path in _expand(place, spec.base)] for split, files in places.items()}


def _expand(place: str, base: Path | None) -> list[Path]:
    folders = [Path()] if Path(place).is_absolute() else [*([base] if base else []), Path.cwd()]
    for folder in folders:
        if any(sign in place for sign in "*?["):
            root = Path(Path(place).anchor) if Path(place).is_absolute() else folder
            pattern = str(Path(place).relative_to(root)) if Path(place).is_absolute() else place
            if found := sorted(root.glob(pattern)):
                return found
        elif (folder / place).is_file():
            return [folder / place]
    raise DataError(f"no data file '{place}'; looked in {', '.join(str(folder.absolute()) for folder in folders)}")


def load_named(spec: DatasetSpec, by_split: Mapping[str, Sequence[Path]]) -> LoadedDataset:
    """Return the data set made of the files that a task names."""
    return _loaded(spec, by_split, "files")


def split_files(folder: Path) -> dict[str, list[Path]]:
    """Return split -> files of a folder that holds `<split>.parquet` (or .jsonl, .csv), in shards or whole."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        suffix = next((s for s in sorted(READABLE, key=len, reverse=True) if path.name.endswith(s)), None)
        if suffix and path.is_file():
            split = _SHARD.sub("", path.name.removesuffix(suffix))
            if not found.get(split) or found[split][0].suffixes == path.suffixes:
                found.setdefault(split, []).append(path)
    return found


def load_local(spec: DatasetSpec, data_dir: Path) -> LoadedDataset | None:
    """Return the data set from `<data_dir>/<path>/<name or default>/`, or None if it is not there."""
    files = local_files(data_dir, spec.path, spec.name)
    return _loaded(spec, files, "local") if files else None


def local_files(data_dir: Path, path: str, name: str | None) -> Mapping[str, Sequence[Path]]:
    """Return the files of each split in `<data_dir>/<path>/<name or default>/`; none if there are none.

    A data set asked for without a name may lie in its only folder whatever that is called, as on the Hub.
    """
    root = data_dir / path
    folder = root / (name or "default")
    if not split_files(folder) and name is None and root.is_dir():
        others = [each for each in root.iterdir() if each.is_dir() and not each.name.startswith(("_", "."))]
        if len(others) == 1:
            folder = others[0]
    return split_files(folder)


def load_folder(spec: DatasetSpec) -> LoadedDataset | None:
    """Return the data set where a task's dataset_path is a folder on this machine; None where it is not.

    Raises: DataError for a folder without split files.
    """
    for root in (Path(spec.path).expanduser(), (spec.base or Path()) / spec.path):
        if not spec.path or not root.is_dir():
            continue
        for folder in (root / (spec.name or "default"), root, root / "data"):
            if files := split_files(folder):
                return _loaded(spec, files, "files")
        if Path(spec.path).is_absolute():
            raise DataError(f"folder {root} holds no <split>.parquet, .jsonl or .csv")
    return None


def _loaded(spec: DatasetSpec, by_split: Mapping[str, Sequence[Path]], origin: Any) -> LoadedDataset:
    options = {key: value for key, value in spec.kwargs if key != "data_files"}
    readers = {split: _reader(paths, options) for split, paths in by_split.items()}
    parts = [(f"{split}/{i}", file_digest(path)) for split, paths in by_split.items() for i, path in enumerate(paths)]
    return LoadedDataset(Splits(spec.title, readers), combined_digest(parts), origin)


def _reader(paths: Sequence[Path], options: Mapping[str, Any]) -> Any:
    return lambda: read_files(paths, options)
