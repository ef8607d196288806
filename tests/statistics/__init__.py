"""Tests of evalstone.statistics."""  # noqa: A005 - mirrors the source tree
