"""Tests of `assaymark.runs.commands`."""
