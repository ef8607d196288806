"""Loading of data sets: files that the task names, else the local data folder, else the Hub.

Rows from the Hub, through the library `datasets`, which is imported only here and only if no local rows exist.

The configurations of a data set: folders of local files, else those that the library `datasets` finds.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark import settings
from assaymark.datasets.card_files import load_copy
from assaymark.datasets.dataset import DatasetSpec, LoadedDataset, Splits
from assaymark.datasets.files import (
    class_labels,
    combined_digest,
    data_files,
    load_chosen,
    load_folder,
    load_local,
    load_named,
    named_files,
    split_files,
)
from assaymark.datasets.rows import Rows
from assaymark.errors import DataError, MissingExtra
from assaymark.hub_access import hub_or_cache

if TYPE_CHECKING:
    from datasets import Dataset


def configurations_of(path: str, data_dir: Path | None = None) -> list[str]:
    """Return the names of a data set's configurations; none where its files are in one folder without a name.

    path: a folder, or a Hub id. data_dir: folder with local copies of data sets of the Hub; see `load_dataset`.

    Raises: MissingExtra without `datasets`, for a data set that is not local; DataError for one that is not found.
    """
    copies = [data_dir / name for name in names_of_same_rows(path)] if data_dir is not None else []
    for root in (*copies, Path(path).expanduser()):
        if not root.is_dir():
            continue
        if split_files(root) or split_files(root / "data"):
            return []
        folders = [each for each in sorted(root.iterdir()) if each.is_dir() and not each.name.startswith(("_", "."))]
        if configurations := [each.name for each in folders if split_files(each)]:
            return configurations
    return _of_library(path)


def _of_library(path: str) -> list[str]:
    try:
        import datasets
    except ImportError:
        raise MissingExtra(f"data set {path} is on the Hub, and reading it", "hub") from None
    on_the_hub = nullcontext() if Path(path).expanduser().is_dir() else hub_or_cache()
    try:
        with on_the_hub:
            return [str(name) for name in datasets.get_dataset_config_names(path)]
    except Exception as error:  # the library raises many types; all become one of ours
        raise DataError(explain(DatasetSpec(path), error)) from error


_COMMIT = re.compile(r"@([0-9a-f]{40})")


def load_from_hub(spec: DatasetSpec) -> LoadedDataset:
    """Return a data set of the Hub; its content hash is over repository, configuration and commit.

    Raises: MissingExtra without `datasets`; DataError for a gated, missing or unreachable repository.
    """
    try:
        import datasets
    except ImportError:
        what = f"data set {spec.title} is in no data folder (--data_dir, ASSAYMARK_DATA), and reading it from the Hub"
        raise MissingExtra(what, "hub") from None
    kwargs = {key: value for key, value in spec.kwargs if key != "trust_remote_code"}
    if spec.revision:
        kwargs["revision"] = spec.revision
    is_elsewhere = "data_files" in kwargs and (spec.path in {"json", "csv", "parquet"} or "://" in str(kwargs))
    on_the_hub = nullcontext() if is_elsewhere else hub_or_cache()  # data_files may be on other hosts
    try:
        with on_the_hub:
            loaded = datasets.load_dataset(path=spec.path, name=spec.name, **kwargs)
    except Exception as error:  # the library raises many types; all become one of ours
        raise DataError(explain(spec, error)) from error
    by_split = dict(loaded) if isinstance(loaded, Mapping) else {str(loaded.split): loaded}
    return of_splits(spec, by_split)


def file_of_hub(dataset: str, name: str, revision: str | None = None) -> Path:
    """Return the local copy of one file of a data set of the Hub; without a connection, of the last download.

    Raises: MissingExtra without huggingface_hub; DataError for a file that the Hub does not give.
    """
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise MissingExtra(f"data set {dataset} is on the Hub, and reading its {name}", "hub") from None
    try:
        with hub_or_cache():
            return Path(hf_hub_download(dataset, name, repo_type="dataset", revision=revision))
    except Exception as error:  # the library raises many types; all become one of ours
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(
            f"no {name} of data set {dataset}: {why:.200}; to use a local copy name its folder, or put it into "
            f"<folder>/{dataset} and name that folder with --data_dir DIR or ASSAYMARK_DATA"
        ) from error


def of_splits(spec: DatasetSpec, by_split: "Mapping[str, Dataset]") -> LoadedDataset:
    """Return a data set from the `datasets.Dataset` of each split."""
    sources: set[str] = set()
    for split in by_split.values():
        sources |= set(split.info.download_checksums or {})
    commit = next((match.group(1) for source in sorted(sources) if (match := _COMMIT.search(source))), None)
    revision = commit or spec.revision
    if revision:
        parts = [(spec.path, revision), (spec.name or "default", "")]
    else:  # the version is unknown: hash the rows themselves
        parts = [(name, _fingerprint(split)) for name, split in by_split.items()]
    readers = {name: _reader(split) for name, split in by_split.items()}
    return LoadedDataset(Splits(spec.title, readers), combined_digest(parts), "hub", revision)


def _reader(split: "Dataset") -> Callable[[], Rows]:
    def read() -> Rows:
        table = split.data.table if split._indices is None else split.flatten_indices().data.table  # noqa: SLF001
        return Rows.of_table(table, class_labels(table.schema.metadata or {}))

    return read


def _fingerprint(split: "Dataset") -> str:
    import hashlib

    digest = hashlib.sha256()
    for batch in split.data.table.to_batches():
        for column in batch.columns:
            digest.update(repr(column.type).encode())
            for buffer in column.buffers():
                digest.update(buffer or b"\0")
    return digest.hexdigest()


def explain(spec: DatasetSpec, error: Exception) -> str:
    """Return why a data set could not be loaded, and what to do, from an error of the library `datasets`."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if "gated" in text.lower() or "401" in text or "403" in text:
        return (
            f"data set {spec.title} is gated on the Hub ({text:.200}); accept its terms on its page, "
            "then set HF_TOKEN to a token that may read it"
        )
    why = f"cannot load data set {spec.title} from the Hub: {text:.300}"
    if "OfflineModeIsEnabled" in text:
        cause = "HF_HUB_OFFLINE is set" if settings.read("HF_HUB_OFFLINE") else "the Hub cannot be reached"
        why = f"data set {spec.title} is not in the Hub's local cache, and {cause}"
    if "data_files" in dict(spec.kwargs):
        names = [name for of_split in data_files(spec).values() for name in of_split]
        return (
            f"{why}; to use local files put {' and '.join(names)} into <folder>/{spec.path} and name the "
            "folder with --data_dir DIR or ASSAYMARK_DATA"
        )
    return (
        f"{why}; "
        f"to use local files put <folder>/{spec.path}/{spec.name or 'default'}/<split>.parquet and name the folder "
        "with --data_dir DIR or ASSAYMARK_DATA"
    )


