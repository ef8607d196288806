"""Tests of evalstone.tasks."""
