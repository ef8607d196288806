"""Which page of the arena and of studies answers which path."""
