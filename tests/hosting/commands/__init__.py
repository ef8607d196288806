"""Tests of `assaymark.hosting.commands`."""
