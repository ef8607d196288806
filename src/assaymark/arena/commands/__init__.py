"""Commands `arena` and `study`."""
