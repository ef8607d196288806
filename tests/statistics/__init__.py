"""Tests of assaymark.statistics."""  # noqa: A005 - mirrors the source tree
