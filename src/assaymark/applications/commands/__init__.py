"""Commands of applications."""
