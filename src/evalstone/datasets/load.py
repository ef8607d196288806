"""Where rows come from, in one order: files the task names, the local data folder, the Hub last."""

from dataclasses import replace
from pathlib import Path

from evalstone.datasets.dataset import DatasetSpec, LoadedDataset
from evalstone.datasets.files import load_folder, load_local, load_named, named_files
from evalstone.datasets.hub import load_from_hub
from evalstone.errors import DataError, MissingExtra

# names under which the Hub has the same rows; local data under one serves tasks that name the other
SAME_ROWS = (
    ("google/IFEval", "wis-k/instruction-following-eval"),
    ("baber/piqa", "piqa"),
    ("SaylorTwift/bbh", "lukaemon/bbh"),
    ("HuggingFaceH4/mt_bench_prompts", "lmsys/mt_bench"),
)


def load_dataset(spec: DatasetSpec, data_dir: Path | None = None) -> LoadedDataset:
    """Return the data set; nothing is decoded before a split is asked for.

    Looks in this order: files named by the task (`json`, `csv`, `parquet` with data_files, relative to the task's
    folder); `<data_dir>/<path>/<name or default>/<split>.parquet`, also under another name of the same rows; a folder
    that is the path itself; the Hub, through the library `datasets`.

    Raises: DataError if nothing is there or it cannot be read; MissingExtra if only the Hub has it and `datasets` is
    not installed.
    """
    if (by_split := named_files(spec)) is not None:
        return load_named(spec, by_split)
    if data_dir is not None:
        for path in names_of_same_rows(spec.path):
            if (local := load_local(replace(spec, path=path), data_dir)) is not None:
                return local
    if (folder := load_folder(spec)) is not None:
        return folder
    try:
        return load_from_hub(spec)
    except (DataError, MissingExtra) as error:
        if data_dir is None:
            raise
        looked = data_dir / spec.path / (spec.name or "default")
        raise DataError(f"no rows of {spec.title} in {looked}; and {error}") from error


def names_of_same_rows(path: str) -> list[str]:
    """Return a data set's name, then others under which the Hub has its rows."""
    return [path, *(name for names in SAME_ROWS if path in names for name in names if name != path)]
