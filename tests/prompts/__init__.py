"""Tests of evalstone.prompts."""
