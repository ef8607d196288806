"""A model on this machine: its requests are turned into work for the engine."""
