"""The files of a benchmark's rows in its folder: those that its card (README.md) names, else by their names.

The folder is a copy of a data set of the Hub, so its card is somebody else's: a path in it that leaves the folder is
refused.

Source: huggingface.co/docs/hub/datasets-manual-configuration (the key `configs` of a card).
"""

from collections.abc import Mapping
from pathlib import Path

from assaymark.datasets.files import READABLE, split_files
from assaymark.errors import DataError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.registry import nearest

CARD = "README.md"
MOST_BYTES = 2**20  # of a card that are read
_FENCE = "---"


def files_of_split(folder: Path, config: str, split: str) -> list[Path]:
    """Return the files of one split of a configuration, within the folder.

    Raises: DataError for a configuration or split that the folder does not have, and for paths that leave it.
    """
    by_config = _files_of_card(folder)
    if by_config and config not in by_config and not (folder / config).is_dir():
        near = ", ".join(nearest(config, by_config)) or ", ".join(by_config)
        raise DataError(f"{folder / CARD}: it has no configuration '{config}'; it has: {near}")
    named = by_config.get(config)
    if named is None:
        places = (folder / config, folder, folder / "data")
        found = next((files for place in places if (files := split_files(place))), {})
        named = {name: [str(path.relative_to(folder)) for path in paths] for name, paths in found.items()}
    if not named.get(split):
        has = ", ".join(named) or f"none; expected {split}.parquet, {split}.jsonl or {split}.csv"
        raise DataError(f"{folder}: configuration '{config}' has no split '{split}'; it has {has}")
    paths = [path for name in named[split] for path in _within(folder, name)]
    if strange := next((path for path in paths if not path.name.endswith(READABLE)), None):
        raise DataError(f"{strange} has an unknown format; expected one of {', '.join(READABLE)}")
    return paths


def _within(folder: Path, name: str) -> list[Path]:
    """Return the files of a path or pattern. Raises: DataError for one that leaves the folder or matches nothing."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or "://" in name or "\0" in name:
        raise DataError(f"{folder / CARD}: data file {name!r:.80} is not in the folder; expected a path within it")
    paths = (
        [folder / path] if (folder / path).is_file() else sorted(each for each in folder.glob(name) if each.is_file())
    )
    if not paths:
        raise DataError(f"{folder}: no data file {name!r:.80}")
    root = folder.resolve()
    if outside := next((each for each in paths if not each.resolve().is_relative_to(root)), None):
        raise DataError(f"{outside} is a link to a file that is not in {folder}; put the file itself there")
    return paths


def _files_of_card(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return configuration -> split -> paths and patterns of a folder's card; empty where it names none."""
    card = folder / CARD
    if not card.is_file():
        return {}
    with card.open("rb") as stream:
        head = stream.read(MOST_BYTES).decode("utf-8-sig", errors="replace")
    lines = head.splitlines()
    if not lines or lines[0].strip() != _FENCE:
        return {}
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.strip() == _FENCE), len(lines))
    try:
        content = load_yaml("\n".join(lines[1:end]))
    except DataError as error:
        raise DataError(f"{card}: {error}") from error
    listed = content.get("configs") if isinstance(content, Mapping) else None
    configs = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return {
        str(each.get("config_name", "default")): _by_split(card, each["data_files"], str(each.get("data_dir") or ""))
        for each in configs
        if each.get("data_files")
    }


def _by_split(card: Path, files: object, folder: str) -> dict[str, list[str]]:
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
