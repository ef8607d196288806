"""Tests of `assaymark.leaderboard.pages`."""
