"""Identify a model by its files and arguments, without loading it."""
