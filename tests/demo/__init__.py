"""Tests of the demo's world, text, benchmark and models."""