# names under which the Hub has the same rows; local data under one name is used for tasks with the other
SAME_ROWS = (
    ("google/IFEval", "wis-k/instruction-following-eval"),
    ("baber/piqa", "piqa"),
    ("SaylorTwift/bbh", "lukaemon/bbh"),
    ("HuggingFaceH4/mt_bench_prompts", "lmsys/mt_bench"),
)


def load_dataset(spec: DatasetSpec, data_dir: Path | None = None) -> LoadedDataset:
    """Return the data set; a split is decoded on first access.

    Order of search: files named by the task (`json`, `csv`, `parquet` with data_files, relative to the task's folder);
    `<data_dir>/<path>/<name or default>/<split>.parquet`, also under another name of the same rows, or there the files
    of the data set that the task names (data_files), or those of a copy as the Hub has it; the path itself as a folder;
    the Hub, through `datasets`.

    Raises: DataError if it is not found or cannot be read; MissingExtra if only the Hub has it and `datasets` is not
    installed.
    """
    if (by_split := named_files(spec)) is not None:
        return load_named(spec, by_split)
    if data_dir is not None:
        if (chosen := load_chosen(spec, data_dir)) is not None:
            return chosen
        for path in names_of_same_rows(spec.path):
            if (local := load_local(replace(spec, path=path), data_dir)) is not None:
                return local
        for path in names_of_same_rows(spec.path):
            if (copy := load_copy(replace(spec, path=path), data_dir)) is not None:
                return copy
    if (folder := load_folder(spec)) is not None:
        return folder
    try:
        return load_from_hub(spec)
    except (DataError, MissingExtra) as error:
        if data_dir is None:
            raise
        own = "data_files" in dict(spec.kwargs)
        looked = data_dir / spec.path if own else data_dir / spec.path / (spec.name or "default")
        raise DataError(f"no rows of {spec.title} in {looked}; and {error}") from error


def names_of_same_rows(path: str) -> list[str]:
    """Return a data set's name, then other names under which the Hub has its rows."""
    return [path, *(name for names in SAME_ROWS if path in names for name in names if name != path)]
