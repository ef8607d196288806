"""Tests of `assaymark.models`."""
