"""Tests of `assaymark.arena.commands`."""
