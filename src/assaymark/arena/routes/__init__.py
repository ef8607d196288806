"""The routes of the arena and of studies."""
