"""Tests of the workers: real models, real processes, real databases."""
