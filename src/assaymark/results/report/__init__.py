"""A report on runs: its contents, its sections, and the files it is written to."""
