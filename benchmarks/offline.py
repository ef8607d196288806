"""lm-eval without a network: `datasets.load_dataset` reads Parquet files from a folder."""

import os
from pathlib import Path
from typing import Any


def use_local_data(data: Path) -> None:
    """Make `datasets.load_dataset(path, name)` read `<data>/<path>/<name or default>/<split>.parquet`."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    import datasets

    def load_dataset(path: str, name: str | None = None, split: str | None = None, **_: Any) -> Any:
        folder = data / path / (name or "default")
        if not folder.is_dir():
            folder = next(p for p in sorted((data / path).glob("[!_]*")) if p.is_dir())
        read = {p.stem: datasets.Dataset.from_parquet(str(p)) for p in sorted(folder.glob("*.parquet"))}
        return read[split] if split else datasets.DatasetDict(read)

    datasets.load_dataset = load_dataset
