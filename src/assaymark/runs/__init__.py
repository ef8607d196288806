"""Drives an evaluation: plan, execute, resume, rescore. Imports no user interface."""
