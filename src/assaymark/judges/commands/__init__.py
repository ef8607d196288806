"""Command `judge`."""
