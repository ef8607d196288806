"""Estimates and samples as terminal tables and lists, and as JSON."""
