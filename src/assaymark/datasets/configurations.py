"""The configurations of a data set: folders of local files, else those that the library `datasets` finds."""

from contextlib import nullcontext
from pathlib import Path

from assaymark.datasets.dataset import DatasetSpec
from assaymark.datasets.files import split_files
from assaymark.datasets.hub import explain
from assaymark.datasets.load import names_of_same_rows
from assaymark.errors import DataError, MissingExtra
from assaymark.hub_access import hub_or_cache

__all__ = ["configurations_of"]


def configurations_of(path: str, data_dir: Path | None = None) -> list[str]:
    """Return the names of a data set's configurations; none where its files are in one folder without a name.

    Args:
        path: a folder, or a Hub id.
        data_dir: folder with local copies of data sets of the Hub; see `load_dataset`.

    Raises: MissingExtra without `datasets`, for a data set that is not local; DataError for one that is not found.
    """
    copies = [data_dir / name for name in names_of_same_rows(path)] if data_dir is not None else []
    for root in (*copies, Path(path).expanduser()):
        if not root.is_dir():
            continue
        if split_files(root) or split_files(root / "data"):
            return []
        folders = [each for each in sorted(root.iterdir()) if each.is_dir() and not each.name.startswith(("_", "."))]
        if found := [each.name for each in folders if split_files(each)]:
            return found
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
