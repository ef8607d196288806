"""Tests of `evalstone.models`."""
