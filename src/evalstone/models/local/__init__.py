"""A model on this machine: its arguments, checks, and requests turned into work for the engine."""
