"""Tests of assaymark.tasks."""
