"""Drives an evaluation: plan, execute, resume, rescore. Imports the parts before it and no user interface."""
