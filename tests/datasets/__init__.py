"""Tests of assaymark.datasets."""
