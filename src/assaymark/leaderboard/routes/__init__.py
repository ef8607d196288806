"""Which page of the queue answers which path."""
