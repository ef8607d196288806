"""Rows of benchmarks, from local Parquet, JSON or CSV files or from the Hub, with a hash of their content."""

from evalstone.datasets.dataset import DatasetSpec, LoadedDataset
from evalstone.datasets.load import load_dataset
from evalstone.datasets.rows import ClassLabel, Row, Rows

__all__ = ["ClassLabel", "DatasetSpec", "LoadedDataset", "Row", "Rows", "load_dataset"]
