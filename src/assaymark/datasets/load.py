"""Loading of data sets: files that the task names, else the local data folder, else the Hub."""

from dataclasses import replace
from pathlib import Path

from assaymark.datasets.dataset import DatasetSpec, LoadedDataset
from assaymark.datasets.files import load_chosen, load_folder, load_local, load_named, named_files
from assaymark.datasets.hub import load_from_hub
from assaymark.errors import DataError, MissingExtra

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
    of the data set that the task names (data_files); the path itself as a folder; the Hub, through `datasets`.

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
