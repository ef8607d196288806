"""Tests of `assaymark.arena.pages`."""
