"""Tests of assaymark.prompts."""
