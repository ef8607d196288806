"""Tests of submissions: choices, sources, checks, uploads."""
