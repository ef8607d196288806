"""The contents of the pages of the arena and of studies."""
