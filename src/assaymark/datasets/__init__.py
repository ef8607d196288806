"""Rows of benchmarks, from local Parquet, JSON or CSV files or from the Hub, with a hash of their content."""

from assaymark.datasets.dataset import DatasetSpec, LoadedDataset
from assaymark.datasets.load import load_dataset
from assaymark.datasets.rows import ClassLabel, Row, Rows

__all__ = ["ClassLabel", "DatasetSpec", "LoadedDataset", "Row", "Rows", "load_dataset"]
