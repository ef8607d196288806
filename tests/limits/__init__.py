"""Tests of assaymark.limits."""
