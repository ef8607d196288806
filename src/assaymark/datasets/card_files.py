"""The files of a data set's rows in a copy of it as the Hub has it: those that its card (README.md) names, or by name.

The card is somebody else's: a path in it that leaves the folder is refused.

Source: huggingface.co/docs/hub/datasets-manual-configuration (the key `configs` of a card).
"""

from collections.abc import Mapping
from pathlib import Path

from assaymark.datasets.dataset import DatasetSpec, LoadedDataset
from assaymark.datasets.files import READABLE, load_named, split_files
from assaymark.errors import DataError
from assaymark.limits.yaml_documents import front_matter, load_yaml
from assaymark.registry import nearest

CARD = "README.md"
MOST_BYTES = 2**20  # of a card that are read


def load_copy(spec: DatasetSpec, data_dir: Path) -> LoadedDataset | None:
    """Return the data set of a copy as the Hub has it, `<data_dir>/<path>/`; None where it has no such configuration.

    Raises: DataError for a card that cannot be read, and for paths that leave the folder.
    """
    folder = data_dir / spec.path
    named = _by_split(folder, spec.name or "default") if folder.is_dir() else {}
    files = {split: [path for name in names for path in _within(folder, name)] for split, names in named.items()}
    return load_named(spec, files) if files else None


def files_of_split(folder: Path, config: str, split: str) -> list[Path]:
    """Return the files of one split of a configuration, within the folder.

    Raises: DataError for a configuration or split that the folder does not have, and for paths that leave it.
    """
    by_config = _files_of_card(folder)
    named = _by_split(folder, config)
    is_known = bool(named) if by_config else config == "default" or (folder / config).is_dir()
    if not is_known:
        near = ", ".join(nearest(config, by_config) or by_config) or "default"
        raise DataError(f"{folder / CARD}: it has no configuration '{config:.80}'; it has: {near}")
    if not named.get(split):
        has = ", ".join(named) or f"none; expected {split}.parquet, {split}.jsonl or {split}.csv"
        raise DataError(f"{folder}: configuration '{config}' has no split '{split}'; it has {has}")
    paths = [path for name in named[split] for path in _within(folder, name)]
    if strange := next((path for path in paths if not path.name.endswith(READABLE)), None):
        raise DataError(f"{strange} has an unknown format; expected one of {', '.join(READABLE)}")
    return paths


def _by_split(folder: Path, config: str) -> dict[str, list[str]]:
    """Return split -> paths and patterns of a configuration: by the folder's card, else by the names of its files."""
    by_config = _files_of_card(folder)
    if config in by_config:
        return by_config[config]
    if not _is_inside(config):
        raise DataError(f"{folder}: configuration {config!r:.80} is not in the folder; expected a name")
    places = (folder / config,) if by_config else (folder / config, folder, folder / "data")
    try:
        found = next((files for place in places if (files := split_files(place))), {})
    except OSError as error:
        raise DataError(f"{folder}: configuration {config!r:.80}: {error.strerror or error}") from error
    return {name: [path.relative_to(folder).as_posix() for path in paths] for name, paths in found.items()}


def _within(folder: Path, name: str) -> list[Path]:
    """Return the files of a path or pattern. Raises: DataError for one that leaves the folder or matches nothing."""
    if not _is_inside(name):
        raise DataError(f"{folder / CARD}: data file {name!r:.80} is not in the folder; expected a path within it")
    path = folder / name
    try:
        paths = [path] if path.is_file() else sorted(each for each in folder.glob(name) if each.is_file())
    except (OSError, ValueError, IndexError, NotImplementedError) as error:  # as a name or pattern is malformed
        raise DataError(f"{folder / CARD}: data file {name!r:.80} is no path or pattern: {error!s:.80}") from error
    if not paths:
        raise DataError(f"{folder}: no data file {name!r:.80}")
    root = folder.resolve()
    if outside := next((each for each in paths if not each.resolve().is_relative_to(root)), None):
        raise DataError(f"{outside} is a link to a file that is not in {folder}; put the file itself there")
    return paths


def _is_inside(name: str) -> bool:
    """Return whether a relative path stays in its folder, links apart."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts and "://" not in name and "\0" not in name


def _files_of_card(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return configuration -> split -> paths and patterns of a folder's card; empty where it names none."""
    card = folder / CARD
    if not card.is_file():
        return {}
    with card.open("rb") as stream:
        head = stream.read(MOST_BYTES).decode("utf-8-sig", errors="replace")
    try:
        content = load_yaml(front_matter(head))
    except DataError as error:
        raise DataError(f"{card}: {error}") from error
    listed = content.get("configs") if isinstance(content, Mapping) else None
    configs = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return {
        str(each.get("config_name", "default")): _paths_by_split(card, files, str(each.get("data_dir") or ""))
        for each in configs
        if (files := each.get("data_files"))
    }


def _paths_by_split(card: Path, files: object, folder: str) -> dict[str, list[str]]:
    """Return split -> paths of a card's `data_files`: a path, a list of them, or the paths of each split."""
    items: list[tuple[object, object]]
    if isinstance(files, Mapping):
        items = list(files.items())
    elif isinstance(files, list) and all(isinstance(each, Mapping) for each in files):
        items = [(each.get("split"), each.get("path")) for each in files]
    else:
        items = [("train", files)]
    by_split: dict[str, list[str]] = {}
    for split, paths in items:
        names = paths if isinstance(paths, list) else [paths]
        if not isinstance(split, str) or not all(isinstance(name, str) and name for name in names):
            raise DataError(f"{card}: data_files has {split!r:.40}: {paths!r:.80}; expected a split and its paths")
        by_split.setdefault(split, []).extend(f"{folder}/{name}" if folder else str(name) for name in names)
    return by_split
