"""Tests of `assaymark.leaderboard.commands`."""
