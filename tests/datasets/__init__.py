"""Tests of evalstone.datasets."""
