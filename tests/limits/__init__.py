"""Tests of evalstone.limits."""
